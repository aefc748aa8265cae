// Scalars to signed digits, and the counting sort of the digits by bucket.
//
// A scalar k above (r - 1) / 2 stands for r - k with the opposite sign, so that small negative numbers are small.
// What is left is below 2^(bits - 1) and is written in windows = ceil(bits / c) digits of c bits, each from
// -2^(c-1) to 2^(c-1): the highest window has room for the carry. Digit d of window w belongs to bucket
// w * 2^(c-1) + |d| - 1; zero belongs to none.
//
// Where multiples of the points are at hand, windows that are `groups` apart share their buckets: digit w of point i is
// then digit w % groups of its multiple 2^(c * groups * (w / groups)), and what is said of windows is said of groups.
#pragma once

#include "core/launch.cuh"

namespace provewire {

// A digit or a sorted entry: a number below 2^31 with the sign in the highest bit. Digit zero is 0.
constexpr u32 sign_bit = 0x80000000u;

// digits[(g * multiples + j) * count + i] = digit j * groups + g of the scalar of point i.
template <class P>
struct Digits {
  const u64* scalars;
  const u32* scalar_of_point;  // null where point i has scalar i
  u64 count;
  u64 window_bits;
  u64 groups;
  u64 multiples;
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
    u64 group = 0, multiple = 0;
    KEEP_LOOP
    for (u64 w = 0; w < groups * multiples; ++w) {
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
      digits[(group * multiples + multiple) * count + i] = digit == 0 ? 0 : digit | digit_sign;
      if (++group == groups) {
        group = 0;
        ++multiple;
      }
    }
  }
};

// What the two passes of the sort share: block (x, g) goes through its part of the digits of group g.
//
// A witness has few values that many of its wires take: half of its digits may be one number. So a block has a table of
// the digits that it meets, in shared memory, each at the slot that its bucket falls on: the first digit there takes
// the slot, and the block counts its likes in the table. They cost one operation on the counters all together, and only
// a digit that finds its slot taken by another costs one alone.
struct SortPass {
  const u32* digits;
  u64 count;  // of a group: a digit for each point and multiple
  u64 window_buckets;
  u32* counters;  // RowCount's scheme: counts, then beginnings, then ends of the buckets
  u64 per_thread;
  u64 slots;  // a power of two

  HD u32* counter(At at, u32 magnitude) const { return counters + at.block_y * window_buckets + (magnitude - 1); }
  HD u64 slot_of(u32 magnitude) const { return (magnitude - 1) & (slots - 1); }

  // Calls `use` with each of the thread's digits that are not zero, and its place in the group.
  template <class Use>
  HD void for_each(At at, const Use& use) const {
    u64 i = at.block_x * at.threads * per_thread + at.thread;
    KEEP_LOOP
    for (u64 j = 0; j < per_thread && i < count; ++j, i += at.threads) {
      const u32 digit = digits[at.block_y * count + i];
      if (digit != 0) use(digit, static_cast<u32>(i));
    }
  }

  HD void clear(At at, u32* taken, u32* counts) const {
    for (u64 slot = at.thread; slot < slots; slot += at.threads) taken[slot] = counts[slot] = 0;
  }

  // Counts the thread's digits that have a slot, and where asked for, the others at their buckets.
  HD void count_likes(At at, u32* taken, u32* counts, bool and_others) const {
    for_each(at, [&](u32 digit, u32) {
      const u32 magnitude = digit & ~sign_bit;
      const u64 slot = slot_of(magnitude);
      u32 owner = taken[slot];
      if (owner == 0) owner = atomic_claim(&taken[slot], magnitude);
      if (owner == 0 || owner == magnitude) {
        atomic_add(&counts[slot], 1);
      } else if (and_others) {
        atomic_add(counter(at, magnitude), 1);
      }
    });
  }
};

// counters[bucket] += number of digits.
struct BucketCount {
  SortPass pass;

  using Thread = NoState;
  HD u32 phases(At) const { return 3; }

  HD void phase(u32 k, At at, u8* shared, Thread&) const {
    u32* taken = reinterpret_cast<u32*>(shared);
    u32* counts = taken + pass.slots;
    if (k == 0) {
      pass.clear(at, taken, counts);
    } else if (k == 1) {
      pass.count_likes(at, taken, counts, true);
    } else {
      for (u64 slot = at.thread; slot < pass.slots; slot += at.threads) {
        if (taken[slot] != 0) atomic_add(pass.counter(at, taken[slot]), counts[slot]);
      }
    }
  }
};

// sorted = the points' indices with their digits' signs, by bucket. The order within a bucket is not fixed where
// more than one thread works on a window. Multiples of the points stand `stride` points apart, and a group has `points`
// digits for each.
struct BucketScatter {
  SortPass pass;
  u64 points;
  u64 stride;
  u32* sorted;

  using Thread = NoState;
  HD u32 phases(At) const { return 4; }

  HD void phase(u32 k, At at, u8* shared, Thread&) const {
    u32* taken = reinterpret_cast<u32*>(shared);
    u32* counts = taken + pass.slots;
    if (k == 0) {
      pass.clear(at, taken, counts);
    } else if (k == 1) {
      pass.count_likes(at, taken, counts, false);
    } else if (k == 2) {
      // From here on the table holds where the next one of a slot's digits goes.
      for (u64 slot = at.thread; slot < pass.slots; slot += at.threads) {
        if (taken[slot] != 0) counts[slot] = atomic_add(pass.counter(at, taken[slot]), counts[slot]);
      }
    } else {
      const u32 each = static_cast<u32>(points), apart = static_cast<u32>(stride);
      pass.for_each(at, [&](u32 digit, u32 i) {
        const u32 magnitude = digit & ~sign_bit;
        const u64 slot = pass.slot_of(magnitude);
        const u32 place =
            taken[slot] == magnitude ? atomic_add(&counts[slot], 1) : atomic_add(pass.counter(at, magnitude), 1);
        sorted[place] = (i / each * apart + i % each) | (digit & sign_bit);
      });
    }
  }
};

}  // namespace provewire
