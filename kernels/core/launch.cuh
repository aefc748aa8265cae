// The barrier-phase form, in which every kernel of the project is written.
//
// A kernel is a struct whose members are the arguments of its entry, with
//
//   struct Thread {...};                       what a thread keeps from phase to phase
//   HD u32 phases(At at) const;                how many phases; the same for every thread of a block
//   HD void phase(u32 k, At at, u8* shared, Thread& mine) const;
//
// Between two phases lies a barrier of the block; within a phase a thread may read only such shared and
// global memory as no other thread of its block writes in the same phase. The GPU runs the phases of all
// threads at once with __syncthreads() between them; the CPU runs phase k of every thread of a block, then
// phase k + 1. Blocks never wait for each other, so the CPU runs them on as many threads as it is told, and
// what a launch leaves behind does not depend on that number.
//
// An entry is a `__global__` function of 8-byte arguments whose whole body is RUN(kernel).
#pragma once

#include "core/platform.cuh"

#if !defined(__CUDACC__)
#include <atomic>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>
#endif

namespace provewire {

// Where a thread stands in its launch. Blocks form a grid of blocks_x by blocks_y.
struct At {
  u64 block_x;
  u64 block_y;
  u64 blocks_x;
  u32 thread;
  u32 threads;

  HD u64 index() const { return block_x * threads + thread; }
};

struct NoState {};

#if defined(__CUDACC__)

template <class Kernel>
__device__ __forceinline__ void run_phases(const Kernel& kernel) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  const At at{blockIdx.x, blockIdx.y, gridDim.x, threadIdx.x, blockDim.x};
  typename Kernel::Thread mine{};
  const u32 phases = kernel.phases(at);
  KEEP_LOOP
  for (u32 k = 0; k < phases; ++k) {
    if (k != 0) __syncthreads();
    kernel.phase(k, at, shared_memory, mine);
  }
}

#define RUN(...) ::provewire::run_phases(__VA_ARGS__)

#else

// The shape of the calling thread's next launch; set by provewire_shape, used up by the launch.
struct Shape {
  u64 blocks_x = 0;
  u64 blocks_y = 0;
  u32 threads = 0;
  u32 cpu_threads = 1;
  u64 shared_bytes = 0;
};

inline thread_local Shape next_shape;

// How often an entry has run to its end in this process; the entries form a list.
struct EntryCount {
  explicit EntryCount(const char* entry) : name(entry) {
    next = first.load();
    while (!first.compare_exchange_weak(next, this)) {
    }
  }
  const char* name;
  std::atomic<u64> runs{0};
  EntryCount* next;
  static inline std::atomic<EntryCount*> first{nullptr};
};

struct AlignedDelete {
  void operator()(u8* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};

// The i-th of `count` threads or blocks to run. Results may not depend on the order: tests define
// PROVEWIRE_REVERSE_ORDER to see that they do not, which shows up many a missing barrier.
inline u64 in_order(u64 i, u64 count) {
#if defined(PROVEWIRE_REVERSE_ORDER)
  return count - 1 - i;
#else
  (void)count;
  return i;
#endif
}

template <class Kernel>
void run_block(const Kernel& kernel, const Shape& shape, u64 block, u8* shared, typename Kernel::Thread* threads) {
  At at{block % shape.blocks_x, block / shape.blocks_x, shape.blocks_x, 0, shape.threads};
  for (u32 t = 0; t < shape.threads; ++t) threads[t] = typename Kernel::Thread{};
  const u32 phases = kernel.phases(at);
  for (u32 k = 0; k < phases; ++k) {
    for (u32 i = 0; i < shape.threads; ++i) {
      at.thread = static_cast<u32>(in_order(i, shape.threads));
      kernel.phase(k, at, shared, threads[at.thread]);
    }
  }
}

template <class Kernel>
void run_grid(EntryCount& count, const Kernel& kernel) {
  const Shape shape = next_shape;
  next_shape = Shape{};
  const u64 blocks = shape.blocks_x * shape.blocks_y;
  if (blocks == 0 || shape.threads == 0) return;
  std::atomic<u64> next_block{0};
  const auto work = [&] {
    std::unique_ptr<u8[], AlignedDelete> shared(
        static_cast<u8*>(::operator new[](shape.shared_bytes + 64, std::align_val_t{64})));
    std::vector<typename Kernel::Thread> threads(shape.threads);
    for (u64 block = next_block++; block < blocks; block = next_block++) {
      run_block(kernel, shape, in_order(block, blocks), shared.get(), threads.data());
    }
  };
  const u64 helpers = (shape.cpu_threads < blocks ? shape.cpu_threads : blocks) - 1;
  std::vector<std::thread> pool;
  pool.reserve(helpers);
  for (u64 i = 0; i < helpers; ++i) {
    // A machine that will not give another thread still gets the work done, by those it gave.
    try {
      pool.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  work();
  for (std::thread& helper : pool) helper.join();
  count.runs.fetch_add(1);
}

#define RUN(...)                                                 \
  do {                                                           \
    static ::provewire::EntryCount runs_of_this_entry(__func__); \
    ::provewire::run_grid(runs_of_this_entry, __VA_ARGS__);      \
  } while (false)

#endif

}  // namespace provewire
