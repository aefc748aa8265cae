// DO NOT EDIT. Made from kernels/entry/templates/curve.cuh.in by kernels/generate.py (make generate).
// clang-format off
// The types of BLS12-381.
#pragma once

#include "curve/affine.cuh"
#include "curve/xyzz.cuh"
#include "field/ext2.cuh"
#include "field/mont.cuh"
#include "field/params/bls12381.cuh"

namespace provewire::bls12381 {

using Fr = Mont<FrParams>;
using Fq = Mont<FqParams>;
using Fq2 = Ext2<Fq>;
using G1 = Affine<Fq>;
using G2 = Affine<Fq2>;
using G1Sum = Xyzz<Fq>;
using G2Sum = Xyzz<Fq2>;

// What native/pairing.cuh needs to know: the towers' xi less u, the family, the bits of the loop.
struct PairingTraits {
  using Fq = bls12381::Fq;
  using Fq2 = bls12381::Fq2;
  static constexpr u32 xi = 1;
  static constexpr bool is_bn = false;
  static constexpr bool is_negative = true;
  static constexpr u64 loop(u32 word) { return word == 0 ? 15132376222941642752u : 0u; }
};

}  // namespace provewire::bls12381
