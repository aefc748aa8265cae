// What differs between the two compilers, and nothing else: decorations, word sizes, atomics.
//
// nvcc sees CUDA. A plain C++ compiler sees the same text with empty decorations; `launch.cuh` then runs
// the kernels on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define HD __host__ __device__ __forceinline__
#define HD_CALL __host__ __device__ __noinline__
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("unroll 1")
#else
#define HD inline __attribute__((always_inline))
#define HD_CALL __attribute__((noinline))
#if defined(PROVEWIRE_EMULATE_CARRY)
#define UNROLL  // for tests: quick to compile counts more than quick to run
#elif defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define KEEP_LOOP
#define __global__ __attribute__((visibility("default")))
#endif

namespace provewire {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Adds to a counter that other threads, possibly of other blocks, add to as well; returns the old value.
HD u32 atomic_add(u32* counter, u32 amount) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, amount);
#else
  return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

// Puts a value where there is zero, and returns what was there; other threads may do the same.
HD u32 atomic_claim(u32* place, u32 value) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(place, 0u, value);
#else
  u32 found = 0;
  __atomic_compare_exchange_n(place, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return found;
#endif
}

// Reverses the lowest `bits` bits of `value`; the others must be zero. `bits` is 1 to 64.
HD u64 reverse_bits(u64 value, u32 bits) {
#if defined(__CUDA_ARCH__)
  return __brevll(value) >> (64 - bits);
#else
  value = (value >> 1 & 0x5555555555555555) | (value & 0x5555555555555555) << 1;
  value = (value >> 2 & 0x3333333333333333) | (value & 0x3333333333333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f0f0f0f0f) | (value & 0x0f0f0f0f0f0f0f0f) << 4;
  return __builtin_bswap64(value) >> (64 - bits);
#endif
}

}  // namespace provewire
