// The quadratic extension F[u] / (u^2 + 1).
#pragma once

#include "core/platform.cuh"

namespace provewire {

template <class F>
struct Ext2 {
  F c0;
  F c1;

  static HD Ext2 zero() { return Ext2{F::zero(), F::zero()}; }
  static HD Ext2 one() { return Ext2{F::one(), F::zero()}; }

  HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
  HD bool is_zero_bytes() const { return c0.is_zero_bytes() && c1.is_zero_bytes(); }
  HD Ext2 canonical() const { return Ext2{c0.canonical(), c1.canonical()}; }
  HD Ext2 complement() const { return Ext2{c0.complement(), c1.complement()}; }
  HD friend bool operator==(const Ext2& x, const Ext2& y) { return x.c0 == y.c0 && x.c1 == y.c1; }

  HD friend Ext2 operator+(const Ext2& x, const Ext2& y) { return Ext2{x.c0 + y.c0, x.c1 + y.c1}; }
  HD friend Ext2 operator-(const Ext2& x, const Ext2& y) { return Ext2{x.c0 - y.c0, x.c1 - y.c1}; }
  HD Ext2 operator-() const { return Ext2{-c0, -c1}; }
  HD Ext2 twice() const { return Ext2{c0.twice(), c1.twice()}; }

  // Two sums of products, each reduced once; or else three products in place of four, after Karatsuba, whose additions
  // cost a GPU more than the product they save. A call, not inlined: the code of a point addition over the extension
  // would not fit the instruction caches, nor its compilation a reasonable time.
  static HD_CALL Ext2 product(const Ext2& x, const Ext2& y) {
    if constexpr (F::L::redundant) {
      return Ext2{F::difference_of_products(x.c0, y.c0, x.c1, y.c1), F::sum_of_products(x.c0, y.c1, x.c1, y.c0)};
    }
    const F low = x.c0 * y.c0;
    const F high = x.c1 * y.c1;
    const F cross = (x.c0 + x.c1) * (y.c0 + y.c1);
    return Ext2{low - high, cross - low - high};
  }
  static HD Ext2 difference_of_products(const Ext2& x, const Ext2& y, const Ext2& v, const Ext2& w) {
    return x * y - v * w;
  }
  HD friend Ext2 operator*(const Ext2& x, const Ext2& y) { return product(x, y); }

  // (c0 + c1 u)^2 = (c0 + c1)(c0 - c1) + 2 c0 c1 u.
  static HD_CALL Ext2 squared(const Ext2& x) {
    const F cross = x.c0 * x.c1;
    return Ext2{(x.c0 + x.c1) * (x.c0 - x.c1), cross.twice()};
  }
  HD Ext2 square() const { return squared(*this); }

  // 1 / this through the norm; zero for zero.
  HD Ext2 inverse() const {
    const F norm_inverse = (c0.square() + c1.square()).inverse();
    return Ext2{c0 * norm_inverse, -(c1 * norm_inverse)};
  }
};

}  // namespace provewire
