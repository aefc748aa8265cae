// Eight field elements side by side in limbs of 52 bits, for CPUs with AVX-512 IFMA.
//
// Memory has x R mod p with R = 2^(64 n) in words of 64 bits. Products here divide by S = 2^(52 limbs) instead, which
// is R 2^(2 shift); so factors of 2^shift are put in where a formula needs them (see batch_lanes.cuh). Limbs are kept
// below 2^52; values may exceed p by the small factors that each function states. A product takes operands x, y with
// x y < p S and gives less than 2p.
#pragma once

#include "field/ext2.cuh"
#include "field/mont.cuh"

#if defined(__AVX512IFMA__) && defined(__AVX512F__) && defined(__AVX512DQ__) && !defined(PROVEWIRE_EMULATE_CARRY) && \
    !defined(PROVEWIRE_NO_ASM)
#define PROVEWIRE_LANES

#include <immintrin.h>

namespace provewire {

#define LANES_INLINE inline __attribute__((always_inline))

// Eight rows of eight words become eight columns.
LANES_INLINE void transpose(__m512i r[8]) {
  __m512i t[8];
  UNROLL
  for (u32 i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
  }
  UNROLL
  for (u32 odd = 0; odd < 2; ++odd) {
    const __m512i a = _mm512_shuffle_i64x2(t[odd], t[2 + odd], 0x88);
    const __m512i b = _mm512_shuffle_i64x2(t[4 + odd], t[6 + odd], 0x88);
    const __m512i c = _mm512_shuffle_i64x2(t[odd], t[2 + odd], 0xdd);
    const __m512i d = _mm512_shuffle_i64x2(t[4 + odd], t[6 + odd], 0xdd);
    r[odd] = _mm512_shuffle_i64x2(a, b, 0x88);
    r[4 + odd] = _mm512_shuffle_i64x2(a, b, 0xdd);
    r[2 + odd] = _mm512_shuffle_i64x2(c, d, 0x88);
    r[6 + odd] = _mm512_shuffle_i64x2(c, d, 0xdd);
  }
}

// Joins halves of four words: of `low` the first or the second 128 bits of each half, and the same of `high`.
template <bool second>
LANES_INLINE __m512i joined_halves(__m512i low, __m512i high) {
  const __m512i at =
      second ? _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15) : _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  return _mm512_permutex2var_epi64(low, at, high);
}

// Rows of four words, row i for elements i and i + 4, become rows of one word of all eight elements; and back.
LANES_INLINE void transpose_four(__m512i r[4]) {
  const __m512i a = _mm512_unpacklo_epi64(r[0], r[1]), b = _mm512_unpackhi_epi64(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi64(r[2], r[3]), d = _mm512_unpackhi_epi64(r[2], r[3]);
  r[0] = joined_halves<false>(a, c);
  r[1] = joined_halves<false>(b, d);
  r[2] = joined_halves<true>(a, c);
  r[3] = joined_halves<true>(b, d);
}

template <class P>
struct Lanes {
  static constexpr u32 words = P::bytes / 8;
  static constexpr u32 n =
      (P::bits + 5 + 51) / 52 > (64 * words + 51) / 52 ? (P::bits + 5 + 51) / 52 : (64 * words + 51) / 52;
  static constexpr u32 shift = (52 * n - 64 * words) / 2;
  static constexpr u64 mask = (u64{1} << 52) - 1;
  static_assert((52 * n - 64 * words) % 2 == 0, "the two radices differ by a square");
  static_assert(52 * n >= P::bits + 5, "products of operands of 16p and 2p must fit");

  __m512i limb[n];

  // The limbs of the modulus times a small factor.
  struct Limbs52 {
    u64 limb[n];
  };
  static constexpr Limbs52 multiple(u32 factor) {
    Limbs52 made{};
    u64 carry = 0;
    for (u32 j = 0; j < n; ++j) {
      const u32 word = 52 * j / 64, at = 52 * j % 64;
      u64 bits = word < words ? P::modulus(word) >> at : 0;
      if (at > 12 && word + 1 < words) bits |= P::modulus(word + 1) << (64 - at);
      const u64 sum = (bits & mask) * factor + carry;
      made.limb[j] = j + 1 == n ? sum : sum & mask;
      carry = sum >> 52;
    }
    return made;
  }

  template <u32 factor = 1>
  static LANES_INLINE __m512i modulus(u32 i) {
    static constexpr Limbs52 made = multiple(factor);
    return _mm512_set1_epi64(static_cast<long long>(made.limb[i]));
  }

  static LANES_INLINE Lanes zero() {
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = _mm512_setzero_si512();
    return z;
  }

  // One element in every lane.
  static LANES_INLINE Lanes broadcast(const Mont<P>& x) {
    __m512i word[8];
    UNROLL
    for (u32 i = 0; i < 8; ++i)
      word[i] = _mm512_set1_epi64(i < words ? static_cast<long long>(x.limb[i < words ? i : 0]) : 0);
    return from_words(word);
  }

  // The elements at eight addresses, each at `offset` bytes from there.
  static LANES_INLINE Lanes load(const void* const from[8], u32 offset) {
    __m512i row[8];
    const auto at = [&](u32 i) { return static_cast<const char*>(from[i]) + offset; };
    if constexpr (words == 4) {
      UNROLL
      for (u32 i = 0; i < 4; ++i) {
        row[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at(i)))),
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at(i + 4))), 1);
      }
      transpose_four(row);
    } else {
      UNROLL
      for (u32 i = 0; i < 8; ++i) row[i] = _mm512_maskz_loadu_epi64((1u << words) - 1, at(i));
      transpose(row);
    }
    return from_words(row);
  }

  // For values below p.
  LANES_INLINE void store(void* const to[8], u32 offset) const {
    __m512i row[8];
    UNROLL
    for (u32 k = 0; k < 8; ++k) row[k] = k < words ? word(k) : _mm512_setzero_si512();
    const auto at = [&](u32 i) { return static_cast<char*>(to[i]) + offset; };
    if constexpr (words == 4) {
      transpose_four(row);
      UNROLL
      for (u32 i = 0; i < 4; ++i) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at(i)), _mm512_castsi512_si256(row[i]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at(i + 4)), _mm512_extracti64x4_epi64(row[i], 1));
      }
    } else {
      transpose(row);
      UNROLL
      for (u32 i = 0; i < 8; ++i) _mm512_mask_storeu_epi64(at(i), (1u << words) - 1, row[i]);
    }
  }

  static LANES_INLINE Lanes product(const Lanes& x, const Lanes& y) {
    __m512i t[n + 1];
    const __m512i zeros = _mm512_setzero_si512();
    UNROLL
    for (u32 i = 0; i <= n; ++i) t[i] = zeros;
    const __m512i inverse = _mm512_set1_epi64(static_cast<long long>(P::negative_inverse() & mask));
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      UNROLL
      for (u32 j = 0; j < n; ++j) t[j] = _mm512_madd52lo_epu64(t[j], x.limb[j], y.limb[i]);
      const __m512i m = _mm512_madd52lo_epu64(zeros, t[0], inverse);
      UNROLL
      for (u32 j = 0; j < n; ++j) t[j] = _mm512_madd52lo_epu64(t[j], m, modulus(j));
      t[1] = _mm512_add_epi64(t[1], _mm512_srli_epi64(t[0], 52));
      UNROLL
      for (u32 j = 0; j < n; ++j) {
        t[j] = _mm512_madd52hi_epu64(t[j + 1], x.limb[j], y.limb[i]);
        t[j] = _mm512_madd52hi_epu64(t[j], m, modulus(j));
      }
      t[n] = zeros;
    }
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = t[i];
    z.carry();
    return z;
  }

  // x + y; the bounds add up.
  static LANES_INLINE Lanes sum(const Lanes& x, const Lanes& y) {
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = _mm512_add_epi64(x.limb[i], y.limb[i]);
    z.carry();
    return z;
  }

  // x - y + factor p, for y below factor p; (x's bound + factor p) bounds it.
  template <u32 factor>
  static LANES_INLINE Lanes difference(const Lanes& x, const Lanes& y) {
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      z.limb[i] = _mm512_add_epi64(_mm512_sub_epi64(x.limb[i], y.limb[i]), modulus<factor>(i));
    }
    z.carry();
    return z;
  }

  // p - x in some lanes, for x below p.
  LANES_INLINE Lanes opposite(u8 where) const {
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = _mm512_mask_sub_epi64(limb[i], where, modulus(i), limb[i]);
    z.carry();
    return z;
  }

  // 2^shift x.
  LANES_INLINE Lanes shifted() const {
    const __m512i low = _mm512_set1_epi64(static_cast<long long>(mask));
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) {
      z.limb[i] = _mm512_slli_epi64(limb[i], shift);
      if (i + 1 < n) z.limb[i] = _mm512_and_si512(z.limb[i], low);
      if (i > 0) z.limb[i] = _mm512_or_si512(z.limb[i], _mm512_srli_epi64(limb[i > 0 ? i - 1 : 0], 52 - shift));
    }
    return z;
  }

  // The lanes where two elements have the same limbs.
  static LANES_INLINE u32 equal(const Lanes& x, const Lanes& y) {
    __m512i different = _mm512_xor_si512(x.limb[0], y.limb[0]);
    UNROLL
    for (u32 i = 1; i < n; ++i) different = _mm512_or_si512(different, _mm512_xor_si512(x.limb[i], y.limb[i]));
    return _mm512_testn_epi64_mask(different, different);
  }

  // Puts another's elements into some lanes.
  LANES_INLINE void put(u8 where, const Lanes& from) {
    UNROLL
    for (u32 i = 0; i < n; ++i) limb[i] = _mm512_mask_mov_epi64(limb[i], where, from.limb[i]);
  }

  // x - factor p where that is not negative.
  template <u32 factor>
  LANES_INLINE Lanes reduced() const {
    Lanes z;
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = _mm512_sub_epi64(limb[i], modulus<factor>(i));
    z.carry();
    const __mmask8 negative = _mm512_movepi64_mask(z.limb[n - 1]);
    UNROLL
    for (u32 i = 0; i < n; ++i) z.limb[i] = _mm512_mask_mov_epi64(z.limb[i], negative, limb[i]);
    return z;
  }

 private:
  // 64 bits of a number of 128, from bit `at` on.
  template <u32 at>
  static LANES_INLINE __m512i across(__m512i low, __m512i high) {
#if defined(__AVX512VBMI2__)
    return _mm512_shrdi_epi64(low, high, at);
#else
    return _mm512_or_si512(_mm512_srli_epi64(low, at), _mm512_slli_epi64(high, 64 - at));
#endif
  }

  static LANES_INLINE Lanes from_words(const __m512i* word) {
    Lanes z;
    from_words_limb<0>(z, word);
    return z;
  }
  template <u32 j>
  static LANES_INLINE void from_words_limb(Lanes& z, const __m512i* word) {
    if constexpr (j < n) {
      constexpr u32 w = 52 * j / 64, at = 52 * j % 64;
      const __m512i low = _mm512_set1_epi64(static_cast<long long>(mask));
      if constexpr (w >= words) {
        z.limb[j] = _mm512_setzero_si512();
      } else if constexpr (at > 12 && w + 1 < words) {
        z.limb[j] = _mm512_and_si512(across<at>(word[w], word[w + 1]), low);
      } else if constexpr (at == 12) {
        z.limb[j] = _mm512_srli_epi64(word[w], at);
      } else {
        z.limb[j] = _mm512_and_si512(_mm512_srli_epi64(word[w], at), low);
      }
      from_words_limb<j + 1>(z, word);
    }
  }

  // Word k of values below p.
  LANES_INLINE __m512i word(u32 k) const {
    __m512i made = _mm512_setzero_si512();
    UNROLL
    for (u32 j = 0; j < n; ++j) {
      const int distance = static_cast<int>(52 * j) - static_cast<int>(64 * k);
      if (distance <= -52 || distance >= 64) continue;
      made = _mm512_or_si512(made, distance >= 0 ? _mm512_slli_epi64(limb[j], distance >= 0 ? distance : 0)
                                                 : _mm512_srli_epi64(limb[j], distance < 0 ? -distance : 0));
    }
    return made;
  }

  // Moves what limbs have above 52 bits, or lack, to the next ones; the highest keeps its sign.
  LANES_INLINE void carry() {
    const __m512i low = _mm512_set1_epi64(static_cast<long long>(mask));
    UNROLL
    for (u32 i = 0; i + 1 < n; ++i) {
      limb[i + 1] = _mm512_add_epi64(limb[i + 1], _mm512_srai_epi64(limb[i], 52));
      limb[i] = _mm512_and_si512(limb[i], low);
    }
  }
};

// What batches of points compute with, the same for both groups' fields: values go in below p and come out below p; in
// between they are below 2p unless a name says otherwise.
template <class F>
struct Vector;

template <class P>
struct Vector<Mont<P>> {
  using L = Lanes<P>;
  L v;

  static LANES_INLINE Vector load(const void* const from[8], u32 offset) { return {L::load(from, offset)}; }
  LANES_INLINE void store(void* const to[8], u32 offset) const { v.store(to, offset); }
  static LANES_INLINE Vector broadcast(const Mont<P>& x) { return {L::broadcast(x)}; }
  static LANES_INLINE Vector zero() { return {L::zero()}; }
  static LANES_INLINE u32 equal(const Vector& x, const Vector& y) { return L::equal(x.v, y.v); }
  LANES_INLINE void put(u8 where, const Vector& from) { v.put(where, from.v); }

  static LANES_INLINE Vector product(const Vector& x, const Vector& y) { return {L::product(x.v, y.v)}; }
  static LANES_INLINE Vector square(const Vector& x) { return {L::product(x.v, x.v)}; }
  // x - y for y at most p.
  static LANES_INLINE Vector minus(const Vector& x, const Vector& y) { return {L::template difference<1>(x.v, y.v)}; }
  // -x in some lanes; there it may be p.
  LANES_INLINE Vector opposite(u8 where) const { return {v.opposite(where)}; }
  LANES_INLINE Vector shifted() const { return {v.shifted()}; }
  // From below 4p to below p.
  LANES_INLINE Vector canonical() const { return {v.template reduced<2>().template reduced<1>()}; }
};

template <class P>
struct Vector<Ext2<Mont<P>>> {
  using F = Ext2<Mont<P>>;
  using L = Lanes<P>;
  L c0, c1;

  static LANES_INLINE Vector load(const void* const from[8], u32 offset) {
    return {L::load(from, offset), L::load(from, offset + P::bytes)};
  }
  LANES_INLINE void store(void* const to[8], u32 offset) const {
    c0.store(to, offset);
    c1.store(to, offset + P::bytes);
  }
  static LANES_INLINE Vector broadcast(const F& x) { return {L::broadcast(x.c0), L::broadcast(x.c1)}; }
  static LANES_INLINE Vector zero() { return {L::zero(), L::zero()}; }
  static LANES_INLINE u32 equal(const Vector& x, const Vector& y) {
    return L::equal(x.c0, y.c0) & L::equal(x.c1, y.c1);
  }
  LANES_INLINE void put(u8 where, const Vector& from) {
    c0.put(where, from.c0);
    c1.put(where, from.c1);
  }

  static __attribute__((noinline)) Vector product(const Vector& x, const Vector& y) {
    const L low = L::product(x.c0, y.c0), high = L::product(x.c1, y.c1);
    const L cross = L::product(L::sum(x.c0, x.c1), L::sum(y.c0, y.c1));
    const L rest = L::template difference<4>(cross, L::sum(low, high));
    return {L::template difference<2>(low, high).template reduced<2>(),
            rest.template reduced<4>().template reduced<2>()};
  }
  static __attribute__((noinline)) Vector square(const Vector& x) {
    const L cross = L::product(x.c0, x.c1);
    return {L::product(L::sum(x.c0, x.c1), L::template difference<2>(x.c0, x.c1)),
            L::sum(cross, cross).template reduced<2>()};
  }
  static LANES_INLINE Vector minus(const Vector& x, const Vector& y) {
    return {L::template difference<1>(x.c0, y.c0), L::template difference<1>(x.c1, y.c1)};
  }
  LANES_INLINE Vector opposite(u8 where) const { return {c0.opposite(where), c1.opposite(where)}; }
  LANES_INLINE Vector shifted() const { return {c0.shifted(), c1.shifted()}; }
  LANES_INLINE Vector canonical() const {
    return {c0.template reduced<2>().template reduced<1>(), c1.template reduced<2>().template reduced<1>()};
  }
};

}  // namespace provewire

#endif
