// Sums of points by bucket, in equal shares whatever the digits are.
//
// A thread adds up `run` entries of the sorted list. Buckets that lie wholly inside its run it adds to the
// buckets' sums; the first and the last bucket of the run may go on in the neighbours' runs, and go to a list of
// partial sums, which is again sorted by bucket. That list is summed by the same scheme, level by level within a block,
// and then over what the blocks left, until one thread is left. So each launch has one writer per bucket, and no digit,
// however common, makes one thread work longer.
#pragma once

#include "core/launch.cuh"
#include "curve/xyzz.cuh"
#include "msm/digits.cuh"

namespace provewire {

// In a list of partial sums: nothing here.
constexpr u32 no_bucket = 0xffffffffu;

// Where a thread's sums go as it walks through its run.
template <class F>
struct Segments {
  Xyzz<F>* buckets;
  Xyzz<F>* partials;  // a pair; null where this thread's run is the whole list: then every bucket is wholly inside
  u32* partial_buckets;
  bool is_first;

  HD void end(u32 bucket, const Xyzz<F>& sum, bool is_last) {
    if (partials == nullptr) {
      buckets[bucket].add(sum);
    } else if (is_first || is_last) {
      const u32 place = is_first ? 0 : 1;
      partials[place] = sum;
      partial_buckets[place] = bucket;
      if (is_first && is_last) partial_buckets[1] = no_bucket;
    } else {
      buckets[bucket].add(sum);
    }
    is_first = false;
  }
};

// From the sorted list. `ends` tells where each bucket's entries end in it.
template <class F>
struct Accumulate {
  const Affine<F>* points;
  const u32* sorted;
  u64 entries;
  const u32* ends;
  u64 n_buckets;
  u64 run;
  Xyzz<F>* buckets;
  Xyzz<F>* partials;
  u32* partial_buckets;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  // The bucket of an entry: the first one, from `from` on, that ends behind it.
  HD u64 bucket_of(u64 entry, u64 from) const {
    u64 below = from;
    u64 above = n_buckets - 1;
    while (below < above) {
      const u64 middle = below + (above - below) / 2;
      if (ends[middle] > entry) {
        above = middle;
      } else {
        below = middle + 1;
      }
    }
    return below;
  }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 begin = at.index() * run;
    if (begin >= entries) return;
    const u64 end = begin + run < entries ? begin + run : entries;
    const u64 pair = 2 * at.index();
    Segments<F> segments{buckets, partials == nullptr ? nullptr : partials + pair, partial_buckets + pair, true};
    u64 bucket = bucket_of(begin, 0);
    Xyzz<F> sum = Xyzz<F>::infinity();
    KEEP_LOOP
    for (u64 i = begin; i < end; ++i) {
      if (i >= ends[bucket]) {
        segments.end(static_cast<u32>(bucket), sum, false);
        sum = Xyzz<F>::infinity();
        ++bucket;
        if (i >= ends[bucket]) bucket = bucket_of(i, bucket);
      }
      const u32 entry = sorted[i];
      Affine<F> point = points[entry & ~sign_bit];
      if (point.is_infinity()) continue;
      if (entry & sign_bit) point.y = point.y.complement();
      sum.add_finite(point);
    }
    segments.end(static_cast<u32>(bucket), sum, true);
  }
};

// A list of partial sums, in place. Item j stands at place (j / 2) * stride + j % 2: two neighbours are a pair that one
// thread of the launch before left. A block takes `run` items for each of its threads; a thread leaves a pair where its
// first item was, and the pairs are the items of the block's next level. What a block leaves is a pair, and the pairs
// of all blocks are the next launch's items; where there is one block, its last thread brings what is left to the
// buckets.
template <class F>
struct FixUp {
  Xyzz<F>* sums;
  u32* sum_buckets;
  u64 count;
  u64 stride;
  u64 run;  // even
  Xyzz<F>* buckets;

  using Thread = NoState;

  HD u64 first(At at) const { return at.block_x * at.threads * run; }

  // The block's items.
  HD u64 items(At at) const {
    const u64 left = count - first(at);
    return left < at.threads * run ? left : at.threads * run;
  }

  // The threads that have items of `n`.
  HD u64 takers(u64 n) const { return (n + run - 1) / run; }

  HD u32 phases(At at) const {
    if (first(at) >= count) return 0;
    u32 levels = 1;
    for (u64 n = items(at); takers(n) > 1; n = 2 * takers(n)) ++levels;
    return levels;
  }

  HD void phase(u32 k, At at, u8*, Thread&) const {
    u64 n = items(at);
    u64 apart = stride;
    for (u32 level = 0; level < k; ++level) {
      n = 2 * takers(n);
      apart *= run / 2;
    }
    const u64 begin = at.thread * run;
    if (begin >= n) return;
    const u64 end = begin + run < n ? begin + run : n;
    const u64 origin = first(at) / 2 * stride;
    const u64 own = origin + begin / 2 * apart;
    const bool is_alone = at.blocks_x == 1 && takers(n) == 1;
    Segments<F> segments{buckets, is_alone ? nullptr : sums + own, sum_buckets + own, true};
    // The first item of every pair is there, and runs are even.
    u32 bucket = sum_buckets[own];
    Xyzz<F> sum = sums[own];
    KEEP_LOOP
    for (u64 i = begin + 1; i < end; ++i) {
      const u64 place = origin + i / 2 * apart + i % 2;
      const u32 next = sum_buckets[place];
      if (next == no_bucket) continue;
      if (next == bucket) {
        sum.add(sums[place]);
        continue;
      }
      // Nothing is overwritten that is still to be read: what ends here goes to the place of the run's first item.
      segments.end(bucket, sum, false);
      bucket = next;
      sum = sums[place];
    }
    segments.end(bucket, sum, true);
  }
};

}  // namespace provewire
