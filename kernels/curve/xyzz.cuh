// Points of y^2 = x^3 + b in XYZZ coordinates: x = X / ZZ, y = Y / ZZZ with ZZ^3 = ZZZ^2; infinity has ZZ = 0.
//
// The formulas are those of the Explicit-Formulas Database for a = 0 (madd-2008-s, mdbl-2008-s-1, add-2008-s,
// dbl-2008-s-1). They do not use b, and every exceptional case is taken care of: infinity on either side,
// equal points, opposite points. All zero bytes are infinity.
#pragma once

#include "curve/affine.cuh"

namespace provewire {

template <class F>
struct Xyzz {
  F x;
  F y;
  F zz;
  F zzz;

  static HD Xyzz infinity() { return Xyzz{F::zero(), F::zero(), F::zero(), F::zero()}; }
  // The zz of a point that is not infinity is a product of factors that are not zero, and never zero in other bytes.
  HD bool is_infinity() const { return zz.is_zero_bytes(); }

  static HD Xyzz from_affine(const Affine<F>& p) {
    return p.is_infinity() ? infinity() : Xyzz{p.x, p.y, F::one(), F::one()};
  }

  // 2p for p that is not infinity.
  static HD_CALL Xyzz twice_affine(const Affine<F>& p) {
    const F u = p.y.twice();
    const F v = u.square();
    const F w = u * v;
    const F s = p.x * v;
    const F x_squared = p.x.square();
    const F m = x_squared.twice() + x_squared;
    const F x3 = m.square() - s.twice();
    return Xyzz{x3, F::difference_of_products(m, s - x3, w, p.y), v, w};
  }

  HD_CALL Xyzz twice() const {
    const F u = y.twice();
    const F v = u.square();
    const F w = u * v;
    const F s = x * v;
    const F x_squared = x.square();
    const F m = x_squared.twice() + x_squared;
    const F x3 = m.square() - s.twice();
    return Xyzz{x3, F::difference_of_products(m, s - x3, w, y), v * zz, w * zzz};
  }

  // this += p
  HD void add(const Affine<F>& p) {
    if (!p.is_infinity()) add_finite(p);
  }

  // this += p for p that is not infinity; p.y may be a complement.
  HD void add_finite(const Affine<F>& p) {
    if (is_infinity()) {
      *this = Xyzz{p.x, p.y, F::one(), F::one()};
      return;
    }
    const F h = p.x * zz - x;
    const F r = p.y * zzz - y;
    if (h.is_zero()) {
      *this = r.is_zero() ? twice_affine(p) : infinity();
      return;
    }
    const F hh = h.square();
    const F hhh = h * hh;
    const F q = x * hh;
    const F x3 = r.square() - hhh - q.twice();
    y = F::difference_of_products(r, q - x3, y, hhh);
    x = x3;
    zz = zz * hh;
    zzz = zzz * hhh;
  }

  // this += p
  HD_CALL void add(const Xyzz& p) {
    if (p.is_infinity()) return;
    if (is_infinity()) {
      *this = p;
      return;
    }
    const F u = x * p.zz;
    const F s = y * p.zzz;
    const F h = p.x * zz - u;
    const F r = p.y * zzz - s;
    if (h.is_zero()) {
      *this = r.is_zero() ? twice() : infinity();
      return;
    }
    const F hh = h.square();
    const F hhh = h * hh;
    const F q = u * hh;
    const F x3 = r.square() - hhh - q.twice();
    y = F::difference_of_products(r, q - x3, s, hhh);
    x = x3;
    zz = zz * p.zz * hh;
    zzz = zzz * p.zzz * hhh;
  }

  // this times a small number; zero gives infinity.
  HD_CALL Xyzz times(u64 scalar) const {
    Xyzz sum = infinity();
    KEEP_LOOP
    for (u32 i = 64; i-- > 0;) {
      if (!sum.is_infinity()) sum = sum.twice();
      if (scalar >> i & 1) sum.add(*this);
    }
    return sum;
  }

  // One inversion: with 1 / ZZZ comes 1 / ZZ = (ZZ / ZZZ)^2.
  HD_CALL Affine<F> to_affine() const { return is_infinity() ? Affine<F>::infinity() : to_affine(zzz.inverse()); }

  // For a point that is not infinity, whose 1 / ZZZ is known.
  HD Affine<F> to_affine(const F& zzz_inverse) const {
    const F z_inverse = zz * zzz_inverse;
    return Affine<F>{(x * z_inverse.square()).canonical(), (y * zzz_inverse).canonical()};
  }
};

}  // namespace provewire
