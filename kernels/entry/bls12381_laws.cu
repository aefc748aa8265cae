// DO NOT EDIT. Made from kernels/entry/templates/laws.cu.in by kernels/generate.py (make generate).
// clang-format off
// BLS12-381 entries of the tests: the operations that everything else is made of, on arrays of operands.
#include "curve/bls12381.cuh"
#include "laws/laws.cuh"

using namespace provewire;
using namespace provewire::bls12381;

extern "C" __global__ void bls12381_law_fr(u64 operation, const Fr* x, const Fr* y, Fr* out, u64 count) {
  RUN(FieldLaw<Fr>{operation, x, y, out, count});
}

extern "C" __global__ void bls12381_law_fq(u64 operation, const Fq* x, const Fq* y, Fq* out, u64 count) {
  RUN(FieldLaw<Fq>{operation, x, y, out, count});
}

extern "C" __global__ void bls12381_law_fq2(u64 operation, const Fq2* x, const Fq2* y, Fq2* out, u64 count) {
  RUN(FieldLaw<Fq2>{operation, x, y, out, count});
}

extern "C" __global__ void bls12381_law_g1(u64 operation, const G1* p, const G1* q, const Fq* z, const u64* scalars,
                                        G1* out, u64 count) {
  RUN(PointLaw<Fq>{operation, p, q, z, scalars, out, count});
}

extern "C" __global__ void bls12381_law_g2(u64 operation, const G2* p, const G2* q, const Fq2* z, const u64* scalars,
                                        G2* out, u64 count) {
  RUN(PointLaw<Fq2>{operation, p, q, z, scalars, out, count});
}
