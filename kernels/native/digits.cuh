// Scalars to digits and to entries sorted by bucket, for all multi-exponentiations with the same scalars at once.
//
// A scalar k above (r - 1) / 2 stands for r - k with the opposite sign. What is left gets 2^(c-1) added in every window
// but the highest, so that each digit can be read by itself: its c bits less 2^(c-1). The sign lies in the top bit.
#pragma once

#include <cstring>

#include "msm/digits.cuh"
#include "native/parallel.cuh"

namespace provewire {

struct Folded {
  u64 word[4];
};

// out[i] = scalar i folded, its sign in bit 255; lengths[b] += number of scalars of b bits after that.
template <class P>
void fold_scalars(const u8* scalars, u64 count, Folded* out, u64* lengths, u32 threads) {
  static_assert(P::bytes == sizeof(Folded), "a scalar has four words");
  std::vector<std::atomic<u64>> totals(257);
  parallel_parts(count, 1 << 14, threads, [&](u64 begin, u64 end) {
    u64 own[257] = {};
    for (u64 i = begin; i < end; ++i) {
      u64 k[4];
      std::memcpy(k, scalars + i * sizeof k, sizeof k);
      const bool negative = Digits<P>::fold(k);
      u32 bits = 0;
      for (u32 j = 0; j < 4; ++j) {
        if (k[j] != 0) bits = 64 * j + 64 - static_cast<u32>(__builtin_clzll(k[j]));
      }
      ++own[bits];
      if (negative) k[3] |= u64{1} << 63;
      std::memcpy(&out[i], k, sizeof k);
    }
    for (u32 b = 0; b < 257; ++b) {
      if (own[b] != 0) totals[b].fetch_add(own[b], std::memory_order_relaxed);
    }
  });
  for (u32 b = 0; b < 257; ++b) lengths[b] = totals[b].load();
}

// How scalars are cut up.
struct Windows {
  u32 bits;
  u32 count;

  u64 buckets() const { return u64{1} << (bits - 1); }

  Folded bias() const {
    Folded sum{};
    for (u32 w = 0; w + 1 < count; ++w) {
      const u32 at = w * bits + bits - 1;
      sum.word[at / 64] |= u64{1} << (at % 64);
    }
    return sum;
  }
};

inline Folded biased(const Folded& scalar, const Folded& bias) {
  Folded sum;
  unsigned __int128 carry = 0;
  for (u32 j = 0; j < 4; ++j) {
    const u64 word = j == 3 ? scalar.word[3] & ~(u64{1} << 63) : scalar.word[j];
    carry += static_cast<unsigned __int128>(word) + bias.word[j];
    sum.word[j] = static_cast<u64>(carry);
    carry >>= 64;
  }
  sum.word[3] |= scalar.word[3] & u64{1} << 63;
  return sum;
}

// Digit w as an entry's bucket plus one with its sign; zero for digit zero.
inline u32 digit_of(const Folded& sum, const Windows& windows, u32 w) {
  const u32 at = w * windows.bits, word = at / 64, shift = at % 64;
  const auto without_sign = [&](u32 i) { return i == 3 ? sum.word[3] & ~(u64{1} << 63) : sum.word[i]; };
  u64 raw = without_sign(word) >> shift;
  if (shift != 0 && word + 1 < 4) raw |= without_sign(word + 1) << (64 - shift);
  raw &= (u64{1} << windows.bits) - 1;
  u32 sign = sum.word[3] >> 63 ? sign_bit : 0;
  if (w + 1 == windows.count) return raw == 0 ? 0 : static_cast<u32>(raw) | sign;
  const u64 half = windows.buckets();
  if (raw == half) return 0;
  if (raw < half) return static_cast<u32>(half - raw) | (sign ^ sign_bit);
  return static_cast<u32>(raw - half) | sign;
}

// sorted[w * count ...] = the indices of the scalars whose digit w is not zero, with their signs, by bucket and in
// order; the scalars get their bias; ends[w * buckets + b] = where bucket b's end, counted from the window's first.
inline void sort_digits(Folded* scalars, u64 count, Windows windows, u32* sorted, u32* ends, u32 threads) {
  const Folded bias = windows.bias();
  const u64 buckets = windows.buckets();
  parallel_parts(count, 1 << 14, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) scalars[i] = biased(scalars[i], bias);
  });
  parallel(windows.count, threads, [&](u64 w) {
    u32* counters = ends + w * buckets;
    std::memset(counters, 0, buckets * sizeof(u32));
    for (u64 i = 0; i < count; ++i) {
      const u32 digit = digit_of(scalars[i], windows, static_cast<u32>(w));
      if (digit != 0) ++counters[(digit & ~sign_bit) - 1];
    }
    u32 before = 0;
    for (u64 b = 0; b < buckets; ++b) {
      const u32 here = counters[b];
      counters[b] = before;
      before += here;
    }
    u32* out = sorted + w * count;
    for (u64 i = 0; i < count; ++i) {
      const u32 digit = digit_of(scalars[i], windows, static_cast<u32>(w));
      if (digit != 0) out[counters[(digit & ~sign_bit) - 1]++] = static_cast<u32>(i) | (digit & sign_bit);
    }
  });
}

}  // namespace provewire
