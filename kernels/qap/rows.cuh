// The quadratic arithmetic program's rows: from the key's list of coefficients to A w and B w.
//
// The list may come in any order and may name the same place twice; both matrices become one table of compressed
// rows, row m * domain + c for constraint c of matrix m, in which the order within a row is not fixed. Sums in a
// field do not depend on it.
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
  // The reader has checked this; a file that changed since then must still not make a kernel write elsewhere.
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

// Moves the records to their rows. `ends` holds where each row begins, and afterwards where it ends.
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
    // A file that changed between count and scatter could move a row's end past the table's.
    if (place >= count) return;
    row_signals[place] = record.signal();
    row_values[place] = record.value();
  }
};

// sums[row] = the row times the witness, in Montgomery form: a key keeps its values times R^2 and the witness is
// plain, so that one Montgomery product of the two is in Montgomery form.
template <class F>
struct RowSums {
  const u32* ends;
  const u32* row_signals;
  const F* row_values;
  const F* witness;
  u64 rows;
  F* sums;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 row = at.index();
    if (row >= rows) return;
    F sum = F::zero();
    const u64 end = ends[row];
    for (u64 i = row == 0 ? 0 : ends[row - 1]; i < end; ++i) {
      // Copies: whole elements are read at once.
      const F value = row_values[i], factor = witness[row_signals[i]];
      sum = sum + value * factor;
    }
    sums[row] = sum;
  }
};

}  // namespace provewire
