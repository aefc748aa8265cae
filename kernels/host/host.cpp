// The host device: every entry, compiled by a plain C++ compiler, and what its caller needs beside them.
//
// Built into a shared object by prover/backends/host.py, which states the entry files to take in.
#include <cstring>

#include "core/launch.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

using provewire::u32;
using provewire::u64;

// The shape of the next launch of the calling thread: a grid of blocks, threads in each, bytes of shared memory for
// each, and the number of CPU threads that share the blocks out.
EXPORT void provewire_shape(u64 blocks_x, u64 blocks_y, u32 threads, u64 shared_bytes, u32 cpu_threads) {
  provewire::next_shape =
      provewire::Shape{blocks_x, blocks_y, threads, cpu_threads == 0 ? 1 : cpu_threads, shared_bytes};
}

// How often an entry has run in this process.
EXPORT u64 provewire_entry_runs(const char* entry) {
  for (provewire::EntryCount* count = provewire::EntryCount::first.load(); count != nullptr; count = count->next) {
    if (std::strcmp(count->name, entry) == 0) return count->runs.load();
  }
  return 0;
}
