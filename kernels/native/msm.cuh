// Multi-exponentiation on CPUs: sums of sorted entries by bucket, pair by pair, whatever the digits are.
//
// A task takes a part of one window's sorted entries. It fetches points until its tile is full and adds neighbours of
// the same bucket pairwise, in rounds, until every bucket has one point. So a bucket of a million points takes as long
// as a million points of different buckets.
#pragma once

#include <algorithm>

#include "native/batch.cuh"
#include "native/digits.cuh"

namespace provewire {

// The bases of one multi-exponentiation as a key's file has them: not aligned, infinity among them.
template <class F>
struct Bases {
  const u8* points;
  u64 skip;  // scalars before the first point's
  u64 count;

  Affine<F> at(u64 i) const {
    Affine<F> point;
    std::memcpy(static_cast<void*>(&point), points + i * sizeof point, sizeof point);
    return point;
  }
  void prefetch(u64 i) const {
    if (i < skip || i - skip >= count) return;
    // A point of a file begins anywhere in a cache line.
    const u8* point = points + (i - skip) * sizeof(Affine<F>);
    for (u64 at = 0; at < sizeof(Affine<F>); at += 64) __builtin_prefetch(point + at);
    __builtin_prefetch(point + sizeof(Affine<F>) - 1);
  }
};

// A task's sums of its first and its last bucket, which other tasks of the window may share.
template <class F>
struct Shared {
  u64 bucket;
  Affine<F> sum;
};

template <class F>
class BucketSums {
 public:
  static constexpr u64 tile = (u64{1} << 18) / sizeof(Affine<F>);

  // From sorted[begin] to sorted[end - 1]; `ends` are the window's.
  void run(const Bases<F>& bases, const u32* sorted, const u32* ends, u64 n_buckets, u64 begin, u64 end,
           Affine<F>* buckets, std::vector<Shared<F>>& shared) {
    u64 bucket = static_cast<u64>(std::upper_bound(ends, ends + n_buckets, static_cast<u32>(begin)) - ends);
    const u64 first = bucket;
    const u64 last = static_cast<u64>(std::upper_bound(ends, ends + n_buckets, static_cast<u32>(end - 1)) - ends);
    from_.resize(tile + 1);
    to_.resize(tile + 1);
    Affine<F> first_sum = Affine<F>::infinity(), last_sum = Affine<F>::infinity();
    Affine<F> carried;
    bool is_carried = false;
    u64 i = begin;
    while (i < end || is_carried) {
      segments_.clear();
      u64 n = 0;
      if (is_carried) {
        from_[n++] = carried;
        segments_.push_back({1, nullptr, bucket});
        is_carried = false;
      }
      for (; i < end && n < tile; ++i) {
        while (i >= ends[bucket]) ++bucket;
        if (i + ahead < end) bases.prefetch(sorted[i + ahead] & ~sign_bit);
        const u64 scalar = sorted[i] & ~sign_bit;
        if (scalar < bases.skip || scalar - bases.skip >= bases.count) continue;
        Affine<F> point = bases.at(scalar - bases.skip);
        if (point.is_infinity()) continue;
        from_[n++] = sorted[i] & sign_bit ? -point : point;
        if (segments_.empty() || segments_.back().bucket != bucket) segments_.push_back({0, nullptr, bucket});
        ++segments_.back().length;
      }
      for (Segment& segment : segments_) {
        segment.sum = segment.bucket == first  ? &first_sum
                      : segment.bucket == last ? &last_sum
                                               : &buckets[segment.bucket];
      }
      // The last one may go on in the next tile.
      if (i < end && !segments_.empty()) {
        segments_.back().sum = &carried;
        bucket = segments_.back().bucket;
        is_carried = true;
      }
      rounds();
    }
    shared.push_back({first, first_sum});
    if (last != first) shared.push_back({last, last_sum});
  }

 private:
  static constexpr u64 ahead = 24;

  struct Segment {
    u64 length;
    Affine<F>* sum;
    u64 bucket;
  };

  // Halves every segment until it is one point, which goes to its place.
  void rounds() {
    while (!segments_.empty()) {
      pairs_.clear();
      u64 in = 0, out = 0, kept = 0;
      for (u64 s = 0; s < segments_.size(); ++s) {
        Segment segment = segments_[s];
        if (segment.length == 1) {
          *segment.sum = from_[in++];
          continue;
        }
        if (segment.length == 2) {
          pairs_.push_back({&from_[in], &from_[in + 1], segment.sum});
          in += 2;
          continue;
        }
        for (u64 j = 0; j + 1 < segment.length; j += 2) {
          pairs_.push_back({&from_[in + j], &from_[in + j + 1], &to_[out++]});
        }
        if (segment.length % 2 != 0) to_[out++] = from_[in + segment.length - 1];
        in += segment.length;
        segment.length = (segment.length + 1) / 2;
        segments_[kept++] = segment;
      }
      segments_.resize(kept);
      adder_.add(pairs_.data(), pairs_.size());
      std::swap(from_, to_);
    }
  }

  std::vector<Affine<F>> from_, to_;
  std::vector<Segment> segments_;
  std::vector<Pair<F>> pairs_;
  PairAdder<F> adder_;
};

// Sum over the buckets of (index + 1) * bucket. The buckets are overwritten.
template <class F>
Xyzz<F> weighted_sum(Affine<F>* buckets, u64 count, PairAdder<F>& adder) {
  // Strips walk down side by side, so that their additions share an inversion.
  const u64 strips = count >= 2048 ? 256 : 1;
  const u64 length = count / strips;
  Xyzz<F> total = Xyzz<F>::infinity();
  if (strips == 1) {
    Xyzz<F> plain = Xyzz<F>::infinity();
    for (u64 j = count; j-- > 0;) {
      plain.add(buckets[j]);
      total.add(plain);
    }
    return total;
  }
  std::vector<Affine<F>> weighted(strips);
  std::vector<Pair<F>> pairs(strips);
  // buckets[s * length + j] becomes the sum of its strip from j up; the weighted sum is the sum of those.
  for (u64 s = 0; s < strips; ++s) weighted[s] = buckets[s * length + length - 1];
  for (u64 j = length - 1; j-- > 0;) {
    for (u64 s = 0; s < strips; ++s) {
      Affine<F>* here = &buckets[s * length + j];
      pairs[s] = {here, here + 1, here};
    }
    adder.add(pairs.data(), strips);
    for (u64 s = 0; s < strips; ++s) pairs[s] = {&weighted[s], &buckets[s * length + j], &weighted[s]};
    adder.add(pairs.data(), strips);
  }
  // A strip's buckets lack the number of buckets below it: length * s times its plain sum.
  Xyzz<F> plain = Xyzz<F>::infinity(), above = Xyzz<F>::infinity();
  for (u64 s = strips; s-- > 1;) {
    plain.add(buckets[s * length]);
    above.add(plain);
  }
  total = above.times(length);
  for (u64 s = 0; s < strips; ++s) total.add(weighted[s]);
  return total;
}

// The sum of scalar times point over sorted digits.
template <class F>
Xyzz<F> multi_exponentiate(const Bases<F>& bases, u64 scalars, Windows windows, const u32* sorted, const u32* ends,
                           u32 threads) {
  const u64 n_buckets = windows.buckets();
  struct Task {
    u32 window;
    u64 begin, end;
  };
  u64 entries = 0;
  for (u32 w = 0; w < windows.count; ++w) entries += ends[w * n_buckets + n_buckets - 1];
  // Shares small enough that threads end at about the same time, and large enough to fill tiles.
  const u64 grain = std::max<u64>(entries / (8 * u64{threads}) + 1, 4096);
  std::vector<Task> tasks;
  std::vector<u32> used;
  for (u32 w = 0; w < windows.count; ++w) {
    const u64 here = ends[w * n_buckets + n_buckets - 1];
    if (here == 0) continue;
    used.push_back(w);
    const u64 parts = (here + grain - 1) / grain;
    for (u64 p = 0; p < parts; ++p) tasks.push_back({w, here * p / parts, here * (p + 1) / parts});
  }
  std::vector<Xyzz<F>> window_sums(windows.count, Xyzz<F>::infinity());
  // Some windows at a time: the buckets of all would take as much memory as the key.
  const u64 wave = std::max<u64>(4, 2 * u64{threads});
  std::vector<Affine<F>> buckets(std::min<u64>(wave, used.size()) * n_buckets);
  for (u64 first = 0, t0 = 0; first < used.size(); first += wave) {
    const u64 here = std::min<u64>(wave, used.size() - first);
    u64 t1 = t0;
    while (t1 < tasks.size() && tasks[t1].window <= used[first + here - 1]) ++t1;
    std::fill(buckets.begin(), buckets.end(), Affine<F>::infinity());
    std::vector<std::vector<Shared<F>>> shared(t1 - t0);
    const auto own = [&](u32 window) {
      return &buckets[static_cast<u64>(std::find(&used[first], &used[first] + here, window) - &used[first]) *
                      n_buckets];
    };
    parallel(t1 - t0, threads, [&](u64 i) {
      const Task& task = tasks[t0 + i];
      BucketSums<F> sums;
      sums.run(bases, sorted + task.window * scalars, ends + task.window * n_buckets, n_buckets, task.begin, task.end,
               own(task.window), shared[i]);
    });
    parallel(here, threads, [&](u64 i) {
      PairAdder<F> adder;
      Affine<F>* sums = &buckets[i * n_buckets];
      for (u64 t = t0; t < t1; ++t) {
        if (tasks[t].window != used[first + i]) continue;
        for (const Shared<F>& part : shared[t - t0]) {
          const Pair<F> pair{&sums[part.bucket], &part.sum, &sums[part.bucket]};
          adder.add(&pair, 1);
        }
      }
      window_sums[used[first + i]] = weighted_sum(sums, n_buckets, adder);
    });
    t0 = t1;
  }
  Xyzz<F> total = Xyzz<F>::infinity();
  for (u32 w = windows.count; w-- > 0;) {
    for (u32 i = 0; i < windows.bits; ++i) total = total.twice();
    total.add(window_sums[w]);
  }
  return total;
}

}  // namespace provewire
