// The limb layer of the GPU: modular addition, subtraction and Montgomery multiplication over 32-bit limbs.
//
// P gives the modulus: P::bytes, P::modulus(i) and P::negative_inverse() in 64-bit words (see field/params).
//
// Where five times the modulus p is below the radix R, elements are kept below 2p: for x and y below 2p,
// (x y + m p) / R is below 2p again, and a product needs no subtraction at its end. Where it is not, elements are kept
// below p. `canonical` brings an element below p in both cases.
#pragma once

#include "core/carry.cuh"

namespace provewire {

#if defined(__CUDACC__)
// 2^32 - 1 where the assembler cannot see that it is: it would write a product with it as a difference, and then not
// join the halves of the products that this difference goes into.
__constant__ u32 all_ones = 0xffffffff;
#endif

template <class P>
struct Limbs {
  static constexpr u32 n = P::bytes / 4;
  static_assert(n % 2 == 0, "products are accumulated in pairs of limbs");
  static_assert(P::bits <= 32 * n - 1, "twice the modulus must fit");

  using Word = u32;

  static HD constexpr u32 modulus(u32 i) { return static_cast<u32>(P::modulus(i / 2) >> (32 * (i % 2))); }
  static HD constexpr u32 constant(u64 word, u32 i) { return static_cast<u32>(word >> (32 * (i % 2))); }

  // Whether elements are kept below 2p rather than p; both stand for the same element.
  static constexpr bool redundant = 5 * (u64{static_cast<u32>(P::modulus(n / 2 - 1) >> 32)} + 1) <= u64{1} << 32;

  // What elements are kept below: 2p or p.
  static HD constexpr u32 bound(u32 i) {
    return redundant ? modulus(i) << 1 | (i == 0 ? 0 : modulus(i - 1) >> 31) : modulus(i);
  }

  // x - m where that is not negative, else x, for the number m of limbs `limb(i)`.
  template <class Limb>
  static HD void subtract_once(u32* x, Limb limb) {
    Carry carry;
    u32 y[n];
    y[0] = carry.sub(x[0], limb(0));
    UNROLL
    for (u32 i = 1; i < n; ++i) y[i] = carry.subc(x[i], limb(i));
    const u32 keep = carry.borrow_mask();
    UNROLL
    for (u32 i = 0; i < n; ++i) x[i] = (x[i] & keep) | (y[i] & ~keep);
  }

  // For x below twice the bound.
  static HD void reduce_once(u32* x) {
    subtract_once(x, [](u32 i) { return bound(i); });
  }

  // The one representation of an element that is below p.
  static HD void canonical(u32* x) {
    if constexpr (redundant) subtract_once(x, [](u32 i) { return modulus(i); });
  }

  // Whether x stands for zero: that is 0, or p where elements are redundant. The lowest limbs nearly always tell.
  static HD bool is_zero(const u32* x) {
    if (x[0] != 0 && !(redundant && x[0] == modulus(0))) return false;
    u32 bits = 0;
    u32 other = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      bits |= x[i];
      other |= x[i] ^ modulus(i);
    }
    return bits == 0 || (redundant && other == 0);
  }

  static HD void add(u32* z, const u32* x, const u32* y) {
    Carry carry;
    z[0] = carry.add(x[0], y[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(x[i], y[i]);
    reduce_once(z);
  }

  // The bound less x: stands for -x as a factor of a product only, since for zero it is the bound itself.
  static HD void complement(u32* z, const u32* x) {
    Carry carry;
    z[0] = carry.sub(bound(0), x[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.subc(bound(i), x[i]);
  }

  static HD void sub(u32* z, const u32* x, const u32* y) {
    Carry carry;
    z[0] = carry.sub(x[0], y[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.subc(x[i], y[i]);
    const u32 add_back = carry.borrow_mask();
    z[0] = carry.add(z[0], bound(0) & add_back);
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(z[i], bound(i) & add_back);
  }

  // even, odd += the limbs x[first], x[first + 1], ... times y, where even holds the columns 0 to n - 1 and odd the
  // columns 1 to n of a sum. Products of even limbs of x fall on pairs of columns that begin at an even one, those of
  // odd limbs on the others; so each of the two is one carry chain over whole products. Where first is zero, `carry`
  // comes in to odd's first column. The sum never reaches 2^(32 (n + 1)), which bounds odd: only even's chain can
  // carry out, into column n; `even_carries` says whether it may.
  template <class X>
  static HD void multiply_add(u32* even, u32* odd, X x, u32 first, u32 y, Carry& carry, bool even_carries = true) {
    UNROLL
    for (u32 j = first | 1; j < n; j += 2) {
      odd[j - 1] = carry.madc_lo(x(j), y, odd[j - 1]);
      odd[j] = carry.madc_hi(x(j), y, odd[j]);
    }
    UNROLL
    for (u32 j = first + first % 2; j < n; j += 2) {
      even[j] = j == first + first % 2 ? carry.mad_lo(x(j), y, even[j]) : carry.madc_lo(x(j), y, even[j]);
      even[j + 1] = carry.madc_hi(x(j), y, even[j + 1]);
    }
    if (even_carries) odd[n - 1] = carry.addc(odd[n - 1], 0);
  }

  // even, odd = x times y, in the same columns. A product alone does not carry out of its columns.
  template <class X>
  static HD void multiply_first(u32* even, u32* odd, X x, u32 y, Carry& carry) {
    UNROLL
    for (u32 j = 0; j < n; j += 2) {
      odd[j] = j == 0 ? carry.mad_lo(x(1), y, 0) : carry.madc_lo(x(j + 1), y, 0);
      odd[j + 1] = carry.madc_hi(x(j + 1), y, 0);
    }
    UNROLL
    for (u32 j = 0; j < n; j += 2) {
      even[j] = j == 0 ? carry.mad_lo(x(0), y, 0) : carry.madc_lo(x(j), y, 0);
      even[j + 1] = carry.madc_hi(x(j), y, 0);
    }
  }

  // Adds the multiple of the modulus that clears column 0. The addition before left no carry.
  static HD void clear_column(u32* even, u32* odd, Carry& carry) {
    const u32 m = even[0] * negative_inverse();
    multiply_add(even, odd, [](u32 i) { return modulus(i); }, 0, m, carry);
  }

  static HD u32 negative_inverse() {
#if defined(__CUDA_ARCH__)
    if constexpr (static_cast<u32>(P::negative_inverse()) == 0xffffffff) return all_ones;
#endif
    return static_cast<u32>(P::negative_inverse());
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

  // z = the sum that a and b hold: a the columns from 0, b those from 1; the carry out of column 0 is still pending.
  static HD void join(u32* z, const u32* a, const u32* b, Carry& carry) {
    z[0] = a[0];
    UNROLL
    for (u32 i = 1; i < n; ++i) z[i] = carry.addc(a[i], b[i - 1]);
  }

  // The limbs of an operand, read before a product begins: the assembler joins the two halves of a product of limbs to
  // one instruction only where no load stands between them.
  struct Operand {
    u32 limb[n];
    HD u32 operator()(u32 i) const { return limb[i]; }
  };

  static HD Operand read(const u32* x) {
    Operand read;
    UNROLL
    for (u32 i = 0; i < n; ++i) read.limb[i] = x[i];
    return read;
  }

  // z = x * y / R mod p. A step adds x times one limb of y and clears a column; dropping it, even and odd change
  // their roles. Where elements are redundant even does not carry in the last step: the sum before it is below 3p, and
  // the even limbs of x times the highest limb of y are below 2p.
  static HD void multiply(u32* z, const u32* x, const u32* y) {
    const Operand first = read(x);
    const Operand second = read(y);
    u32 a[n];
    u32 b[n];
    Carry carry;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      u32* even = i % 2 == 0 ? a : b;
      u32* odd = i % 2 == 0 ? b : a;
      if (i == 0) {
        multiply_first(even, odd, first, second(0), carry);
      } else {
        multiply_add(even, odd, first, 0, second(i), carry, i + 1 < n || !redundant);
      }
      clear_column(even, odd, carry);
      shift(even, odd, carry);
    }
    join(z, a, b, carry);
    if constexpr (!redundant) reduce_once(z);
  }

  // z = x * x / R mod p. The products of two different limbs come twice and are computed once: step i adds limb i times
  // itself and times the limbs above it, which are those of 2x. None of that falls on column 0 but in the first step.
  // The sum stays below 5p, which only redundant elements have room for.
  static HD void square(u32* z, const u32* x) {
    if constexpr (!redundant) {
      multiply(z, x, x);
      return;
    }
    const Operand own = read(x);
    u32 a[n];
    u32 b[n];
    Carry carry;
    multiply_first(a, b, [&own](u32 j) { return doubled(own, 0, j); }, own(0), carry);
    clear_column(a, b, carry);
    shift(a, b, carry);
    UNROLL
    for (u32 i = 1; i < n; ++i) {
      u32* even = i % 2 == 0 ? a : b;
      u32* odd = i % 2 == 0 ? b : a;
      clear_column(even, odd, carry);
      multiply_add(even, odd, [&own, i](u32 j) { return doubled(own, i, j); }, i, own(i), carry, i + 1 < n);
      shift(even, odd, carry);
    }
    join(z, a, b, carry);
  }

  // Limb i of x for j = i, and limb j of twice the number that x's limbs above i make for j > i. 2x fits.
  static HD u32 doubled(const Operand& x, u32 i, u32 j) {
    if (j == i) return x(i);
    return j == i + 1 ? x(j) << 1 : x(j) << 1 | x(j - 1) >> 31;
  }

  // z = (x * y + v * w) / R mod p, with one reduction for both products.
  static HD void multiply_sum(u32* z, const u32* x, const u32* y, const u32* v, const u32* w) {
    static_assert(redundant, "the sum of two products must fit");
    const Operand first = read(x), first_factor = read(y);
    const Operand second = read(v), second_factor = read(w);
    u32 a[n];
    u32 b[n];
    Carry carry;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      u32* even = i % 2 == 0 ? a : b;
      u32* odd = i % 2 == 0 ? b : a;
      if (i == 0) {
        multiply_first(even, odd, first, first_factor(0), carry);
      } else {
        multiply_add(even, odd, first, 0, first_factor(i), carry);
      }
      multiply_add(even, odd, second, 0, second_factor(i), carry);
      clear_column(even, odd, carry);
      shift(even, odd, carry);
    }
    join(z, a, b, carry);
    // Below p (1 + 8 p / R): that is 2p where 8p is below R, and 3p otherwise.
    if constexpr (P::bits > 32 * n - 3) reduce_once(z);
  }
};

}  // namespace provewire
