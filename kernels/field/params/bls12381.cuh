// DO NOT EDIT. Made from kernels/curves.py by kernels/generate.py (make generate).
// clang-format off
//
// The prime fields of bls12381, in 64-bit words, lowest first. R is the Montgomery radix of a field.
#pragma once

#include "core/platform.cuh"

namespace provewire::bls12381 {

// p = 4002409555221667393417789825735904156556882819939007885332058136124031650490837864442687629129015664037894272559787
struct FqParams {
  static constexpr u32 bytes = 48;
  static constexpr u32 bits = 381;

  // p
  static HD constexpr u64 modulus(u32 i) {
    const u64 words[] = {0xb9feffffffffaaab, 0x1eabfffeb153ffff, 0x6730d2a0f6b0f624, 0x64774b84f38512bf,
                         0x4b1ba7b6434bacd7, 0x1a0111ea397fe69a};
    return words[i];
  }

  // (p - 1) / 2
  static HD constexpr u64 half(u32 i) {
    const u64 words[] = {0xdcff7fffffffd555, 0x0f55ffff58a9ffff, 0xb39869507b587b12, 0xb23ba5c279c2895f,
                         0x258dd3db21a5d66b, 0x0d0088f51cbff34d};
    return words[i];
  }

  // R mod p, R = 2^384
  static HD constexpr u64 radix(u32 i) {
    const u64 words[] = {0x760900000002fffd, 0xebf4000bc40c0002, 0x5f48985753c758ba, 0x77ce585370525745,
                         0x5c071a97a256ec6d, 0x15f65ec3fa80e493};
    return words[i];
  }

  // R^2 mod p
  static HD constexpr u64 radix_squared(u32 i) {
    const u64 words[] = {0xf4df1f341c341746, 0x0a76e6a609d104f1, 0x8de5476c4c95b6d5, 0x67eb88a9939d83c0,
                         0x9a793e85b519952d, 0x11988fe592cae3aa};
    return words[i];
  }

  // -1 / p mod 2^64
  static HD constexpr u64 negative_inverse() { return 0x89f3fffcfffcfffd; }
};

// p = 52435875175126190479447740508185965837690552500527637822603658699938581184513
struct FrParams {
  static constexpr u32 bytes = 32;
  static constexpr u32 bits = 255;

  // p
  static HD constexpr u64 modulus(u32 i) {
    const u64 words[] = {0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805, 0x73eda753299d7d48};
    return words[i];
  }

  // (p - 1) / 2
  static HD constexpr u64 half(u32 i) {
    const u64 words[] = {0x7fffffff80000000, 0xa9ded2017fff2dff, 0x199cec0404d0ec02, 0x39f6d3a994cebea4};
    return words[i];
  }

  // R mod p, R = 2^256
  static HD constexpr u64 radix(u32 i) {
    const u64 words[] = {0x00000001fffffffe, 0x5884b7fa00034802, 0x998c4fefecbc4ff5, 0x1824b159acc5056f};
    return words[i];
  }

  // R^2 mod p
  static HD constexpr u64 radix_squared(u32 i) {
    const u64 words[] = {0xc999e990f3f29c6d, 0x2b6cedcb87925c23, 0x05d314967254398f, 0x0748d9d99f59ff11};
    return words[i];
  }

  // -1 / p mod 2^64
  static HD constexpr u64 negative_inverse() { return 0xfffffffeffffffff; }
};

}  // namespace provewire::bls12381
