// Chains of 32-bit operations with a carry between them, as PTX has them.
//
// On the GPU the carry is the CC register, and a Carry object is only the order of the instructions. Where
// PROVEWIRE_EMULATE_CARRY is defined, a CPU runs the same chains with the bit held in the object, so that the
// limb sequences of the device can be tested without one.
#pragma once

#include "core/platform.cuh"

namespace provewire {

#if defined(__CUDA_ARCH__)

struct Carry {
  // x + y, begins a chain.
  __device__ __forceinline__ u32 add(u32 x, u32 y) {
    u32 z;
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  // x + y + carry.
  __device__ __forceinline__ u32 addc(u32 x, u32 y) {
    u32 z;
    asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  // x - y, begins a chain of borrows.
  __device__ __forceinline__ u32 sub(u32 x, u32 y) {
    u32 z;
    asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  // x - y - borrow.
  __device__ __forceinline__ u32 subc(u32 x, u32 y) {
    u32 z;
    asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  // All ones where the chain of borrows ended in one, else zero.
  __device__ __forceinline__ u32 borrow_mask() {
    u32 z;
    asm volatile("subc.u32 %0, 0, 0;" : "=r"(z));
    return z;
  }
  // Low half of x * y, plus z; begins a chain.
  __device__ __forceinline__ u32 mad_lo(u32 x, u32 y, u32 z) {
    u32 w;
    asm volatile("mad.lo.cc.u32 %0, %1, %2, %3;" : "=r"(w) : "r"(x), "r"(y), "r"(z));
    return w;
  }
  // Low half of x * y, plus z and the carry.
  __device__ __forceinline__ u32 madc_lo(u32 x, u32 y, u32 z) {
    u32 w;
    asm volatile("madc.lo.cc.u32 %0, %1, %2, %3;" : "=r"(w) : "r"(x), "r"(y), "r"(z));
    return w;
  }
  // High half of x * y, plus z and the carry.
  __device__ __forceinline__ u32 madc_hi(u32 x, u32 y, u32 z) {
    u32 w;
    asm volatile("madc.hi.cc.u32 %0, %1, %2, %3;" : "=r"(w) : "r"(x), "r"(y), "r"(z));
    return w;
  }
};

#elif defined(PROVEWIRE_EMULATE_CARRY) || defined(__CUDACC__)

// Also what nvcc's host pass sees; it never runs there.
struct Carry {
  u32 bit = 0;

  HD u32 take(u64 sum) {
    bit = static_cast<u32>(sum >> 32) & 1;
    return static_cast<u32>(sum);
  }
  HD u32 add(u32 x, u32 y) { return take(u64{x} + y); }
  HD u32 addc(u32 x, u32 y) { return take(u64{x} + y + bit); }
  HD u32 sub(u32 x, u32 y) { return take(u64{x} - y); }
  HD u32 subc(u32 x, u32 y) { return take(u64{x} - y - bit); }
  HD u32 borrow_mask() { return 0 - bit; }
  HD u32 mad_lo(u32 x, u32 y, u32 z) { return take(u64{static_cast<u32>(u64{x} * y)} + z); }
  HD u32 madc_lo(u32 x, u32 y, u32 z) { return take(u64{static_cast<u32>(u64{x} * y)} + z + bit); }
  HD u32 madc_hi(u32 x, u32 y, u32 z) { return take((u64{x} * y >> 32) + z + bit); }
};

#endif

}  // namespace provewire
