// Number-theoretic transforms of 2^log_n elements, in place, in passes.
//
// The inverse transform takes natural order to bit-reversed order (decimation
// in frequency), the forward one bit-reversed order to natural order
// (decimation in time), so that a transform there and back permutes nothing. A
// pass does log_rows of the log_n levels: those whose butterflies join elements
// that differ in one of the index bits low to low + log_rows - 1. A block takes
// a tile of 2^log_rows rows by 2^log_columns neighbouring columns into shared
// memory. Inverse passes go from high bits to low ones, forward passes from low
// to high.
#pragma once

#include "core/launch.cuh"

namespace provewire {

// The powers base^0, base^1, ... of an element in two tables: base^i = low[i
// mod 2^window] * high[i / 2^window]. Where 2^window covers all i that occur,
// high is not read.
template <class F>
struct PowerTable {
  const F* low;
  const F* high;
  u64 window;

  HD F low_part(u64 i) const { return low[i & ((u64{1} << window) - 1)]; }
  HD F operator()(u64 i) const { return low_part(i) * high[i >> window]; }
};

template <class F>
struct NttPass {
  F* data;
  u64 batch_stride;
  u64 log_n;
  u64 low;
  u64 log_rows;
  u64 log_columns;
  u64 inverse;
  PowerTable<F> roots;  // of the primitive root of order 2^log_n, i < 2^(log_n - 1)
  PowerTable<F> scale;  // applied by the coefficients' natural index as the tile
                        // is stored; none where low is null

  using Thread = NoState;
  HD u32 phases(At) const { return static_cast<u32>(log_rows) + 2; }

  HD F root(u64 exponent) const { return roots.window + 1 >= log_n ? roots.low_part(exponent) : roots(exponent); }

  // The global index of a place of the tile.
  HD u64 place(At at, u64 row, u64 column) const {
    const u64 log_column_blocks = low - log_columns;
    const u64 column_block = at.block_x & ((u64{1} << log_column_blocks) - 1);
    const u64 group = at.block_x >> log_column_blocks;
    return (group << (low + log_rows)) + (row << low) + (column_block << log_columns) + column;
  }

  HD void butterfly(At at, F* tile, u64 level, u64 u) const {
    const u64 column = u & ((u64{1} << log_columns) - 1);
    const u64 pair = u >> log_columns;
    const u64 below = pair & ((u64{1} << level) - 1);
    const u64 row = (pair >> level << (level + 1)) | below;
    const u64 bit = low + level;
    const u64 exponent = (place(at, row, column) & ((u64{1} << bit) - 1)) << (log_n - 1 - bit);
    F& upper = tile[row << log_columns | column];
    F& lower = tile[(row | u64{1} << level) << log_columns | column];
    if (inverse) {
      const F difference = upper - lower;
      upper = upper + lower;
      // w^-e = -w^(n/2 - e)
      lower = exponent == 0 ? difference : difference.complement() * root((u64{1} << (log_n - 1)) - exponent);
    } else {
      const F turned = exponent == 0 ? lower : lower * root(exponent);
      lower = upper - turned;
      upper = upper + turned;
    }
  }

  HD void phase(u32 k, At at, u8* shared, Thread&) const {
    F* tile = reinterpret_cast<F*>(shared);
    F* vector = data + at.block_y * batch_stride;
    const u64 columns_mask = (u64{1} << log_columns) - 1;
    const u64 size = u64{1} << (log_rows + log_columns);
    if (k == 0) {
      for (u64 i = at.thread; i < size; i += at.threads)
        tile[i] = vector[place(at, i >> log_columns, i & columns_mask)];
    } else if (k <= log_rows) {
      const u64 level = inverse ? log_rows - k : k - 1;
      for (u64 u = at.thread; u < size / 2; u += at.threads) butterfly(at, tile, level, u);
    } else {
      for (u64 i = at.thread; i < size; i += at.threads) {
        const u64 to = place(at, i >> log_columns, i & columns_mask);
        // Scaled values may be a multi-exponentiation's scalars, which are below the modulus.
        vector[to] = scale.low ? (tile[i] * scale(reverse_bits(to, static_cast<u32>(log_n)))).canonical() : tile[i];
      }
    }
  }
};

// out[i] = first * base^i, where parameters = {base, first}.
template <class F>
struct Powers {
  F* out;
  u64 count;
  const F* parameters;
  u64 per_thread;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 begin = at.index() * per_thread;
    if (begin >= count) return;
    const F base = parameters[0];
    F power = parameters[1] * base.power([begin](u32) { return begin; }, 1);
    for (u64 i = begin; i < begin + per_thread && i < count; ++i) {
      out[i] = power;
      power = power * base;
    }
  }
};

// The last forward pass over a, b and c, three vectors one after the other,
// with the quotient: a[i] = a[i] * b[i] - c[i] as a plain integer. A block
// takes the three tiles one by one; of c nothing is stored.
template <class F>
struct NttQuotientPass {
  NttPass<F> pass;

  using Thread = NoState;
  HD u32 phases(At at) const { return 3 * pass.phases(at); }

  HD void phase(u32 k, At at, u8* shared, Thread& mine) const {
    const u32 each = pass.phases(at);
    const u32 vector = k / each, step = k % each;
    NttPass<F> one = pass;
    one.data = pass.data + vector * pass.batch_stride;
    if (vector < 2 || step + 1 < each) {
      one.phase(step, at, shared, mine);
      return;
    }
    const F* tile = reinterpret_cast<const F*>(shared);
    const u64 columns_mask = (u64{1} << pass.log_columns) - 1;
    const u64 size = u64{1} << (pass.log_rows + pass.log_columns);
    for (u64 i = at.thread; i < size; i += at.threads) {
      const u64 to = pass.place(at, i >> pass.log_columns, i & columns_mask);
      // What this very thread stored.
      const F a = pass.data[to], b = pass.data[pass.batch_stride + to];
      pass.data[to] = (a * b - tile[i]).to_plain();
    }
  }
};

// a[i] = a[i] * b[i] - c[i] as a plain integer: the scalars of the quotient's
// multi-exponentiation.
template <class F>
struct Quotient {
  F* a;
  const F* b;
  const F* c;
  u64 count;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i >= count) return;
    const F left = a[i], right = b[i], less = c[i];
    a[i] = (left * right - less).to_plain();
  }
};

}  // namespace provewire
