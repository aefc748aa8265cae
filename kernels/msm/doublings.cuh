// Multiples of a key's points, computed ahead for as long as the key stays.
#pragma once

#include "core/launch.cuh"
#include "curve/xyzz.cuh"

namespace provewire {

// out[i] = 2^doublings * points[i]. A thread takes up to `per_thread` points, as many apart as there are threads, and
// shares one inversion among them (Montgomery's trick); `sums` holds `count` sums for a moment.
template <class F>
struct Doublings {
  const Affine<F>* points;
  u64 count;
  u64 doublings;
  u64 per_thread;
  Xyzz<F>* sums;
  Affine<F>* out;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 apart = at.blocks_x * at.threads;
    F product = F::one();
    u64 taken = 0;
    KEEP_LOOP
    for (u64 i = at.index(); taken < per_thread && i < count; ++taken, i += apart) {
      Xyzz<F> sum = Xyzz<F>::from_affine(points[i]);
      KEEP_LOOP
      for (u64 j = 0; j < doublings; ++j) sum = sum.twice();
      sums[i] = sum;
      // Until its turn on the way back, a point's place holds the product of those before it.
      out[i].x = product;
      if (!sum.is_infinity()) product = product * sum.zzz;
    }
    F inverse = product.inverse();
    KEEP_LOOP
    while (taken-- > 0) {
      const u64 i = at.index() + taken * apart;
      const Xyzz<F> sum = sums[i];
      if (sum.is_infinity()) {
        out[i] = Affine<F>::infinity();
        continue;
      }
      const F own = inverse * out[i].x;
      inverse = inverse * sum.zzz;
      out[i] = sum.to_affine(own);
    }
  }
};

}  // namespace provewire
