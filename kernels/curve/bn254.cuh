// DO NOT EDIT. Made from kernels/entry/templates/curve.cuh.in by kernels/generate.py (make generate).
// clang-format off
// The types of BN254.
#pragma once

#include "curve/affine.cuh"
#include "curve/xyzz.cuh"
#include "field/ext2.cuh"
#include "field/mont.cuh"
#include "field/params/bn254.cuh"

namespace provewire::bn254 {

using Fr = Mont<FrParams>;
using Fq = Mont<FqParams>;
using Fq2 = Ext2<Fq>;
using G1 = Affine<Fq>;
using G2 = Affine<Fq2>;
using G1Sum = Xyzz<Fq>;
using G2Sum = Xyzz<Fq2>;

// What native/pairing.cuh needs to know: the towers' xi less u, the family, the bits of the loop.
struct PairingTraits {
  using Fq = bn254::Fq;
  using Fq2 = bn254::Fq2;
  static constexpr u32 xi = 9;
  static constexpr bool is_bn = true;
  static constexpr bool is_negative = false;
  static constexpr u64 loop(u32 word) { return word == 0 ? 11347224129447541672u : 1u; }
};

}  // namespace provewire::bn254
