/* The part of NVML's interface that the agent calls: numbers and layouts as in the vendor's documentation. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    MISMATCH = 18,
};

typedef int result;
typedef struct card *device;

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct process_sample {
    unsigned pid;
    unsigned long long time;
    unsigned sm, memory, encoder, decoder;
};

struct temperature {
    unsigned version, sensor;
    int celsius;
};

union value {
    double d;
    unsigned u;
    unsigned long ul;
    unsigned long long ull;
    long long ll;
};

struct field {
    unsigned id, scope;
    long long time, latency;
    unsigned type;
    result status;
    union value value;
};

struct event {
    device card;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

#define XID_EVENT 8ULL
#define FIELD_MEMORY_TEMPERATURE 82
#define FIELD_PCIE_TX_BYTES 197
#define FIELD_PCIE_RX_BYTES 198

#endif
