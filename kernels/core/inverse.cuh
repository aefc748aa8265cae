// Inverses on CPUs by the binary greatest common divisor, thirty-one steps at a time on the operands' leading and
// trailing bits (Pornin, "Optimized Binary GCD for Modular Inversion", 2020). The time depends on the operand.
#pragma once

#include <utility>

#include "core/limbs64.cuh"

namespace provewire {

template <class P>
class BinaryGcd {
  static constexpr u32 n = P::bytes / 8;
  static constexpr u32 steps = 31;
  using Wide = unsigned __int128;
  using Signed = __int128;

  // x = |x f + y g| / 2^31; true where it was negative. The sum is divisible, and fits n limbs after that.
  static bool combine(u64* out, const u64* x, const u64* y, std::int64_t f, std::int64_t g) {
    Signed carry = 0;
    u64 sum[n + 1];
    for (u32 i = 0; i < n; ++i) {
      // A limb times a 32-bit factor and its like fit 128 bits with their sign.
      carry += static_cast<Signed>(x[i]) * f + static_cast<Signed>(y[i]) * g;
      sum[i] = static_cast<u64>(carry);
      carry >>= 64;
    }
    sum[n] = static_cast<u64>(carry);
    const bool negative = carry < 0;
    for (u32 i = 0; i < n; ++i) out[i] = sum[i] >> steps | sum[i + 1] << (64 - steps);
    if (negative) {
      u64 add = 1;
      for (u32 i = 0; i < n; ++i) {
        out[i] = ~out[i] + add;
        add = add && out[i] == 0;
      }
    }
    return negative;
  }

  // (u f + v g) / 2^31 mod p, for u and v below p and |f| + |g| at most 2^31.
  static void combine_mod(u64* out, const u64* u, const u64* v, std::int64_t f, std::int64_t g) {
    u64 sum[n + 1];
    Signed carry = 0;
    for (u32 i = 0; i < n; ++i) {
      carry += static_cast<Signed>(u[i]) * f + static_cast<Signed>(v[i]) * g;
      sum[i] = static_cast<u64>(carry);
      carry >>= 64;
    }
    sum[n] = static_cast<u64>(carry);
    const u64 m = sum[0] * P::negative_inverse() & ((u64{1} << steps) - 1);
    carry = 0;
    for (u32 i = 0; i < n; ++i) {
      carry += static_cast<Signed>(sum[i]) + static_cast<Signed>(P::modulus(i)) * m;
      sum[i] = static_cast<u64>(carry);
      carry >>= 64;
    }
    sum[n] += static_cast<u64>(carry);
    const bool negative = static_cast<std::int64_t>(sum[n]) < 0;
    for (u32 i = 0; i < n; ++i) out[i] = sum[i] >> steps | sum[i + 1] << (64 - steps);
    // Between -p and 2p.
    if (negative) {
      u8 carried = 0;
      for (u32 i = 0; i < n; ++i) out[i] = Limbs<P>::add_carry(out[i], P::modulus(i), carried);
    } else {
      Limbs<P>::reduce_once(out);
    }
  }

  static u32 length(const u64* x) {
    for (u32 i = n; i-- > 0;) {
      if (x[i] != 0) return 64 * i + 64 - static_cast<u32>(__builtin_clzll(x[i]));
    }
    return 0;
  }

  // 33 bits from bit `at` on.
  static u64 top(const u64* x, u32 at) {
    const u32 word = at / 64, shift = at % 64;
    u64 bits = x[word] >> shift;
    if (shift != 0 && word + 1 < n) bits |= x[word + 1] << (64 - shift);
    return bits & 0x1ffffffffu;
  }

 public:
  // out = 1 / x mod p for plain x below p; zero for zero.
  static void inverse(u64* out, const u64* x) {
    u64 a[n], b[n], u[n] = {1}, v[n] = {};
    for (u32 i = 0; i < n; ++i) {
      a[i] = x[i];
      b[i] = P::modulus(i);
    }
    for (u32 round = 0; round < (2 * P::bits + steps - 2) / steps; ++round) {
      const u32 la = length(a), lb = length(b);
      const u32 longest = la > lb ? la : lb;
      const u32 size = longest > 64 ? longest : 64;
      u64 low_a = (a[0] & 0x7fffffffu) | top(a, size - 33) << steps;
      u64 low_b = (b[0] & 0x7fffffffu) | top(b, size - 33) << steps;
      std::int64_t f0 = 1, g0 = 0, f1 = 0, g1 = 1;
      for (u32 j = 0; j < steps; ++j) {
        if (low_a & 1) {
          if (low_a < low_b) {
            std::swap(low_a, low_b);
            std::swap(f0, f1);
            std::swap(g0, g1);
          }
          low_a -= low_b;
          f0 -= f1;
          g0 -= g1;
        }
        low_a >>= 1;
        f1 *= 2;  // no shift: they may be negative
        g1 *= 2;
      }
      u64 next[n], other[n];
      if (combine(next, a, b, f0, g0)) f0 = -f0, g0 = -g0;
      if (combine(other, a, b, f1, g1)) f1 = -f1, g1 = -g1;
      for (u32 i = 0; i < n; ++i) {
        a[i] = next[i];
        b[i] = other[i];
      }
      combine_mod(next, u, v, f0, g0);
      combine_mod(other, u, v, f1, g1);
      for (u32 i = 0; i < n; ++i) {
        u[i] = next[i];
        v[i] = other[i];
      }
    }
    for (u32 i = 0; i < n; ++i) out[i] = v[i];
  }
};

}  // namespace provewire
