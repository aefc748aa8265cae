// A libcuda.so.1 for machines without a card: it has every function that PyCUDA links to, keeps device memory in the
// process, and runs kernels by their host build. Everything is done at once, and every misuse it can see ends the process.
//
//   FAKE_CUDA_DEVICES   how many cards there are; 1 where it is not set. With 0, cuInit says that there is none.
//   FAKE_CUDA_VERSION   what cuDriverGetVersion says; 13000 where it is not set
//   FAKE_CUDA_KERNELS   shared objects of the host build, separated by colons
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef int Result;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_SUPPORTED = 801 };
enum { MEMORY = 1 << 30, PLACES = 4096, OBJECTS = 16 };

typedef struct {
  char* memory;
  u64 bytes;
} Place;

static Place places[PLACES];
static u64 used;
static int contexts;

#define UNSUPPORTED(name) \
  Result name(void) { return NOT_SUPPORTED; }

static int number(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static void fatal(const char* what) {
  fprintf(stderr, "fake libcuda: %s\n", what);
  abort();
}

static void check(u64 address, u64 bytes) {
  for (int i = 0; i < PLACES; ++i) {
    const u64 base = (u64)places[i].memory;
    if (base && base <= address && address + bytes <= base + places[i].bytes) return;
  }
  fatal("memory that is nobody's");
}

Result cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_CUDA_DEVICES", 1) > 0 ? SUCCESS : NO_DEVICE;
}
Result cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return SUCCESS;
}
Result cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_DEVICES", 1);
  return SUCCESS;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < number("FAKE_CUDA_DEVICES", 1) ? SUCCESS : INVALID_DEVICE;
}
Result cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, length, "Fake card %d", device);
  return SUCCESS;
}
Result cuDeviceGetUuid(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(16 * device + i);
  return SUCCESS;
}
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? 4 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 99 << 10 : 1024;
  return SUCCESS;
}
Result cuDeviceComputeCapability(int* major, int* minor, int device) {
  (void)device;
  *major = 9;
  *minor = 0;
  return SUCCESS;
}
Result cuDeviceTotalMem_v2(u64* bytes, int device) {
  (void)device;
  *bytes = MEMORY;
  return SUCCESS;
}
Result cuDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, length, "0000:%02x:00.0", device + 1);
  return SUCCESS;
}
Result cuCtxCreate_v4(void** context, void* parameters, unsigned flags, int device) {
  (void)parameters, (void)flags, (void)device;
  ++contexts;
  *context = &contexts;
  return SUCCESS;
}
Result cuCtxDetach(void* context) {
  (void)context;
  if (--contexts < 0) fatal("a context was detached twice");
  for (int i = 0; i < PLACES; ++i) {
    if (places[i].memory) fatal("device memory was left behind");
  }
  return SUCCESS;
}
Result cuCtxPopCurrent_v2(void** context) {
  if (context) *context = &contexts;
  return SUCCESS;
}
Result cuCtxPushCurrent_v2(void* context) {
  (void)context;
  return SUCCESS;
}
Result cuCtxGetDevice(int* device) {
  *device = 0;
  return SUCCESS;
}
Result cuCtxSynchronize(void) { return SUCCESS; }
Result cuCtxGetApiVersion(void* context, unsigned* version) {
  (void)context;
  *version = 3020;
  return SUCCESS;
}
Result cuGetErrorString(Result error, const char** text) {
  *text = error == NO_DEVICE       ? "no CUDA-capable device is detected"
          : error == OUT_OF_MEMORY ? "out of memory"
          : error == NOT_FOUND     ? "named symbol not found"
                                   : "a fake error";
  return SUCCESS;
}
Result cuMemGetInfo_v2(u64* free_bytes, u64* total) {
  *free_bytes = MEMORY - used;
  *total = MEMORY;
  return SUCCESS;
}
Result cuMemAlloc_v2(u64* address, u64 bytes) {
  if (bytes == 0) return INVALID_VALUE;
  if (used + bytes > MEMORY) return OUT_OF_MEMORY;
  for (int i = 0; i < PLACES; ++i) {
    if (places[i].memory) continue;
    places[i].memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    places[i].bytes = bytes;
    memset(places[i].memory, 0xa5, bytes);
    used += bytes;
    *address = (u64)places[i].memory;
    return SUCCESS;
  }
  return OUT_OF_MEMORY;
}
Result cuMemFree_v2(u64 address) {
  for (int i = 0; i < PLACES; ++i) {
    if ((u64)places[i].memory != address) continue;
    free(places[i].memory);
    used -= places[i].bytes;
    places[i].memory = NULL;
    return SUCCESS;
  }
  fatal("memory was freed that is nobody's");
  return INVALID_VALUE;
}
Result cuMemHostAlloc(void** memory, u64 bytes, unsigned flags) {
  (void)flags;
  *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory ? SUCCESS : OUT_OF_MEMORY;
}
Result cuMemFreeHost(void* memory) {
  free(memory);
  return SUCCESS;
}
Result cuMemHostRegister_v2(void* memory, u64 bytes, unsigned flags) {
  (void)flags;
  return (u64)memory % 4096 || bytes % 4096 ? INVALID_VALUE : SUCCESS;
}
Result cuMemHostUnregister(void* memory) {
  (void)memory;
  return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(u64 address, const void* host, u64 bytes, void* stream) {
  (void)stream;
  check(address, bytes);
  memcpy((void*)address, host, bytes);
  return SUCCESS;
}
Result cuMemcpyDtoHAsync_v2(void* host, u64 address, u64 bytes, void* stream) {
  (void)stream;
  check(address, bytes);
  memcpy(host, (const void*)address, bytes);
  return SUCCESS;
}
Result cuMemsetD8Async(u64 address, unsigned char value, u64 bytes, void* stream) {
  (void)stream;
  check(address, bytes);
  memset((void*)address, value, bytes);
  return SUCCESS;
}

// Streams, events and modules are nothing here: everything has been done.
static Result make(void** object) {
  *object = malloc(OBJECTS);
  return *object ? SUCCESS : OUT_OF_MEMORY;
}
static Result drop(void* object) {
  free(object);
  return SUCCESS;
}
Result cuStreamCreate(void** stream, unsigned flags) {
  (void)flags;
  return make(stream);
}
Result cuStreamDestroy_v2(void* stream) { return drop(stream); }
Result cuStreamSynchronize(void* stream) { return stream ? SUCCESS : INVALID_VALUE; }
Result cuStreamWaitEvent(void* stream, void* event, unsigned flags) { return stream && event && !flags ? SUCCESS : INVALID_VALUE; }
Result cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return make(event);
}
Result cuEventDestroy_v2(void* event) { return drop(event); }
Result cuEventRecord(void* event, void* stream) { return stream && event ? SUCCESS : INVALID_VALUE; }
Result cuEventSynchronize(void* event) { return event ? SUCCESS : INVALID_VALUE; }
Result cuModuleLoadDataEx(void** module, const void* image, unsigned count, void* options, void* values) {
  (void)image, (void)count, (void)options, (void)values;
  return make(module);
}
Result cuModuleUnload(void* module) { return drop(module); }

// A function is its symbol in one of the shared objects, which know their own launches' shape.
typedef struct {
  void* symbol;
  void (*shape)(u64, u64, uint32_t, u64, uint32_t);
} Function;

Result cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module;
  static char paths[16384];
  snprintf(paths, sizeof paths, "%s", getenv("FAKE_CUDA_KERNELS") ? getenv("FAKE_CUDA_KERNELS") : "");
  for (char* path = strtok(paths, ":"); path; path = strtok(NULL, ":")) {
    void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void* symbol = object ? dlsym(object, name) : NULL;
    if (!symbol) continue;
    Function* made = malloc(sizeof *made);
    made->symbol = symbol;
    *(void**)&made->shape = dlsym(object, "provewire_shape");
    *function = made;
    return SUCCESS;
  }
  return NOT_FOUND;
}
Result cuFuncSetAttribute(void* function, int attribute, int value) {
  return function && attribute == 8 && value <= 99 << 10 ? SUCCESS : INVALID_VALUE;
}
Result cuFuncGetAttribute(int* value, int attribute, void* function) {
  (void)attribute, (void)function;
  *value = 0;
  return SUCCESS;
}
Result cuFuncSetBlockShape(void* function, int x, int y, int z) {
  return function && x && y == 1 && z == 1 ? SUCCESS : INVALID_VALUE;
}

Result cuLaunchKernel(const Function* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                      unsigned threads_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
  if (!stream || parameters || !extra || z != 1 || threads_y != 1 || threads_z != 1 || threads > 1024 || !x || !y)
    return INVALID_VALUE;
  // Pairs of what follows and where it is: 1 the arguments, 2 their size, 0 the end.
  const u64* given = NULL;
  u64 bytes = 0;
  for (; *extra; extra += 2) {
    if (extra[0] == (void*)1) given = extra[1];
    if (extra[0] == (void*)2) bytes = *(const u64*)extra[1];
  }
  if (!given || bytes % 8 || bytes > 16 * 8) return INVALID_VALUE;
  u64 a[16] = {0};
  memcpy(a, given, bytes);
  function->shape(x, y, threads, shared_bytes, 1);
  typedef void (*Kernel)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);
  // Whoever takes fewer arguments does not look at the rest.
  Kernel kernel;
  *(void**)&kernel = function->symbol;
  kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
  return SUCCESS;
}

// What PyCUDA links to and we never call.
UNSUPPORTED(cuArray3DCreate_v2) UNSUPPORTED(cuArray3DGetDescriptor_v2) UNSUPPORTED(cuArrayCreate_v2)
UNSUPPORTED(cuArrayDestroy) UNSUPPORTED(cuArrayGetDescriptor_v2) UNSUPPORTED(cuCtxAttach)
UNSUPPORTED(cuCtxDisablePeerAccess) UNSUPPORTED(cuCtxEnablePeerAccess) UNSUPPORTED(cuCtxGetCacheConfig)
UNSUPPORTED(cuCtxGetLimit) UNSUPPORTED(cuCtxGetSharedMemConfig) UNSUPPORTED(cuCtxSetCacheConfig)
UNSUPPORTED(cuCtxSetLimit) UNSUPPORTED(cuCtxSetSharedMemConfig) UNSUPPORTED(cuDeviceCanAccessPeer)
UNSUPPORTED(cuDeviceGetByPCIBusId) UNSUPPORTED(cuDevicePrimaryCtxRelease_v2) UNSUPPORTED(cuDevicePrimaryCtxRetain)
UNSUPPORTED(cuEventElapsedTime_v2) UNSUPPORTED(cuEventQuery) UNSUPPORTED(cuFuncSetCacheConfig)
UNSUPPORTED(cuFuncSetSharedSize) UNSUPPORTED(cuIpcCloseMemHandle) UNSUPPORTED(cuIpcGetEventHandle)
UNSUPPORTED(cuIpcGetMemHandle) UNSUPPORTED(cuIpcOpenEventHandle) UNSUPPORTED(cuIpcOpenMemHandle_v2)
UNSUPPORTED(cuLaunch) UNSUPPORTED(cuLaunchGrid) UNSUPPORTED(cuLaunchGridAsync) UNSUPPORTED(cuLinkAddData_v2)
UNSUPPORTED(cuLinkAddFile_v2) UNSUPPORTED(cuLinkComplete) UNSUPPORTED(cuLinkCreate_v2) UNSUPPORTED(cuLinkDestroy)
UNSUPPORTED(cuMemAllocManaged) UNSUPPORTED(cuMemAllocPitch_v2) UNSUPPORTED(cuMemGetAddressRange_v2)
UNSUPPORTED(cuMemHostGetDevicePointer_v2) UNSUPPORTED(cuMemHostGetFlags) UNSUPPORTED(cuMemcpy2DAsync_v2)
UNSUPPORTED(cuMemcpy2DUnaligned_v2) UNSUPPORTED(cuMemcpy2D_v2) UNSUPPORTED(cuMemcpy3DAsync_v2)
UNSUPPORTED(cuMemcpy3DPeer) UNSUPPORTED(cuMemcpy3DPeerAsync) UNSUPPORTED(cuMemcpy3D_v2) UNSUPPORTED(cuMemcpyAtoA_v2)
UNSUPPORTED(cuMemcpyAtoD_v2) UNSUPPORTED(cuMemcpyAtoH_v2) UNSUPPORTED(cuMemcpyDtoA_v2)
UNSUPPORTED(cuMemcpyDtoDAsync_v2) UNSUPPORTED(cuMemcpyDtoD_v2) UNSUPPORTED(cuMemcpyDtoH_v2)
UNSUPPORTED(cuMemcpyHtoA_v2) UNSUPPORTED(cuMemcpyHtoD_v2) UNSUPPORTED(cuMemcpyPeer) UNSUPPORTED(cuMemcpyPeerAsync)
UNSUPPORTED(cuMemsetD16Async) UNSUPPORTED(cuMemsetD16_v2) UNSUPPORTED(cuMemsetD2D16Async)
UNSUPPORTED(cuMemsetD2D16_v2) UNSUPPORTED(cuMemsetD2D32Async) UNSUPPORTED(cuMemsetD2D32_v2)
UNSUPPORTED(cuMemsetD2D8Async) UNSUPPORTED(cuMemsetD2D8_v2) UNSUPPORTED(cuMemsetD32Async) UNSUPPORTED(cuMemsetD32_v2)
UNSUPPORTED(cuMemsetD8_v2) UNSUPPORTED(cuModuleGetGlobal_v2) UNSUPPORTED(cuModuleGetSurfRef)
UNSUPPORTED(cuModuleGetTexRef) UNSUPPORTED(cuModuleLoad) UNSUPPORTED(cuModuleLoadData) UNSUPPORTED(cuParamSetSize)
UNSUPPORTED(cuParamSetTexRef) UNSUPPORTED(cuParamSetf) UNSUPPORTED(cuParamSeti) UNSUPPORTED(cuParamSetv)
UNSUPPORTED(cuProfilerInitialize) UNSUPPORTED(cuProfilerStart) UNSUPPORTED(cuProfilerStop)
UNSUPPORTED(cuStreamAttachMemAsync) UNSUPPORTED(cuStreamQuery) UNSUPPORTED(cuSurfRefGetArray)
UNSUPPORTED(cuSurfRefSetArray) UNSUPPORTED(cuTexRefCreate) UNSUPPORTED(cuTexRefDestroy)
UNSUPPORTED(cuTexRefGetAddressMode) UNSUPPORTED(cuTexRefGetAddress_v2) UNSUPPORTED(cuTexRefGetArray)
UNSUPPORTED(cuTexRefGetFilterMode) UNSUPPORTED(cuTexRefGetFlags) UNSUPPORTED(cuTexRefGetFormat)
UNSUPPORTED(cuTexRefSetAddress2D_v3) UNSUPPORTED(cuTexRefSetAddressMode) UNSUPPORTED(cuTexRefSetAddress_v2)
UNSUPPORTED(cuTexRefSetArray) UNSUPPORTED(cuTexRefSetFilterMode) UNSUPPORTED(cuTexRefSetFlags)
UNSUPPORTED(cuTexRefSetFormat)
