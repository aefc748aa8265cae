// What a card multiplies in a second: chains of products, every thread its own, long enough that nothing else counts.
#include "curve/bls12381.cuh"
#include "curve/bn254.cuh"

using namespace provewire;

template <class F>
__device__ __forceinline__ void chain(F* values, u64 length) {
  const u64 i = blockIdx.x * u64{blockDim.x} + threadIdx.x;
  F x = values[i];
  const F y = x;
#pragma unroll 1
  for (u64 j = 0; j < length; j += 4) x = x * y * y * y * y;
  values[i] = x;
}

extern "C" __global__ void rate_bn254(bn254::Fq* values, u64 length) { chain(values, length); }
extern "C" __global__ void rate_bls12381(bls12381::Fq* values, u64 length) { chain(values, length); }
