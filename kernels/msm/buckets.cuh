// Sums of points by bucket, in equal shares whatever the digits are.
//
// A thread adds up `run` entries of the sorted list. Buckets that lie wholly inside its run it adds to the
// buckets' sums; the first and the last bucket of the run may go on in the neighbours' runs, and go to a list of
// partial sums, which is again sorted by bucket. That list is summed by the same scheme until one thread is left.
// So each launch has one writer per bucket, and no digit, however common, makes one thread work longer.
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
  Xyzz<F>* partials;  // null where this thread's run is the whole list: then every bucket is wholly inside
  u32* partial_buckets;
  u64 thread;
  bool is_first;

  HD void end(u32 bucket, const Xyzz<F>& sum, bool is_last) {
    if (partials == nullptr) {
      buckets[bucket].add(sum);
    } else if (is_first || is_last) {
      const u64 place = 2 * thread + (is_first ? 0 : 1);
      partials[place] = sum;
      partial_buckets[place] = bucket;
      if (is_first && is_last) partial_buckets[place + 1] = no_bucket;
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
    Segments<F> segments{buckets, partials, partial_buckets, at.index(), true};
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
      const Affine<F> point = points[entry & ~sign_bit];
      sum.add(entry & sign_bit ? -point : point);
    }
    segments.end(static_cast<u32>(bucket), sum, true);
  }
};

// From a list of partial sums to a shorter one, or to the buckets where one thread takes all.
template <class F>
struct FixUp {
  const Xyzz<F>* sums;
  const u32* sum_buckets;
  u64 count;
  u64 run;
  Xyzz<F>* buckets;
  Xyzz<F>* partials;
  u32* partial_buckets;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 begin = at.index() * run;
    if (begin >= count) return;
    const u64 end = begin + run < count ? begin + run : count;
    Segments<F> segments{buckets, partials, partial_buckets, at.index(), true};
    // The first entry of every pair is there, and runs are even.
    u32 bucket = sum_buckets[begin];
    Xyzz<F> sum = sums[begin];
    KEEP_LOOP
    for (u64 i = begin + 1; i < end; ++i) {
      if (sum_buckets[i] == no_bucket) continue;
      if (sum_buckets[i] == bucket) {
        sum.add(sums[i]);
        continue;
      }
      segments.end(bucket, sum, false);
      bucket = sum_buckets[i];
      sum = sums[i];
    }
    segments.end(bucket, sum, true);
  }
};

}  // namespace provewire
