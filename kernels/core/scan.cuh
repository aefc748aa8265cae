// Exclusive prefix sums of 32-bit counters, over as many levels as their number needs.
//
// One level: ScanTiles replaces every tile of `threads * per_thread` counters by its exclusive prefix sums and
// writes the tiles' totals aside. The totals are scanned the same way, and ScanAdd adds them to their tiles.
// The sum of all counters must fit 32 bits; the planner sees to that.
#pragma once

#include "core/launch.cuh"

namespace provewire {

struct ScanTiles {
  u32* values;
  u64 count;
  u32* totals;
  u64 per_thread;

  struct Thread {
    u32 own;
  };

  static HD u32 steps(u32 threads) {
    u32 steps = 0;
    while (1u << steps < threads) ++steps;
    return steps;
  }

  HD u32 phases(At at) const { return steps(at.threads) + 2; }

  // Shared: two rows of one sum per thread; each step reads one row and writes the other.
  HD void phase(u32 k, At at, u8* shared, Thread& mine) const {
    u32* rows = reinterpret_cast<u32*>(shared);
    const u64 begin = at.index() * per_thread;
    const u64 end = begin + per_thread < count ? begin + per_thread : count;
    const u32 last = steps(at.threads) + 1;
    if (k == 0) {
      mine.own = 0;
      for (u64 i = begin; i < end; ++i) mine.own += values[i];
      rows[at.thread] = mine.own;
    } else if (k < last) {
      const u32* from = rows + (k - 1) % 2 * at.threads;
      const u32 distance = 1u << (k - 1);
      u32 sum = from[at.thread];
      if (at.thread >= distance) sum += from[at.thread - distance];
      rows[k % 2 * at.threads + at.thread] = sum;
    } else {
      const u32 inclusive = rows[(k - 1) % 2 * at.threads + at.thread];
      u32 before = inclusive - mine.own;
      for (u64 i = begin; i < end; ++i) {
        const u32 value = values[i];
        values[i] = before;
        before += value;
      }
      if (at.thread + 1 == at.threads) totals[at.block_x] = inclusive;
    }
  }
};

struct ScanAdd {
  u32* values;
  u64 count;
  const u32* totals;
  u64 tile;
  u64 per_thread;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 begin = at.index() * per_thread;
    for (u64 i = begin; i < begin + per_thread && i < count; ++i) values[i] += totals[i / tile];
  }
};

}  // namespace provewire
