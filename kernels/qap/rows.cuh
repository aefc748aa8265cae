// The quadratic arithmetic program's rows: from the key's list of coefficients
// to A w and B w.
//
// The list may come in any order and may name the same place twice; both
// matrices become one table of compressed rows, row m * domain + c for
// constraint c of matrix m, in which the order within a row is not fixed. Sums
// in a field do not depend on it.
#pragma once

#include "core/launch.cuh"

namespace provewire {

// One record of a key: matrix, constraint, signal, value, as 32-bit words.
template <class F>
struct Record {
  static constexpr u32 words = 3 + F::Params::bytes / 4;
  const u32* word;

  HD u64 row(u64 domain) const { return word[0] * domain + word[1]; }
  HD u32 signal() const { return word[2]; }
  HD F value() const { return F::from_words(word + 3); }
  // The reader has checked this; a file that changed since then must still not
  // make a kernel write elsewhere.
  HD bool is_inside(u64 domain, u64 signals) const { return word[0] < 2 && word[1] < domain && word[2] < signals; }
};

// Counts the records of each row.
template <class F>
struct RowCount {
  const u32* records;
  u64 count;
  u64 domain;
  u64 signals;
  u32* counts;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i >= count) return;
    const Record<F> record{records + i * Record<F>::words};
    if (record.is_inside(domain, signals)) atomic_add(&counts[record.row(domain)], 1);
  }
};

// Moves the records to their rows. `ends` holds where each row begins, and
// afterwards where it ends.
template <class F>
struct RowScatter {
  const u32* records;
  u64 count;
  u64 domain;
  u64 signals;
  u32* ends;
  u32* row_signals;
  F* row_values;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i >= count) return;
    const Record<F> record{records + i * Record<F>::words};
    if (!record.is_inside(domain, signals)) return;
    const u64 place = atomic_add(&ends[record.row(domain)], 1);
    // A file that changed between count and scatter could move a row's end past
    // the table's.
    if (place >= count) return;
    row_signals[place] = record.signal();
    row_values[place] = record.value();
  }
};

// The vectors of A w, B w and their products, row by row, in Montgomery form: a
// key keeps its values times R^2 and the witness is plain, so that one
// Montgomery product of the two is in Montgomery form.
//
// A block has a row of each matrix for each thread. Its threads share out the
// products of all these rows evenly, a chunk of neighbouring ones at a time,
// and then each adds up what is its own row's: a long row makes no thread wait
// but for additions.
template <class F>
struct RowSums {
  const u32* ends;
  const u32* row_signals;
  const F* row_values;
  const F* witness;
  u64 domain;
  u64 log_chunk;
  F* sums;

  struct Thread {
    F a;
    F b;
  };

  HD u64 first(At at) const { return at.block_x * at.threads; }

  // Where a row's terms begin; of the row behind the last, where they end.
  HD u64 begin_of(u64 row) const { return row == 0 ? 0 : ends[row - 1]; }

  HD u64 begin(u32 matrix, At at) const { return begin_of(matrix * domain + first(at)); }
  HD u64 end(u32 matrix, At at) const {
    const u64 last = first(at) + at.threads < domain ? first(at) + at.threads : domain;
    return begin_of(matrix * domain + last);
  }
  HD u32 chunks(u32 matrix, At at) const {
    return static_cast<u32>((end(matrix, at) - begin(matrix, at) + (u64{1} << log_chunk) - 1) >> log_chunk);
  }

  // For each chunk one of products and one of sums, and in the end one to
  // store.
  HD u32 phases(At at) const { return 2 * (chunks(0, at) + chunks(1, at)) + 1; }

  HD void phase(u32 k, At at, u8* shared, Thread& mine) const {
    F* products = reinterpret_cast<F*>(shared);
    const u64 row = first(at) + at.thread;
    const u32 of_a = chunks(0, at);
    const u32 matrix = k / 2 < of_a ? 0 : 1;
    const u32 number = k / 2 - (matrix == 0 ? 0 : of_a);
    const u64 from = begin(matrix, at) + (u64{number} << log_chunk);
    const u64 all = end(matrix, at);
    const u64 to = from + (u64{1} << log_chunk) < all ? from + (u64{1} << log_chunk) : all;
    if (k + 1 == phases(at)) {
      if (row >= domain) return;
      sums[row] = mine.a;
      sums[domain + row] = mine.b;
      sums[2 * domain + row] = mine.a * mine.b;
    } else if (k % 2 == 0) {
      for (u64 i = from + at.thread; i < to; i += at.threads) {
        // Copies: whole elements are read at once.
        const F value = row_values[i], factor = witness[row_signals[i]];
        products[i - from] = value * factor;
      }
    } else if (row < domain) {
      const u64 own_begin = begin_of(matrix * domain + row), own_end = begin_of(matrix * domain + row + 1);
      F sum = matrix == 0 ? mine.a : mine.b;
      for (u64 i = own_begin < from ? from : own_begin; i < own_end && i < to; ++i) sum = sum + products[i - from];
      (matrix == 0 ? mine.a : mine.b) = sum;
    }
  }
};

}  // namespace provewire
