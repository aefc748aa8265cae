// DO NOT EDIT. Made from kernels/entry/templates/scalar.cu.in by kernels/generate.py (make generate).
// clang-format off
// BLS12-381 entries over the scalar field: the key's rows, transforms, the quotient, digits of scalars.
#include "curve/bls12381.cuh"
#include "msm/digits.cuh"
#include "ntt/ntt.cuh"
#include "qap/rows.cuh"

using namespace provewire;
using namespace provewire::bls12381;

extern "C" __global__ void bls12381_row_count(const u32* records, u64 count, u64 domain, u64 signals, u32* counts) {
  RUN(RowCount<Fr>{records, count, domain, signals, counts});
}

extern "C" __global__ void bls12381_row_scatter(const u32* records, u64 count, u64 domain, u64 signals, u32* ends,
                                             u32* row_signals, Fr* row_values) {
  RUN(RowScatter<Fr>{records, count, domain, signals, ends, row_signals, row_values});
}

extern "C" __global__ void bls12381_row_sums(const u32* ends, const u32* row_signals, const Fr* row_values,
                                          const Fr* witness, u64 domain, u64 log_chunk, Fr* sums) {
  RUN(RowSums<Fr>{ends, row_signals, row_values, witness, domain, log_chunk, sums});
}

extern "C" __global__ void bls12381_powers(Fr* out, u64 count, const Fr* parameters, u64 per_thread) {
  RUN(Powers<Fr>{out, count, parameters, per_thread});
}

extern "C" __global__ void bls12381_ntt_pass(Fr* data, u64 batch_stride, u64 log_n, u64 low, u64 log_rows, u64 log_columns,
                                          u64 inverse, const Fr* roots_low, const Fr* roots_high, u64 roots_window,
                                          const Fr* scale_low, const Fr* scale_high, u64 scale_window) {
  RUN(NttPass<Fr>{data,
                  batch_stride,
                  log_n,
                  low,
                  log_rows,
                  log_columns,
                  inverse,
                  {roots_low, roots_high, roots_window},
                  {scale_low, scale_high, scale_window}});
}

extern "C" __global__ void bls12381_ntt_quotient_pass(Fr* data, u64 batch_stride, u64 log_n, u64 low, u64 log_rows,
                                                   u64 log_columns, const Fr* roots_low, const Fr* roots_high,
                                                   u64 roots_window) {
  RUN(NttQuotientPass<Fr>{{data,
                           batch_stride,
                           log_n,
                           low,
                           log_rows,
                           log_columns,
                           0,
                           {roots_low, roots_high, roots_window},
                           {nullptr, nullptr, 0}}});
}

extern "C" __global__ void bls12381_quotient(Fr* a, const Fr* b, const Fr* c, u64 count) {
  RUN(Quotient<Fr>{a, b, c, count});
}

extern "C" __global__ void bls12381_digits(const u64* scalars, const u32* scalar_of_point, u64 count, u64 window_bits,
                                        u64 groups, u64 multiples, u32* digits) {
  RUN(Digits<FrParams>{scalars, scalar_of_point, count, window_bits, groups, multiples, digits});
}
