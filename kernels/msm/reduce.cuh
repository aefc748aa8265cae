// From the buckets' sums to one point.
#pragma once

#include "core/launch.cuh"
#include "curve/xyzz.cuh"

namespace provewire {

// Adds up one point per thread of a block: shared[0] = sum of shared[0 .. threads - 1]. Takes tree_steps phases;
// each halves how many points are left.
HD u32 tree_steps(u32 threads) {
  u32 steps = 0;
  for (u32 left = threads; left > 1; left = (left + 1) / 2) ++steps;
  return steps;
}

template <class F>
HD void tree_step(u32 step, At at, Xyzz<F>* points) {
  u32 left = at.threads;
  for (u32 i = 0; i < step; ++i) left = (left + 1) / 2;
  const u32 kept = (left + 1) / 2;
  if (at.thread + kept < left) points[at.thread].add(points[at.thread + kept]);
}

// out[w * slices + s] = slice s of the sum over window w of weight times bucket, where bucket j has weight j + 1.
// Block (s, w); the threads of a window's blocks share its buckets evenly.
template <class F>
struct ReduceBuckets {
  const Xyzz<F>* buckets;
  u64 window_buckets;
  Xyzz<F>* out;

  using Thread = NoState;
  HD u32 phases(At at) const { return tree_steps(at.threads) + 2; }

  // Running sums from the highest bucket down give the sum with weights 1, 2, ... ; what the weights lack is the
  // number of buckets below the share, times the plain sum.
  HD Xyzz<F> share(At at) const {
    const u64 shares = at.blocks_x * at.threads;
    const u64 size = (window_buckets + shares - 1) / shares;
    const u64 begin = at.index() * size;
    Xyzz<F> plain = Xyzz<F>::infinity();
    Xyzz<F> weighted = Xyzz<F>::infinity();
    if (begin >= window_buckets) return weighted;
    const u64 end = begin + size < window_buckets ? begin + size : window_buckets;
    const Xyzz<F>* window = buckets + at.block_y * window_buckets;
    KEEP_LOOP
    for (u64 j = end; j-- > begin;) {
      plain.add(window[j]);
      weighted.add(plain);
    }
    if (begin != 0) weighted.add(plain.times(begin));
    return weighted;
  }

  HD void phase(u32 k, At at, u8* shared, Thread&) const {
    Xyzz<F>* sums = reinterpret_cast<Xyzz<F>*>(shared);
    const u32 steps = tree_steps(at.threads);
    if (k == 0) {
      sums[at.thread] = share(at);
    } else if (k <= steps) {
      tree_step(k - 1, at, sums);
    } else if (at.thread == 0) {
      out[at.block_y * at.blocks_x + at.block_x] = sums[0];
    }
  }
};

// out = the windows' sums, each the sum of its slices, joined by Horner's rule. One block; the slices are added up in
// place, since all of them together may be more than shared memory holds.
template <class F>
struct JoinWindows {
  Xyzz<F>* sums;
  u64 slices;
  u64 windows;
  u64 window_bits;
  Affine<F>* out;

  using Thread = NoState;
  HD u32 phases(At) const { return tree_steps(static_cast<u32>(slices)) + 1; }

  HD void phase(u32 k, At at, u8*, Thread&) const {
    u64 left = slices;
    for (u32 i = 0; i < k; ++i) left = (left + 1) / 2;
    if (left > 1) {
      const u64 kept = (left + 1) / 2, pairs = left - kept;
      KEEP_LOOP
      for (u64 i = at.thread; i < windows * pairs; i += at.threads) {
        Xyzz<F>* first = sums + i / pairs * slices + i % pairs;
        first->add(first[kept]);
      }
      return;
    }
    if (at.thread != 0) return;
    Xyzz<F> sum = sums[(windows - 1) * slices];
    KEEP_LOOP
    for (u64 w = windows - 1; w-- > 0;) {
      for (u64 i = 0; i < window_bits; ++i) sum = sum.twice();
      sum.add(sums[w * slices]);
    }
    *out = sum.to_affine();
  }
};

// out = sum of scalars[i] * points[i] for a handful of points, by doubling and adding. One block, best of a thread for
// each 32 bits of a scalar: all have to double the point up to where their bits are, but only a few times to add.
template <class F, class P>
struct Combination {
  const Affine<F>* points;
  const u32* scalars;
  u64 count;
  Affine<F>* out;

  static constexpr u32 words = P::bytes / 4;

  using Thread = NoState;
  HD u32 phases(At at) const { return tree_steps(at.threads) + 2; }

  // Word i of all scalars, times its point.
  HD Xyzz<F> product(u64 i) const {
    Xyzz<F> sum = Xyzz<F>::infinity();
    const u32 behind = 32 * static_cast<u32>(i % words);
    KEEP_LOOP
    for (u32 bit = behind + 32; bit-- > 0;) {
      if (!sum.is_infinity()) sum = sum.twice();
      if (bit >= behind && scalars[i] >> (bit - behind) & 1) sum.add(points[i / words]);
    }
    return sum;
  }

  HD void phase(u32 k, At at, u8* shared, Thread&) const {
    Xyzz<F>* sums = reinterpret_cast<Xyzz<F>*>(shared);
    const u32 steps = tree_steps(at.threads);
    if (k == 0) {
      sums[at.thread] = Xyzz<F>::infinity();
      for (u64 i = at.thread; i < count * words; i += at.threads) sums[at.thread].add(product(i));
    } else if (k <= steps) {
      tree_step(k - 1, at, sums);
    } else if (at.thread == 0) {
      *out = sums[0].to_affine();
    }
  }
};

}  // namespace provewire
