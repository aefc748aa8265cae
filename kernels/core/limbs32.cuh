// The limb layer of the GPU: modular addition, subtraction and Montgomery multiplication over 32-bit limbs.
//
// P gives the modulus: P::bytes, P::modulus(i) and P::negative_inverse() in 64-bit words (see field/params).
// All operands and results are below the modulus.
#pragma once

#include "core/carry.cuh"

namespace provewire {

template <class P>
struct Limbs {
  static constexpr u32 n = P::bytes / 4;
  static_assert(n % 2 == 0, "products are accumulated in pairs of limbs");
  static_assert(P::bits <= 32 * n - 1, "twice the modulus must fit");

  using Word = u32;

  static HD constexpr u32 modulus(u32 i) { return static_cast<u32>(P::modulus(i / 2) >> (32 * (i % 2))); }
  static HD constexpr u32 constant(u64 word, u32 i) { return static_cast<u32>(word >> (32 * (i % 2))); }

  // x - modulus where that is not negative, else x; for x below twice the modulus.
  static HD void reduce_once(u32* x) {
    Carry carry;
    u32 y[n];
    y[0] = carry.sub(x[0], modulus(0));
    UNROLL
    for (u32 i = 1; i < n; ++i) y[i] = carry.subc(x[i], modulus(i));
    const u32 keep = carry.borrow_mask();
    UNROLL
    for (u32 i = 0; i < n; ++i) x[i] = (x[i] & keep) | (y[i] & ~keep);
  }

  static HD void add(u32* z, const u32* x, const u32* y) {
    Carry carry;
    z[0] = carry.add(x[0], y[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(x[i], y[i]);
    reduce_once(z);
  }

  static HD void sub(u32* z, const u32* x, const u32* y) {
    Carry carry;
    z[0] = carry.sub(x[0], y[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.subc(x[i], y[i]);
    const u32 add_back = carry.borrow_mask();
    z[0] = carry.add(z[0], modulus(0) & add_back);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(z[i], modulus(i) & add_back);
  }

  // even, odd += x * y, where even holds the columns 0 to n - 1 and odd the columns 1 to n of a sum. Products
  // of even limbs of x fall on pairs of columns that begin at an even one, those of odd limbs on the others;
  // so each of the two is one carry chain over whole products. `carry` comes in to odd's first column.
  // The sum never reaches 2^(32 (n + 1)), which bounds odd: only even's chain can carry out, into column n.
  static HD void multiply_add(u32* even, u32* odd, const u32* x, u32 y, Carry& carry) {
    UNROLL
    for (u32 j = 0; j < n; j += 2) {
      odd[j] = carry.madc_lo(x[j + 1], y, odd[j]);
      odd[j + 1] = carry.madc_hi(x[j + 1], y, odd[j + 1]);
    }
    even[0] = carry.mad_lo(x[0], y, even[0]);
    even[1] = carry.madc_hi(x[0], y, even[1]);
    UNROLL
    for (u32 j = 2; j < n; j += 2) {
      even[j] = carry.madc_lo(x[j], y, even[j]);
      even[j + 1] = carry.madc_hi(x[j], y, even[j + 1]);
    }
    odd[n - 1] = carry.addc(odd[n - 1], 0);
  }

  // One limb of Montgomery multiplication: adds x * y, then the multiple of the modulus that clears column 0.
  // The caller drops that column by reading odd as the new even columns and even, two places on, as the new
  // odd ones; the limb left at even[1] belongs to the new column 0.
  static HD void step(u32* even, u32* odd, const u32* x, u32 y, Carry& carry) {
    multiply_add(even, odd, x, y, carry);
    const u32 m = even[0] * static_cast<u32>(P::negative_inverse());
    u32 p[n];
    UNROLL
    for (u32 i = 0; i < n; ++i) p[i] = modulus(i);
    // The last addition of the sum before left no carry.
    multiply_add(even, odd, p, m, carry);
  }

  // Drops column 0 of even: its columns 2 to n - 1 become the odd columns 1 to n - 2 of the next step, and
  // its column 1 is added to the next even column 0. The carry of that goes into the next step.
  static HD void shift(u32* even, u32* odd, Carry& carry) {
    odd[0] = carry.add(odd[0], even[1]);
    UNROLL
    for (u32 j = 0; j + 2 < n; ++j) even[j] = even[j + 2];
    even[n - 2] = 0;
    even[n - 1] = 0;
  }

  // z = x * y / 2^(32 n) mod modulus.
  static HD void multiply(u32* z, const u32* x, const u32* y) {
    u32 a[n] = {};
    u32 b[n] = {};
    Carry carry;
    carry.add(0, 0);
    UNROLL
    for (u32 i = 0; i < n; i += 2) {
      step(a, b, x, y[i], carry);
      shift(a, b, carry);
      step(b, a, x, y[i + 1], carry);
      shift(b, a, carry);
    }
    // a holds the columns from 0, b those from 1; the carry out of column 0 is still pending.
    z[0] = a[0];
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(a[i], b[i - 1]);
    reduce_once(z);
  }
};

}  // namespace provewire
