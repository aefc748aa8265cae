// Sums of pairs of affine points, many at a time: one inversion serves them all (Montgomery's trick), so that a sum
// takes six products instead of ten.
#pragma once

#include <type_traits>
#include <vector>

#include "curve/affine.cuh"
#include "curve/xyzz.cuh"
#include "native/lanes.cuh"

namespace provewire {

// *out = *left + *right. `out` may be the same as `left`, and may be no other pair's operand.
template <class F>
struct Pair {
  const Affine<F>* left;
  const Affine<F>* right;
  Affine<F>* out;
};

template <class F>
class ScalarPairAdder {
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

#if defined(PROVEWIRE_LANES)

// Eight sums at a time. With memory's x R, products that divide by S = R 2^(2h), D = d R and N = n R for a slope n / d:
// the running products' inverses are given a factor 2^-h, so that the slope comes out as (n / d) R 2^h, its square as
// (n / d)^2 R, and the slope times a difference x R 2^h as (n / d) x R.
template <class F>
class PairAdder {
 public:
  void add(const Pair<F>* pairs, u64 count) {
    if (count < least) {
      scalar_.add(pairs, count);
      return;
    }
    ordinary_.clear();
    doublings_.clear();
    for (u64 i = 0; i < count; ++i) sort_out(pairs[i]);
    scalar_.add(doublings_.data(), doublings_.size());
    add_ordinary();
  }

 private:
  using V = Vector<F>;
  static constexpr u64 least = 8;
  static constexpr u32 y_offset = sizeof(F);

  // Pairs that need no inverse are done at once.
  void sort_out(const Pair<F>& pair) {
    if (__builtin_expect(!(pair.left->x == pair.right->x), 1) && !pair.left->is_infinity() &&
        !pair.right->is_infinity()) {
      ordinary_.push_back(pair);
    } else if (pair.left->is_infinity()) {
      *pair.out = *pair.right;
    } else if (pair.right->is_infinity()) {
      *pair.out = *pair.left;
    } else if (pair.left->y == pair.right->y && !pair.left->y.is_zero()) {
      doublings_.push_back(pair);
    } else {
      *pair.out = Affine<F>::infinity();
    }
  }

  void add_ordinary() {
    const u64 count = ordinary_.size();
    if (count == 0) return;
    const u64 groups = (count + 7) / 8;
    // The last group's empty lanes add two points that nobody looks at.
    static const Affine<F> filler[2] = {{F::one(), F::one()}, {F::one() + F::one(), F::one()}};
    Affine<F> unused;
    while (ordinary_.size() < 8 * groups) ordinary_.push_back({&filler[0], &filler[1], &unused});
    if (work_.size() < groups) work_.resize(groups);
    V running = V::broadcast(one_of_products());
    for (u64 g = 0; g < groups; ++g) {
      const void *left[8], *right[8];
      addresses(g, left, right);
      work_[g].before = running;
      work_[g].denominator = V::minus(V::load(right, 0), V::load(left, 0));
      running = V::product(running, work_[g].denominator);
    }
    running = inverse(running);
    for (u64 g = groups; g-- > 0;) {
      const void *left[8], *right[8];
      void* out[8];
      addresses(g, left, right);
      for (u32 i = 0; i < 8; ++i) out[i] = ordinary_[8 * g + i].out;
      const V inverted = V::product(work_[g].before, running);
      running = V::product(running, work_[g].denominator);
      const V x1 = V::load(left, 0), x2 = V::load(right, 0);
      const V y1 = V::load(left, y_offset), y2 = V::load(right, y_offset);
      const V slope = V::product(V::minus(y2, y1), inverted);
      const V x3 = V::minus(V::minus(V::square(slope), x1), x2).canonical();
      const V y3 = V::minus(V::product(slope, V::minus(x1, x3).shifted()), y1).canonical();
      x3.store(out, 0);
      y3.store(out, y_offset);
    }
  }

  void addresses(u64 group, const void* left[8], const void* right[8]) const {
    for (u32 i = 0; i < 8; ++i) {
      left[i] = ordinary_[8 * group + i].left;
      right[i] = ordinary_[8 * group + i].right;
    }
  }

  // 2^exponent as memory's plain words.
  template <class P>
  static Mont<P> power_of_two(u32 exponent) {
    Mont<P> x{};
    x.limb[0] = 1;
    for (u32 i = 0; i < exponent; ++i) x = x.twice();
    return x;
  }
  template <class P>
  static Mont<P> constant(const Mont<P>*, u32 exponent) {
    return power_of_two<P>(exponent);
  }
  template <class P>
  static Ext2<Mont<P>> constant(const Ext2<Mont<P>>*, u32 exponent) {
    return {power_of_two<P>(exponent), Mont<P>::zero()};
  }
  template <class P>
  static constexpr Lanes<P>* lanes_of(const Mont<P>*) {
    return nullptr;
  }
  template <class P>
  static constexpr Lanes<P>* lanes_of(const Ext2<Mont<P>>*) {
    return nullptr;
  }
  using L = std::remove_pointer_t<decltype(lanes_of(static_cast<const F*>(nullptr)))>;

  // S mod p: the one of products that divide by S.
  static const F& one_of_products() {
    static const F one = constant(static_cast<const F*>(nullptr), 52 * L::n);
    return one;
  }

  // From S d for the running product d to S 2^-h / d, lane by lane.
  V inverse(const V& running) {
    static const F factor = constant(static_cast<const F*>(nullptr), 2 * 52 * L::n - L::shift - 64 * L::words);
    F value[8], before[8];
    void* to[8];
    const void* from[8];
    for (u32 i = 0; i < 8; ++i) from[i] = to[i] = &value[i];
    running.canonical().store(to, 0);
    F product = F::one();
    for (u32 i = 0; i < 8; ++i) {
      before[i] = product;
      product = product * value[i];
    }
    F inverted = product.inverse() * factor;
    for (u32 i = 8; i-- > 0;) {
      const F here = inverted * before[i];
      inverted = inverted * value[i];
      value[i] = here;
    }
    return V::load(from, 0);
  }

  struct Work {
    V before;
    V denominator;
  };

  std::vector<Pair<F>> ordinary_, doublings_;
  std::vector<Work> work_;
  ScalarPairAdder<F> scalar_;
};

#else

template <class F>
using PairAdder = ScalarPairAdder<F>;

#endif

}  // namespace provewire
