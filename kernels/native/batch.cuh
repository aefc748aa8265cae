// Sums of pairs of affine points, many at a time: one inversion serves them all (Montgomery's trick), so that a sum
// takes six products instead of ten.
#pragma once

#include <vector>

#include "curve/affine.cuh"
#include "curve/xyzz.cuh"

namespace provewire {

// *out = *left + *right. `out` may be the same as `left`, and may be no other pair's operand.
template <class F>
struct Pair {
  const Affine<F>* left;
  const Affine<F>* right;
  Affine<F>* out;
};

template <class F>
class PairAdder {
 public:
  void add(const Pair<F>* pairs, u64 count) {
    if (count == 0) return;
    if (denominators_.size() < count) {
      denominators_.resize(count);
      before_.resize(count);
      kinds_.resize(count);
    }
    // Several chains, because a product waits for the one before it.
    F running[chains];
    for (u32 c = 0; c < chains; ++c) running[c] = F::one();
    for (u64 i = 0; i < count; ++i) {
      kinds_[i] = kind_of(pairs[i], denominators_[i]);
      before_[i] = running[i % chains];
      running[i % chains] = running[i % chains] * denominators_[i];
    }
    F prefix[chains];
    F product = F::one();
    for (u32 c = 0; c < chains; ++c) {
      prefix[c] = product;
      product = product * running[c];
    }
    F inverse = product.inverse();
    for (u32 c = chains; c-- > 0;) {
      const F here = inverse * prefix[c];
      inverse = inverse * running[c];
      running[c] = here;
    }
    for (u64 i = count; i-- > 0;) {
      const F inverted = running[i % chains] * before_[i];
      running[i % chains] = running[i % chains] * denominators_[i];
      finish(pairs[i], kinds_[i], inverted);
    }
  }

 private:
  static constexpr u32 chains = 4;

  enum class Kind : u8 { different, equal, opposite, left_only, right_only };

  // What kind of sum it is, and what it divides by: never zero for points of the curve.
  static Kind kind_of(const Pair<F>& pair, F& denominator) {
    denominator = pair.right->x - pair.left->x;
    if (!denominator.is_zero() && !pair.left->is_infinity() && !pair.right->is_infinity()) return Kind::different;
    if (pair.right->is_infinity() || pair.left->is_infinity()) {
      denominator = F::one();
      return pair.right->is_infinity() ? Kind::left_only : Kind::right_only;
    }
    denominator = pair.left->y.twice();
    if (pair.left->y == pair.right->y && !denominator.is_zero()) return Kind::equal;
    denominator = F::one();
    return Kind::opposite;
  }

  static void finish(const Pair<F>& pair, Kind kind, const F& inverted) {
    const Affine<F> left = *pair.left;
    F numerator;
    F right_x = pair.right->x;
    if (__builtin_expect(kind == Kind::different, 1)) {
      numerator = pair.right->y - left.y;
    } else if (kind == Kind::equal) {
      const F square = left.x.square();
      numerator = square.twice() + square;
      right_x = left.x;
    } else {
      *pair.out = kind == Kind::opposite ? Affine<F>::infinity() : kind == Kind::left_only ? left : *pair.right;
      return;
    }
    const F slope = numerator * inverted;
    const F x = slope.square() - left.x - right_x;
    pair.out->y = slope * (left.x - x) - left.y;
    pair.out->x = x;
  }

  std::vector<F> denominators_;
  std::vector<F> before_;
  std::vector<Kind> kinds_;
};

}  // namespace provewire
