// DO NOT EDIT. Made from kernels/entry/templates/g2.cu.in by kernels/generate.py (make generate).
// clang-format off
// BN254 entries over the second group: sums of points.
#include "curve/bn254.cuh"
#include "msm/buckets.cuh"
#include "msm/doublings.cuh"
#include "msm/reduce.cuh"

using namespace provewire;
using namespace provewire::bn254;

extern "C" __global__ void bn254_g2_accumulate(const G2* points, const u32* sorted, u64 entries, const u32* ends,
                                               u64 n_buckets, u64 run, G2Sum* buckets, G2Sum* partials,
                                               u32* partial_buckets) {
  RUN(Accumulate<Fq2>{points, sorted, entries, ends, n_buckets, run, buckets, partials, partial_buckets});
}

extern "C" __global__ void bn254_g2_fix_up(G2Sum* sums, u32* sum_buckets, u64 count, u64 stride, u64 run,
                                           G2Sum* buckets) {
  RUN(FixUp<Fq2>{sums, sum_buckets, count, stride, run, buckets});
}

extern "C" __global__ void bn254_g2_reduce_buckets(const G2Sum* buckets, u64 window_buckets, G2Sum* out) {
  RUN(ReduceBuckets<Fq2>{buckets, window_buckets, out});
}

extern "C" __global__ void bn254_g2_join_windows(G2Sum* sums, u64 slices, u64 windows, u64 window_bits, G2* out) {
  RUN(JoinWindows<Fq2>{sums, slices, windows, window_bits, out});
}

extern "C" __global__ void bn254_g2_doublings(const G2* points, u64 count, u64 doublings, u64 per_thread, G2Sum* sums,
                                             G2* out) {
  RUN(Doublings<Fq2>{points, count, doublings, per_thread, sums, out});
}
