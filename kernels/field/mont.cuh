// A prime field in Montgomery form: an element x is kept as x * R mod p with R = 2^(8 P::bytes).
//
// Elements are P::bytes little-endian bytes in memory on both sides, which is also how proving keys store them.
// Entries give and take elements below the modulus. In between the limb layer may keep an element x as x + p as well
// (Limbs::redundant): equality and zero are asked for by `==` and is_zero(), and what leaves goes through canonical().
#pragma once

#if defined(__CUDACC__) || defined(PROVEWIRE_EMULATE_CARRY)
#include "core/limbs32.cuh"
#else
#include "core/inverse.cuh"
#include "core/limbs64.cuh"
#endif

namespace provewire {

template <class P>
struct alignas(16) Mont {
  using Params = P;
  using L = Limbs<P>;
  using Word = typename L::Word;
  static constexpr u32 n = L::n;

  Word limb[n];

  static HD Mont zero() { return Mont{}; }

  // R mod p: the number one.
  static HD Mont one() {
    Mont z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = L::constant(P::radix(i * sizeof(Word) / 8), i);
    return z;
  }

  // R^2 mod p: multiplying by it brings a plain integer into Montgomery form.
  static HD Mont radix_squared() {
    Mont z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = L::constant(P::radix_squared(i * sizeof(Word) / 8), i);
    return z;
  }

  // From P::bytes / 4 words of 32 bits, lowest first, which need not be aligned to an element.
  static HD Mont from_words(const u32* words) {
    Mont z;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      if constexpr (sizeof(Word) == 4) {
        z.limb[i] = words[i];
      } else {
        z.limb[i] = words[2 * i] | static_cast<u64>(words[2 * i + 1]) << 32;
      }
    }
    return z;
  }

  HD bool is_zero() const { return L::is_zero(limb); }

  // Whether the bytes are those of zero(), which is how infinity is written: cheaper than is_zero().
  HD bool is_zero_bytes() const {
    Word bits = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) bits |= limb[i];
    return bits == 0;
  }

  // The same element below the modulus.
  HD Mont canonical() const {
    Mont z = *this;
    L::canonical(z.limb);
    return z;
  }

  HD friend bool operator==(const Mont& x, const Mont& y) {
    if constexpr (L::redundant) return (x - y).is_zero();
    Word bits = 0;
    UNROLL
    for (u32 i = 0; i < n; ++i) bits |= x.limb[i] ^ y.limb[i];
    return bits == 0;
  }

  HD friend Mont operator+(const Mont& x, const Mont& y) {
    Mont z;
    L::add(z.limb, x.limb, y.limb);
    return z;
  }

  HD friend Mont operator-(const Mont& x, const Mont& y) {
    Mont z;
    L::sub(z.limb, x.limb, y.limb);
    return z;
  }

  HD Mont operator-() const { return zero() - *this; }

  HD friend Mont operator*(const Mont& x, const Mont& y) {
    Mont z;
    L::multiply(z.limb, x.limb, y.limb);
    return z;
  }

  HD Mont square() const {
    Mont z;
    L::square(z.limb, limb);
    return z;
  }
  HD Mont twice() const { return *this + *this; }

  // x * y + v * w and x * y - v * w.
  static HD Mont sum_of_products(const Mont& x, const Mont& y, const Mont& v, const Mont& w) {
    if constexpr (L::redundant) {
      Mont z;
      L::multiply_sum(z.limb, x.limb, y.limb, v.limb, w.limb);
      return z;
    } else {
      return x * y + v * w;
    }
  }
  static HD Mont difference_of_products(const Mont& x, const Mont& y, const Mont& v, const Mont& w) {
    if constexpr (L::redundant) {
      return sum_of_products(x, y, v.complement(), w);
    } else {
      return x * y - v * w;
    }
  }

  // -this for use as a factor, or for an element that is not zero.
  HD Mont complement() const {
    if constexpr (L::redundant) {
      Mont z;
      L::complement(z.limb, limb);
      return z;
    } else {
      return -*this;
    }
  }

  // The plain integer below p that this element stands for, and back.
  HD Mont to_plain() const {
    Mont unit{};
    unit.limb[0] = 1;
    return (*this * unit).canonical();
  }
  HD Mont from_plain() const { return *this * radix_squared(); }

  // this^exponent for an exponent of `words` 64-bit words, lowest first. The time depends on the exponent.
  template <class Exponent>
  HD_CALL Mont power(Exponent exponent, u32 words) const {
    Mont z = one();
    KEEP_LOOP
    for (u32 i = 64 * words; i-- > 0;) {
      z = z.square();
      if (exponent(i / 64) >> (i % 64) & 1) z = z * *this;
    }
    return z;
  }

  // 1 / this, on the GPU by Fermat's little theorem; zero for zero.
  HD Mont inverse() const {
#if !defined(__CUDACC__) && !defined(PROVEWIRE_EMULATE_CARRY)
    Mont z;
    BinaryGcd<P>::inverse(z.limb, limb);
    // That is 1 / (x R); the result is R / x.
    return z * radix_squared() * radix_squared();
#endif
    return power([](u32 i) { return P::modulus(i) - (i == 0 ? 2 : 0); }, P::bytes / 8);
  }
};

}  // namespace provewire
