// The limb layer of the CPU: modular addition, subtraction and Montgomery multiplication over 64-bit limbs.
//
// Same interface, same bytes and same results as limbs32.cuh.
#pragma once

#include "core/platform.cuh"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/adx.cuh"

namespace provewire {

template <class P>
struct Limbs {
  static constexpr u32 n = P::bytes / 8;
  // Also what lets multiply() go without a word for the carry out of its highest limb.
  static_assert(P::bits <= 64 * n - 1, "twice the modulus must fit");

  // Elements are kept below the modulus.
  static constexpr bool redundant = false;

  using Word = u64;
  using Wide = unsigned __int128;

  static HD constexpr u64 modulus(u32 i) { return P::modulus(i); }
  static HD constexpr u64 constant(u64 word, u32 /*i*/) { return word; }

  // x + y + carry and x - y - borrow; the carry and the borrow are 0 or 1.
  static HD u64 add_carry(u64 x, u64 y, u8& carry) {
#if defined(__x86_64__)
    unsigned long long z;
    carry = _addcarry_u64(carry, x, y, &z);
    return z;
#else
    const Wide sum = Wide{x} + y + carry;
    carry = static_cast<u8>(sum >> 64);
    return static_cast<u64>(sum);
#endif
  }
  static HD u64 sub_borrow(u64 x, u64 y, u8& borrow) {
#if defined(__x86_64__)
    unsigned long long z;
    borrow = _subborrow_u64(borrow, x, y, &z);
    return z;
#else
    const Wide difference = Wide{x} - y - borrow;
    borrow = static_cast<u8>(difference >> 64) & 1;
    return static_cast<u64>(difference);
#endif
  }

  // x - modulus where that is not negative, else x; for x below twice the modulus.
  static HD void reduce_once(u64* x) {
    u64 y[n];
    u8 borrow = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) y[i] = sub_borrow(x[i], modulus(i), borrow);
    const u64 keep = u64{0} - borrow;
    UNROLL
    for (u32 i = 0; i < n; ++i) x[i] = (x[i] & keep) | (y[i] & ~keep);
  }

  static HD void canonical(u64* /*x*/) {}

  static HD bool is_zero(const u64* x) {
    u64 bits = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) bits |= x[i];
    return bits == 0;
  }

  static HD void add(u64* z, const u64* x, const u64* y) {
    u8 carry = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) z[i] = add_carry(x[i], y[i], carry);
    reduce_once(z);
  }

  static HD void sub(u64* z, const u64* x, const u64* y) {
    u8 borrow = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) z[i] = sub_borrow(x[i], y[i], borrow);
    const u64 add_back = u64{0} - borrow;
    u8 carry = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) z[i] = add_carry(z[i], modulus(i) & add_back, carry);
  }

  static HD void square(u64* z, const u64* x) { multiply(z, x, x); }

  // z = x * y / 2^(64 n) mod modulus. Each round adds x * y[i] and the multiple of the modulus that clears the
  // lowest limb, and moves down by it. A call, not inlined: ten of them in one addition of points leave g++ 12
  // too few registers, and take twice the time (Xeon, 2 vCPU, November 2026).
  static HD_CALL void multiply(u64* z, const u64* x, const u64* y) {
#if defined(PROVEWIRE_ADX)
    if constexpr (n == 4 || n == 6) {
      Adx<P>::multiply(z, x, y);
      reduce_once(z);
      return;
    }
#endif
    u64 t[n] = {};
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      Wide product = Wide{x[0]} * y[i] + t[0];
      u64 high = static_cast<u64>(product >> 64);
      t[0] = static_cast<u64>(product);
      const u64 m = t[0] * P::negative_inverse();
      Wide cleared = Wide{m} * modulus(0) + t[0];
      u64 cleared_high = static_cast<u64>(cleared >> 64);
      UNROLL
      for (u32 j = 1; j < n; ++j) {
        product = Wide{x[j]} * y[i] + t[j] + high;
        high = static_cast<u64>(product >> 64);
        cleared = Wide{m} * modulus(j) + static_cast<u64>(product) + cleared_high;
        cleared_high = static_cast<u64>(cleared >> 64);
        t[j - 1] = static_cast<u64>(cleared);
      }
      t[n - 1] = high + cleared_high;
    }
    UNROLL
    for (u32 i = 0; i < n; ++i) z[i] = t[i];
    reduce_once(z);
  }
};

}  // namespace provewire
