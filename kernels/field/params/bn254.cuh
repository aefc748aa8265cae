// DO NOT EDIT. Made from kernels/curves.py by kernels/generate.py (make generate).
// clang-format off
//
// The prime fields of bn254, in 64-bit words, lowest first. R is the Montgomery radix of a field.
#pragma once

#include "core/platform.cuh"

namespace provewire::bn254 {

// p = 21888242871839275222246405745257275088696311157297823662689037894645226208583
struct FqParams {
  static constexpr u32 bytes = 32;
  static constexpr u32 bits = 254;

  // p
  static HD constexpr u64 modulus(u32 i) {
    const u64 words[] = {0x3c208c16d87cfd47, 0x97816a916871ca8d, 0xb85045b68181585d, 0x30644e72e131a029};
    return words[i];
  }

  // (p - 1) / 2
  static HD constexpr u64 half(u32 i) {
    const u64 words[] = {0x9e10460b6c3e7ea3, 0xcbc0b548b438e546, 0xdc2822db40c0ac2e, 0x183227397098d014};
    return words[i];
  }

  // R mod p, R = 2^256
  static HD constexpr u64 radix(u32 i) {
    const u64 words[] = {0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f};
    return words[i];
  }

  // R^2 mod p
  static HD constexpr u64 radix_squared(u32 i) {
    const u64 words[] = {0xf32cfc5b538afa89, 0xb5e71911d44501fb, 0x47ab1eff0a417ff6, 0x06d89f71cab8351f};
    return words[i];
  }

  // -1 / p mod 2^64
  static HD constexpr u64 negative_inverse() { return 0x87d20782e4866389; }
};

// p = 21888242871839275222246405745257275088548364400416034343698204186575808495617
struct FrParams {
  static constexpr u32 bytes = 32;
  static constexpr u32 bits = 254;

  // p
  static HD constexpr u64 modulus(u32 i) {
    const u64 words[] = {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029};
    return words[i];
  }

  // (p - 1) / 2
  static HD constexpr u64 half(u32 i) {
    const u64 words[] = {0xa1f0fac9f8000000, 0x9419f4243cdcb848, 0xdc2822db40c0ac2e, 0x183227397098d014};
    return words[i];
  }

  // R mod p, R = 2^256
  static HD constexpr u64 radix(u32 i) {
    const u64 words[] = {0xac96341c4ffffffb, 0x36fc76959f60cd29, 0x666ea36f7879462e, 0x0e0a77c19a07df2f};
    return words[i];
  }

  // R^2 mod p
  static HD constexpr u64 radix_squared(u32 i) {
    const u64 words[] = {0x1bb8e645ae216da7, 0x53fe3ab1e35c59e3, 0x8c49833d53bb8085, 0x0216d0b17f4e44a5};
    return words[i];
  }

  // -1 / p mod 2^64
  static HD constexpr u64 negative_inverse() { return 0xc2e1f593efffffff; }
};

}  // namespace provewire::bn254
