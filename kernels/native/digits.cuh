// Scalars to digits and to entries sorted by bucket, for all multi-exponentiations with the same scalars at once.
//
// A scalar k above (r - 1) / 2 stands for r - k with the opposite sign. What is left gets 2^(c-1) added in every window
// but the highest, so that each digit can be read by itself: its c bits less 2^(c-1). Scalars of less than c bits are
// short: they have a digit in the lowest window only, and no other window looks at them.
#pragma once

#include <algorithm>
#include <cstring>

#include "msm/digits.cuh"
#include "native/parallel.cuh"

namespace provewire {

using u16 = std::uint16_t;

struct Folded {
  u64 word[4];

  u32 length() const {
    for (u32 j = 4; j-- > 0;) {
      if (word[j] != 0) return 64 * j + 64 - static_cast<u32>(__builtin_clzll(word[j]));
    }
    return 0;
  }
};

// Takes scalar i out of `scalars`; true where it stands for a negative number.
template <class P>
inline bool folded(const u8* scalars, u64 i, Folded& out) {
  static_assert(P::bytes == sizeof(Folded), "a scalar has four words");
  std::memcpy(&out, scalars + i * sizeof out, sizeof out);
  return Digits<P>::fold(out.word);
}

// lengths[b] = number of scalars of b bits when folded.
template <class P>
void count_lengths(const u8* scalars, u64 count, u64* lengths, u32 threads) {
  std::vector<std::atomic<u64>> totals(257);
  parallel_parts(count, 1 << 14, threads, [&](u64 begin, u64 end) {
    u64 own[257] = {};
    for (u64 i = begin; i < end; ++i) {
      Folded k;
      folded<P>(scalars, i, k);
      ++own[k.length()];
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

// Where a sort's entries lie: those of all scalars for the lowest window, those of the long ones for each other one.
struct Entries {
  u64 scalars;
  u64 longs;

  u64 first(u32 w) const { return w == 0 ? 0 : scalars + (w - 1) * longs; }
};

template <class P>
class DigitSort {
 public:
  // `longs` is the number of long scalars; `scratch` has scratch_bytes() bytes.
  DigitSort(const u8* scalars, u64 count, u64 longs, Windows windows, u8* scratch)
      : scalars_(scalars), windows_(windows), entries_{count, longs}, bias_(windows.bias()) {
    long_index_ = reinterpret_cast<u32*>(scratch);
    raw_ = reinterpret_cast<u16*>(scratch + longs * sizeof(u32));
    signs_ = reinterpret_cast<u8*>(raw_ + entries_.first(together));
  }

  static u64 scratch_bytes(u64 count, u64 longs) {
    return longs * sizeof(u32) + Entries{count, longs}.first(together) * sizeof(u16) + count;
  }

  // sorted[first(w) ...] = the indices of the scalars whose digit w is not zero, with their signs, by bucket;
  // ends[w * buckets + b] = where bucket b's end, counted from the window's first.
  void run(u32* sorted, u32* ends, u32 threads) {
    list_longs(threads);
    for (u32 first = 0; first < windows_.count; first += together) {
      const u32 here = std::min(together, windows_.count - first);
      extract(first, here, threads);
      parallel(here, threads, [&](u64 w) {
        const u32 window = first + static_cast<u32>(w);
        sort_window(window, raw_ + entries_.first(static_cast<u32>(w)), sorted + entries_.first(window),
                    ends + window * windows_.buckets());
      });
    }
  }

 private:
  static constexpr u64 grain = 1 << 12;
  // Windows whose digits are kept at a time; the scalars are read again for the next ones.
  static constexpr u32 together = 6;

  // Where each part's long scalars stand in the list of them.
  void list_longs(u32 threads) {
    const u64 parts = (entries_.scalars + grain - 1) / grain;
    std::vector<u64>& first = first_long_;
    first.resize(parts + 1);
    parallel_parts(entries_.scalars, grain, threads, [&](u64 begin, u64 end) {
      for (u64 i = begin; i < end; ++i) {
        Folded k;
        folded<P>(scalars_, i, k);
        first[begin / grain + 1] += k.length() >= windows_.bits;
      }
    });
    for (u64 p = 0; p < parts; ++p) first[p + 1] += first[p];
    // A mapped file can change while it is read: nothing is written past what there is room for.
    found_ = std::min(first[parts], entries_.longs);
  }

  // Reads the scalars' signs and their digits of some windows. The first of those has room for all scalars.
  void extract(u32 first, u32 count, u32 threads) {
    parallel_parts(entries_.scalars, grain, threads, [&](u64 begin, u64 end) {
      u64 place = first_long_[begin / grain];
      for (u64 i = begin; i < end; ++i) place += extract_one(i, place, first, count);
    });
  }

  // True where scalar i is long, and takes `place` among those.
  bool extract_one(u64 i, u64 place, u32 first, u32 count) {
    Folded k;
    signs_[i] = folded<P>(scalars_, i, k);
    const bool is_long = k.length() >= windows_.bits;
    u64 sum[5] = {};
    unsigned __int128 carry = 0;
    for (u32 j = 0; j < 4; ++j) {
      carry += static_cast<unsigned __int128>(k.word[j]) + bias_.word[j];
      sum[j] = static_cast<u64>(carry);
      carry >>= 64;
    }
    const u32 mask = (u32{1} << windows_.bits) - 1;
    if (first == 0) raw_[i] = static_cast<u16>(sum[0] & mask);
    if (!is_long || place >= entries_.longs) return is_long;
    long_index_[place] = static_cast<u32>(i);
    for (u32 w = first == 0 ? 1 : 0; w < count; ++w) {
      const u32 at = (first + w) * windows_.bits;
      u32 word;
      std::memcpy(&word, reinterpret_cast<const u8*>(sum) + at / 8, sizeof word);
      raw_[entries_.first(w) + place] = static_cast<u16>(word >> at % 8 & mask);
    }
    return true;
  }

  void sort_window(u32 w, const u16* raw, u32* sorted, u32* ends) const {
    const u64 count = w == 0 ? entries_.scalars : found_;
    const u64 half = windows_.buckets(), kinds = 2 * half;
    // What digit zero looks like.
    const u64 zero = w + 1 == windows_.count ? 0 : half;
    std::vector<u32> places(kinds);
    for (u64 j = 0; j < count; ++j) ++places[raw[j]];
    // From numbers to places: a bucket's negative digits, its positive ones, and behind all buckets what is in none.
    u32 before = 0;
    const auto place = [&](u64 kind) {
      const u32 here = places[kind];
      places[kind] = before;
      before += here;
    };
    for (u64 b = 0; b < half; ++b) {
      if (zero > b) place(zero - b - 1);
      if (zero + b + 1 < kinds) place(zero + b + 1);
      ends[b] = before;
    }
    place(zero);
    for (u64 kind = zero + half + 1; kind < kinds; ++kind) place(kind);
    const auto scatter = [&](const auto& index_of) {
      for (u64 j = 0; j < count; ++j) {
        const u32 kind = raw[j], i = index_of(j);
        sorted[places[kind]++] = i | (static_cast<u32>(kind < zero) ^ signs_[i]) << 31;
      }
    };
    if (w == 0) {
      scatter([](u64 j) { return static_cast<u32>(j); });
    } else {
      scatter([this](u64 j) { return long_index_[j]; });
    }
  }

  const u8* scalars_;
  Windows windows_;
  Entries entries_;
  Folded bias_;
  u64 found_ = 0;
  std::vector<u64> first_long_;
  u32* long_index_;
  u16* raw_;
  u8* signs_;
};

}  // namespace provewire
