// The limb layer of the CPU: modular addition, subtraction and Montgomery multiplication over 64-bit limbs.
//
// Same interface, same bytes and same results as limbs32.cuh.
#pragma once

#include "core/platform.cuh"

namespace provewire {

template <class P>
struct Limbs {
  static constexpr u32 n = P::bytes / 8;
  // Also what lets multiply() go without a word for the carry out of its highest limb.
  static_assert(P::bits <= 64 * n - 1, "twice the modulus must fit");

  using Word = u64;
  using Wide = unsigned __int128;

  static HD constexpr u64 modulus(u32 i) { return P::modulus(i); }
  static HD constexpr u64 constant(u64 word, u32 /*i*/) { return word; }

  // x - modulus where that is not negative, else x; for x below twice the modulus.
  static HD void reduce_once(u64* x) {
    u64 y[n];
    u64 borrow = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      const Wide difference = Wide{x[i]} - modulus(i) - borrow;
      y[i] = static_cast<u64>(difference);
      borrow = static_cast<u64>(difference >> 64) & 1;
    }
    const u64 keep = 0 - borrow;
    UNROLL
    for (u32 i = 0; i < n; ++i) x[i] = (x[i] & keep) | (y[i] & ~keep);
  }

  static HD void add(u64* z, const u64* x, const u64* y) {
    u64 carry = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      const Wide sum = Wide{x[i]} + y[i] + carry;
      z[i] = static_cast<u64>(sum);
      carry = static_cast<u64>(sum >> 64);
    }
    reduce_once(z);
  }

  static HD void sub(u64* z, const u64* x, const u64* y) {
    u64 borrow = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      const Wide difference = Wide{x[i]} - y[i] - borrow;
      z[i] = static_cast<u64>(difference);
      borrow = static_cast<u64>(difference >> 64) & 1;
    }
    const u64 add_back = 0 - borrow;
    u64 carry = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      const Wide sum = Wide{z[i]} + (modulus(i) & add_back) + carry;
      z[i] = static_cast<u64>(sum);
      carry = static_cast<u64>(sum >> 64);
    }
  }

  // z = x * y / 2^(64 n) mod modulus. Each round adds x * y[i] and the multiple of the modulus that clears the
  // lowest limb, and moves down by it.
  static HD void multiply(u64* z, const u64* x, const u64* y) {
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
