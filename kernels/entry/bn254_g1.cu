// DO NOT EDIT. Made from kernels/entry/templates/g1.cu.in by kernels/generate.py (make generate).
// clang-format off
// BN254 entries over the first group: sums of points.
#include "curve/bn254.cuh"
#include "msm/buckets.cuh"
#include "msm/doublings.cuh"
#include "msm/reduce.cuh"

using namespace provewire;
using namespace provewire::bn254;

extern "C" __global__ void bn254_g1_accumulate(const G1* points, const u32* sorted, u64 entries, const u32* ends,
                                               u64 n_buckets, u64 run, G1Sum* buckets, G1Sum* partials,
                                               u32* partial_buckets) {
  RUN(Accumulate<Fq>{points, sorted, entries, ends, n_buckets, run, buckets, partials, partial_buckets});
}

extern "C" __global__ void bn254_g1_fix_up(G1Sum* sums, u32* sum_buckets, u64 count, u64 stride, u64 run,
                                           G1Sum* buckets) {
  RUN(FixUp<Fq>{sums, sum_buckets, count, stride, run, buckets});
}

extern "C" __global__ void bn254_g1_reduce_buckets(const G1Sum* buckets, u64 window_buckets, G1Sum* out) {
  RUN(ReduceBuckets<Fq>{buckets, window_buckets, out});
}

extern "C" __global__ void bn254_g1_join_windows(G1Sum* sums, u64 slices, u64 windows, u64 window_bits, G1* out) {
  RUN(JoinWindows<Fq>{sums, slices, windows, window_bits, out});
}

extern "C" __global__ void bn254_g1_combination(const G1* points, const u32* scalars, u64 count, G1* out) {
  RUN(Combination<Fq, FrParams>{points, scalars, count, out});
}

extern "C" __global__ void bn254_g1_doublings(const G1* points, u64 count, u64 doublings, u64 per_thread, G1Sum* sums,
                                             G1* out) {
  RUN(Doublings<Fq>{points, count, doublings, per_thread, sums, out});
}
