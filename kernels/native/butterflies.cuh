// Butterflies of transforms, eight neighbours side by side in lanes; elements come from memory and go there below p.
//
// Roots are scaled: times 2^(2 shift), by which products of lanes divide more than memory's.
#pragma once

#include <cstddef>
#include <vector>

#include "native/lanes.cuh"

#if defined(PROVEWIRE_LANES)

namespace provewire {

template <class F>
struct EightButterflies {
  using L = Lanes<typename F::Params>;

  // Eight neighbours, or their roots.
  static L eight(const F* first, std::ptrdiff_t step = 1) {
    const void* from[8];
    for (std::ptrdiff_t l = 0; l < 8; ++l) from[l] = first + l * step;
    return L::load(from, 0);
  }
  static void put(const L& value, F* first) {
    void* to[8];
    for (u64 l = 0; l < 8; ++l) to[l] = first + l;
    value.store(to, 0);
  }

  // Two levels at once, eight neighbours at a time, between elements 2q and q apart; the upper level's exponent of the
  // first is i << shift. To turn back by w^e is to turn by -w^(size / 2 - e), which lies e before `end`.
  static void four_inverse(F* x, u64 q, const F* end, u64 i, u64 shift) {
    const L x0 = eight(x), x1 = eight(x + q), x2 = eight(x + 2 * q), x3 = eight(x + 3 * q);
    const std::ptrdiff_t step = -(std::ptrdiff_t{1} << shift);
    const L turn = eight(end - (i << (shift + 1)), 2 * step);
    const L a0 = L::sum(x0, x2), a1 = L::sum(x1, x3);
    const L a2 = L::product(L::template difference<1>(x2, x0), eight(end - (i << shift), step));
    const L a3 = L::product(L::template difference<1>(x3, x1), eight(end - ((i + q) << shift), step));
    put(L::sum(a0, a1).template reduced<2>().template reduced<1>(), x);
    put(L::product(L::template difference<2>(a1, a0), turn).template reduced<1>(), x + q);
    put(L::sum(a2, a3).template reduced<2>().template reduced<1>(), x + 2 * q);
    put(L::product(L::template difference<2>(a3, a2), turn).template reduced<1>(), x + 3 * q);
  }

  // The same of the forward transform; the lower level's exponent of the first is i << shift.
  static void four_forward(F* x, u64 q, const std::vector<F>& roots, u64 i, u64 shift) {
    const std::ptrdiff_t step = std::ptrdiff_t{1} << shift;
    const L turn = eight(&roots[i << shift], step);
    const L x0 = eight(x), x2 = eight(x + 2 * q);
    const L b1 = L::product(eight(x + q), turn), b3 = L::product(eight(x + 3 * q), turn);
    const L a0 = L::sum(x0, b1), a1 = L::template difference<2>(x0, b1);
    const L t2 = L::product(L::sum(x2, b3), eight(&roots[i << (shift - 1)], step / 2));
    const L t3 = L::product(L::template difference<2>(x2, b3), eight(&roots[(i + q) << (shift - 1)], step / 2));
    const auto canonical = [](const L& y) {
      return y.template reduced<4>().template reduced<2>().template reduced<1>();
    };
    put(canonical(L::sum(a0, t2)), x);
    put(canonical(L::template difference<2>(a0, t2)), x + 2 * q);
    put(canonical(L::sum(a1, t3)), x + q);
    put(canonical(L::template difference<2>(a1, t3)), x + 3 * q);
  }

  // One level: between neighbours from `upper` on and those `distance` behind them, by roots `step` apart; the inverse
  // transform's lie as above.
  static void two(F* upper, u64 distance, const F* root, std::ptrdiff_t step, bool inverse) {
    const L x = eight(upper), y = eight(upper + distance), turn = eight(root, step);
    if (inverse) {
      put(L::sum(x, y).template reduced<1>(), upper);
      put(L::product(L::template difference<1>(y, x), turn).template reduced<1>(), upper + distance);
    } else {
      const L turned = L::product(y, turn);
      put(L::sum(x, turned).template reduced<2>().template reduced<1>(), upper);
      put(L::template difference<2>(x, turned).template reduced<2>().template reduced<1>(), upper + distance);
    }
  }
};

}  // namespace provewire

#endif
