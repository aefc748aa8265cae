// What `make sass` counts: chains of one field operation of a length that is known when it is compiled, so that the
// difference of two lengths is the operations' own, without loads, stores and addresses.
#include "curve/bls12381.cuh"
#include "curve/bn254.cuh"

using namespace provewire;

template <class F, int length>
__device__ __forceinline__ void products(const F* in, F* out) {
  F x = in[threadIdx.x];
  const F y = in[threadIdx.x + blockDim.x];
#pragma unroll
  for (int i = 0; i < length; ++i) x = x * y;
  out[threadIdx.x] = x;
}

template <class F, int length>
__device__ __forceinline__ void squares(const F* in, F* out) {
  F x = in[threadIdx.x];
#pragma unroll
  for (int i = 0; i < length; ++i) x = x.square();
  out[threadIdx.x] = x;
}

template <class F, int length>
__device__ __forceinline__ void sums(const F* in, F* out) {
  F x = in[threadIdx.x];
  const F y = in[threadIdx.x + blockDim.x];
#pragma unroll
  for (int i = 0; i < length; ++i) x = x + y;
  out[threadIdx.x] = x;
}

template <class F, int length>
__device__ __forceinline__ void pairs(const F* in, F* out) {
  F x = in[threadIdx.x];
  const F y = in[threadIdx.x + blockDim.x];
  const F v = in[threadIdx.x + 2 * blockDim.x];
#pragma unroll
  for (int i = 0; i < length; ++i) x = F::sum_of_products(x, y, v, y);
  out[threadIdx.x] = x;
}

#define PROBE(operation, curve, field, length)                                                                     \
  extern "C" __global__ void operation##_##curve##_##field##_##length(const curve::field* in, curve::field* out) { \
    operation<curve::field, length>(in, out);                                                                      \
  }
#define PROBES_OF(curve, field)    \
  PROBE(products, curve, field, 1) \
  PROBE(products, curve, field, 2) \
  PROBE(squares, curve, field, 1)  \
  PROBE(squares, curve, field, 2)  \
  PROBE(sums, curve, field, 1)     \
  PROBE(sums, curve, field, 2)     \
  PROBE(pairs, curve, field, 1)    \
  PROBE(pairs, curve, field, 2)

PROBES_OF(bn254, Fq)
PROBES_OF(bn254, Fr)
PROBES_OF(bls12381, Fq)
PROBES_OF(bls12381, Fr)
