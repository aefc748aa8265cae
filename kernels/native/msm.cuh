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

  // Copies the point of scalar i; false where it has none, or infinity.
  HD bool fetch(u64 i, Affine<F>* to) const {
    if (i - skip >= count) return false;
    std::memcpy(static_cast<void*>(to), points + (i - skip) * sizeof *to, sizeof *to);
    return !to->is_infinity();
  }
  // Inlined by force: g++ 12 takes a function of nothing but prefetches for one without effects, and drops its calls.
  HD void prefetch(u64 i) const {
    if (i - skip >= count) return;
    // A point of a file begins anywhere in a cache line.
    const u8* point = points + (i - skip) * sizeof(Affine<F>);
    UNROLL
    for (u64 at = 0; at < sizeof(Affine<F>); at += 64) __builtin_prefetch(point + at);
    __builtin_prefetch(point + sizeof(Affine<F>) - 1);
  }
};

// A part of one window's sorted entries, and the sums of its first and its last bucket, which other parts may share.
template <class F>
struct Part {
  u32 window;
  u64 begin, end;
  u64 first = 0, last = 0;
  Affine<F> first_sum = Affine<F>::infinity(), last_sum = Affine<F>::infinity();
};

// Sums parts, one after the other; keeps its memory from one to the next.
template <class F>
class BucketSums {
 public:
  static constexpr u64 tile = (u64{1} << 18) / sizeof(Affine<F>);

  u64 additions() const { return additions_; }

  // `sorted` and `ends` are the window's.
  void run(const Bases<F>& bases, const u32* sorted, const u32* ends, u64 n_buckets, Part<F>& part,
           Affine<F>* buckets) {
    const auto bucket_of = [&](u64 i) {
      return static_cast<u64>(std::upper_bound(ends, ends + n_buckets, static_cast<u32>(i)) - ends);
    };
    u64 bucket = part.first = bucket_of(part.begin);
    part.last = bucket_of(part.end - 1);
    from_.resize(tile + 1);
    to_.resize(tile + 1);
    minus_.resize(tile + 1);
    Affine<F> carried;
    bool is_carried = false;
    u64 i = part.begin;
    while (i < part.end || is_carried) {
      segments_.clear();
      u64 n = 0;
      if (is_carried) {
        from_[n] = carried;
        minus_[n++] = 0;
        segments_.push_back({1, nullptr, bucket});
        is_carried = false;
      }
      while (i < part.end && n < tile) {
        while (i >= ends[bucket]) ++bucket;
        const u64 before = n, stop = std::min<u64>(part.end, ends[bucket]);
        for (; i < stop && n < tile; ++i) {
          if (i + ahead < part.end) bases.prefetch(sorted[i + ahead] & ~sign_bit);
          if (!bases.fetch(sorted[i] & ~sign_bit, &from_[n])) continue;
          minus_[n++] = static_cast<u8>(sorted[i] >> 31);
        }
        if (n == before) continue;
        if (segments_.empty() || segments_.back().bucket != bucket) segments_.push_back({0, nullptr, bucket});
        segments_.back().length += n - before;
      }
      for (Segment& segment : segments_) {
        segment.sum = segment.bucket == part.first  ? &part.first_sum
                      : segment.bucket == part.last ? &part.last_sum
                                                    : &buckets[segment.bucket];
      }
      // The last one may go on in the next tile.
      if (i < part.end && !segments_.empty()) {
        segments_.back().sum = &carried;
        bucket = segments_.back().bucket;
        is_carried = true;
      }
      rounds();
    }
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
    for (bool is_first = true; !segments_.empty(); is_first = false) {
      const auto minus = [&](u64 i) -> u64 { return is_first ? minus_[i] : 0; };
      const auto alone = [&](u64 i) { return minus(i) != 0 ? -from_[i] : from_[i]; };
      const auto pair = [&](u64 i, Affine<F>* out) {
        pairs_.push_back({&from_[i], &from_[i + 1], out, minus(i) | minus(i + 1) << 8});
      };
      pairs_.clear();
      u64 in = 0, out = 0, kept = 0;
      for (u64 s = 0; s < segments_.size(); ++s) {
        Segment segment = segments_[s];
        const u64 end = in + segment.length;
        if (segment.length == 1) {
          *segment.sum = alone(in);
        } else if (segment.length == 2) {
          pair(in, segment.sum);
        } else {
          for (; in + 1 < end; in += 2) pair(in, &to_[out++]);
          if (in < end) to_[out++] = alone(in);
          segment.length = (segment.length + 1) / 2;
          segments_[kept++] = segment;
        }
        in = end;
      }
      segments_.resize(kept);
      additions_ += pairs_.size();
      adder_.add(pairs_.data(), pairs_.size());
      std::swap(from_, to_);
    }
  }

  std::vector<Affine<F>> from_, to_;
  std::vector<u8> minus_;  // whether a fetched point's opposite is meant
  std::vector<Segment> segments_;
  std::vector<Pair<F>> pairs_;
  PairAdder<F> adder_;
  u64 additions_ = 0;
};

// For each of some windows the sum over its buckets of (index + 1) * bucket. The buckets are overwritten.
template <class F>
class WeightedSums {
 public:
  WeightedSums(Affine<F>* buckets, u64 n_buckets, u64 windows)
      : buckets_(buckets),
        strips_(std::min<u64>(n_buckets / 8 + 1, windows < 2 ? 128 : 64)),
        length_(n_buckets / strips_) {
    // Powers of two, so that strips have the same length; a window alone has twice as many, to share an inversion.
    while ((strips_ & (strips_ - 1)) != 0) --strips_;
    length_ = n_buckets / strips_;
    weighted_.resize(windows * strips_);
    pairs_.resize(windows * strips_);
  }

  u64 additions() const { return 2 * (length_ - 1) * pairs_.size(); }

  void run(Xyzz<F>* out) {
    // Strips walk down side by side, so that their additions share an inversion: a bucket becomes the sum of its strip
    // from there up, and the strip's weighted sum is the sum of those.
    for (u64 s = 0; s < weighted_.size(); ++s) weighted_[s] = buckets_[s * length_ + length_ - 1];
    for (u64 j = length_ - 1; j-- > 0;) {
      for (u64 s = 0; s < pairs_.size(); ++s) {
        Affine<F>* here = &buckets_[s * length_ + j];
        pairs_[s] = {here, here + 1, here};
      }
      adder_.add(pairs_.data(), pairs_.size());
      for (u64 s = 0; s < pairs_.size(); ++s) pairs_[s] = {&weighted_[s], &buckets_[s * length_ + j], &weighted_[s]};
      adder_.add(pairs_.data(), pairs_.size());
    }
    for (u64 first = 0; first < weighted_.size(); first += strips_) *out++ = joined(first);
  }

 private:
  // A strip's buckets lack the number of buckets below it: length * (its place) times its plain sum.
  Xyzz<F> joined(u64 first) const {
    Xyzz<F> plain = Xyzz<F>::infinity(), above = Xyzz<F>::infinity(), total = Xyzz<F>::infinity();
    for (u64 s = strips_; s-- > 1;) {
      plain.add(buckets_[(first + s) * length_]);
      above.add(plain);
    }
    total = above.times(length_);
    for (u64 s = 0; s < strips_; ++s) total.add(weighted_[first + s]);
    return total;
  }

  Affine<F>* buckets_;
  u64 strips_, length_;
  std::vector<Affine<F>> weighted_;
  std::vector<Pair<F>> pairs_;
  PairAdder<F> adder_;
};

// The sum of scalar times point over sorted digits.
template <class F>
class MultiExponentiation {
 public:
  MultiExponentiation(const Bases<F>& bases, Entries entries, Windows windows, const u32* sorted, const u32* ends,
                      u32 threads)
      : bases_(bases), entries_(entries), windows_(windows), sorted_(sorted), ends_(ends), threads_(threads) {}

  // Additions of two points that it took, which is what the time goes to.
  u64 additions() const { return additions_.load(); }

  Xyzz<F> run() {
    const u64 n_buckets = windows_.buckets();
    std::vector<u32> used;
    u64 count = 0;
    for (u32 w = 0; w < windows_.count; ++w) {
      if (entries_of(w) != 0) used.push_back(w);
      count += entries_of(w);
    }
    // Parts so small that threads end at about the same time, and large enough to fill tiles.
    const u64 grain = std::max<u64>(count / (8 * u64{threads_}) + 1, BucketSums<F>::tile);
    std::vector<Xyzz<F>> sums(windows_.count, Xyzz<F>::infinity());
    // Some windows at a time: the buckets of all could take as much memory as the key.
    const u64 fitting = buckets_bytes / (n_buckets * sizeof(Affine<F>));
    const u64 wave = std::min<u64>(used.size(), std::max<u64>({2, u64{threads_}, fitting}));
    std::vector<Affine<F>> buckets(wave * n_buckets);
    for (u64 first = 0; first < used.size(); first += wave) {
      const u64 here = std::min<u64>(wave, used.size() - first);
      if (first != 0) std::fill(buckets.begin(), buckets.end(), Affine<F>::infinity());
      fill(&used[first], here, grain, buckets.data());
      // Consecutive windows to each thread, whose strips share inversions.
      const u64 shares = std::min<u64>(here, threads_);
      std::vector<Xyzz<F>> found(here);
      parallel(shares, threads_, [&](u64 share) {
        const u64 begin = here * share / shares, end = here * (share + 1) / shares;
        WeightedSums<F> weighted(&buckets[begin * n_buckets], n_buckets, end - begin);
        weighted.run(&found[begin]);
        additions_ += weighted.additions();
      });
      for (u64 i = 0; i < here; ++i) sums[used[first + i]] = found[i];
    }
    Xyzz<F> total = Xyzz<F>::infinity();
    for (u32 w = windows_.count; w-- > 0;) {
      for (u32 i = 0; i < windows_.bits; ++i) total = total.twice();
      total.add(sums[w]);
    }
    return total;
  }

 private:
  static constexpr u64 buckets_bytes = u64{1} << 22;

  u64 entries_of(u32 w) const { return ends_[(w + 1) * windows_.buckets() - 1]; }

  // The sums of all buckets of some windows.
  void fill(const u32* used, u64 count, u64 grain, Affine<F>* buckets) {
    const u64 n_buckets = windows_.buckets();
    std::vector<Part<F>> parts;
    for (u64 i = 0; i < count; ++i) {
      const u64 entries = entries_of(used[i]), shares = (entries + grain - 1) / grain;
      for (u64 p = 0; p < shares; ++p) parts.push_back({used[i], entries * p / shares, entries * (p + 1) / shares});
    }
    const auto own = [&](u32 window) { return buckets + (std::find(used, used + count, window) - used) * n_buckets; };
    parallel_with<BucketSums<F>>(parts.size(), threads_, [&](BucketSums<F>& sums, u64 p) {
      const u32 window = parts[p].window;
      const u64 before = sums.additions();
      sums.run(bases_, sorted_ + entries_.first(window), ends_ + window * n_buckets, n_buckets, parts[p], own(window));
      additions_ += sums.additions() - before;
    });
    PairAdder<F> adder;
    for (Part<F>& part : parts) {
      const auto join = [&](u64 bucket, Affine<F>& sum) {
        Affine<F>* place = own(part.window) + bucket;
        const Pair<F> pair{place, &sum, place};
        adder.add(&pair, 1);
      };
      join(part.first, part.first_sum);
      if (part.last != part.first) join(part.last, part.last_sum);
    }
  }

  Bases<F> bases_;
  Entries entries_;
  Windows windows_;
  const u32* sorted_;
  const u32* ends_;
  u32 threads_;
  std::atomic<u64> additions_{0};
};

}  // namespace provewire
