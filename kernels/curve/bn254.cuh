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

}  // namespace provewire::bn254
