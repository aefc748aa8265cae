// Points in affine coordinates, as proving keys store them: infinity is all zero bytes.
//
// (0, 0) solves y^2 = x^3 + b for no curve with b != 0, so that it is free to mean infinity.
#pragma once

#include "core/platform.cuh"

namespace provewire {

template <class F>
struct Affine {
  F x;
  F y;

  static HD Affine infinity() { return Affine{F::zero(), F::zero()}; }
  HD bool is_infinity() const { return x.is_zero_bytes() && y.is_zero_bytes(); }
  HD Affine operator-() const { return Affine{x, -y}; }
};

}  // namespace provewire
