// Scalars to signed digits, and the counting sort of the digits by bucket.
//
// A scalar k above (r - 1) / 2 stands for r - k with the opposite sign, so that small negative numbers are small.
// What is left is below 2^(bits - 1) and is written in windows = ceil(bits / c) digits of c bits, each from
// -2^(c-1) to 2^(c-1): the highest window has room for the carry. Digit d of window w belongs to bucket
// w * 2^(c-1) + |d| - 1; zero belongs to none.
#pragma once

#include "core/launch.cuh"

namespace provewire {

// A digit or a sorted entry: a number below 2^31 with the sign in the highest bit. Digit zero is 0.
constexpr u32 sign_bit = 0x80000000u;

// digits[w * count + i] = digit w of the scalar of point i.
template <class P>
struct Digits {
  const u64* scalars;
  const u32* scalar_of_point;  // null where point i has scalar i
  u64 count;
  u64 window_bits;
  u64 windows;
  u32* digits;

  static constexpr u32 words = P::bytes / 8;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  // Replaces k by r - k and returns true where k > (r - 1) / 2.
  static HD bool fold(u64* k) {
    bool above = false;
    bool decided = false;
    UNROLL
    for (u32 i = 0; i < words; ++i) {
      const u32 j = words - 1 - i;
      if (!decided && k[j] != P::half(j)) {
        above = k[j] > P::half(j);
        decided = true;
      }
    }
    if (!above) return false;
    u64 borrow = 0;
    UNROLL
    for (u32 i = 0; i < words; ++i) {
      const u64 difference = P::modulus(i) - k[i];
      const u64 next_borrow = (P::modulus(i) < k[i]) | (difference < borrow);
      k[i] = difference - borrow;
      borrow = next_borrow;
    }
    return true;
  }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i >= count) return;
    const u64* scalar = scalars + (scalar_of_point ? scalar_of_point[i] : i) * words;
    u64 k[words];
    UNROLL
    for (u32 j = 0; j < words; ++j) k[j] = scalar[j];
    const u32 sign = fold(k) ? sign_bit : 0;
    const u32 half_window = 1u << (window_bits - 1);
    u32 carry = 0;
    KEEP_LOOP
    for (u64 w = 0; w < windows; ++w) {
      // The scalar moves down window by window: no index depends on w, so k stays in registers.
      u32 digit = static_cast<u32>(k[0] & ((u64{1} << window_bits) - 1)) + carry;
      UNROLL
      for (u32 j = 0; j + 1 < words; ++j) k[j] = k[j] >> window_bits | k[j + 1] << (64 - window_bits);
      k[words - 1] >>= window_bits;
      carry = digit > half_window ? 1 : 0;
      u32 digit_sign = sign;
      if (carry) {
        digit = (1u << window_bits) - digit;
        digit_sign ^= sign_bit;
      }
      digits[w * count + i] = digit == 0 ? 0 : digit | digit_sign;
    }
  }
};

// What the two passes of the sort share: block (x, w) goes through its part of window w's digits.
struct SortPass {
  const u32* digits;
  u64 count;
  u64 window_buckets;
  u32* counters;  // RowCount's scheme: counts, then beginnings, then ends of the buckets
  u64 per_thread;

  HD u64 first(At at) const { return at.block_x * at.threads * per_thread + at.thread; }
  HD u32* counter(At at, u32 digit) const { return counters + at.block_y * window_buckets + ((digit & ~sign_bit) - 1); }
};

// counters[bucket] += number of digits.
struct BucketCount {
  SortPass pass;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    u64 i = pass.first(at);
    for (u64 j = 0; j < pass.per_thread && i < pass.count; ++j, i += at.threads) {
      const u32 digit = pass.digits[at.block_y * pass.count + i];
      if (digit != 0) atomic_add(pass.counter(at, digit), 1);
    }
  }
};

// sorted = the points' indices with their digits' signs, by bucket. The order within a bucket is not fixed where
// more than one thread works on a window.
struct BucketScatter {
  SortPass pass;
  u32* sorted;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    u64 i = pass.first(at);
    for (u64 j = 0; j < pass.per_thread && i < pass.count; ++j, i += at.threads) {
      const u32 digit = pass.digits[at.block_y * pass.count + i];
      if (digit != 0) sorted[atomic_add(pass.counter(at, digit), 1)] = static_cast<u32>(i) | (digit & sign_bit);
    }
  }
};

}  // namespace provewire
