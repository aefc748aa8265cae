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
  Affine<F>* left;
  Affine<F>* right;
  Affine<F>* out;
  u64 minus = 0;  // 1: -*left is meant, 2^8: -*right; such operands may be overwritten

  void settle_signs() const {
    if (minus & 1) *left = -*left;
    if (minus >> 8) *right = -*right;
  }
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
      pairs[i].settle_signs();
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
    const u64 steps = (count + 8 * chains - 1) / (8 * chains);
    if (work_.size() < steps * chains) work_.resize(steps * chains);
    others_.clear();
    V running[chains];
    for (u32 c = 0; c < chains; ++c) running[c] = V::broadcast(one_of_products());
    for (u64 s = 0; s < steps; ++s) {
      UNROLL
      for (u32 c = 0; c < chains; ++c) {
        const u64 first = 8 * (s * chains + c);
        Work& work = work_[s * chains + c];
        work.used = select(pairs + first, first < count ? count - first : 0, work.denominator);
        work.before = running[c];
        running[c] = V::product(running[c], work.denominator);
      }
    }
    invert(running);
    for (u64 s = steps; s-- > 0;) {
      V inverted[chains];
      UNROLL
      for (u32 c = 0; c < chains; ++c) {
        const Work& work = work_[s * chains + c];
        inverted[c] = V::product(work.before, running[c]);
        running[c] = V::product(running[c], work.denominator);
      }
      finish(pairs + 8 * s * chains, &work_[s * chains], inverted);
    }
    scalar_.add(others_.data(), others_.size());
  }

 private:
  using V = Vector<F>;
  // Groups of eight that take every step together, because a product takes longer than its share of the CPU's units.
  static constexpr u32 chains = 2;
  static constexpr u64 least = 8;
  static constexpr u32 y_offset = sizeof(F);

  struct Work {
    V before;
    V denominator;
    u32 used;
  };

  struct Addresses {
    const void* left[8];
    const void* right[8];
    void* out[8];
    u8 minus_left, minus_right;
  };

  // Lanes that are not used add two points that nobody looks at.
  LANES_INLINE void addresses(const Pair<F>* pairs, u32 used, Addresses& found) {
    u64 minus = 0;
    if (__builtin_expect(used == 0xff, 1)) {
      UNROLL
      for (u32 i = 0; i < 8; ++i) {
        found.left[i] = pairs[i].left;
        found.right[i] = pairs[i].right;
        found.out[i] = pairs[i].out;
        minus |= pairs[i].minus << i;
      }
      found.minus_left = static_cast<u8>(minus);
      found.minus_right = static_cast<u8>(minus >> 8);
      return;
    }
    static const Affine<F> filler[2] = {{F::one(), F::one()}, {F::one() + F::one(), F::one()}};
    for (u32 i = 0; i < 8; ++i) {
      const bool is_used = used >> i & 1;
      found.left[i] = is_used ? pairs[i].left : &filler[0];
      found.right[i] = is_used ? pairs[i].right : &filler[1];
      found.out[i] = is_used ? pairs[i].out : &unused_;
      if (is_used) minus |= pairs[i].minus << i;
    }
    found.minus_left = static_cast<u8>(minus);
    found.minus_right = static_cast<u8>(minus >> 8);
  }

  // The lanes whose pairs are of different points, neither of them infinity, and what those divide by. The others' sums
  // are formed at once or put aside.
  LANES_INLINE u32 select(const Pair<F>* pairs, u64 count, V& denominator) {
    u32 used = count < 8 ? (1u << count) - 1 : 0xff;
    Addresses from;
    addresses(pairs, used, from);
    const V left = V::load(from.left, 0), right = V::load(from.right, 0);
    denominator = V::minus(right, left);
    const u32 special = V::equal(left, right) | V::equal(left, V::zero()) | V::equal(right, V::zero());
    if (__builtin_expect((special & used) != 0, 0)) {
      used = settle(pairs, special & used, used);
      denominator.put(static_cast<u8>(~used), V::broadcast(F::one()));
    }
    return used;
  }

  __attribute__((noinline)) u32 settle(const Pair<F>* pairs, u32 special, u32 used) {
    for (u32 i = 0; i < 8; ++i) {
      if ((special >> i & 1) == 0) continue;
      const Pair<F>& pair = pairs[i];
      if (!pair.left->is_infinity() && !pair.right->is_infinity()) {
        others_.push_back(pair);
        continue;
      }
      pair.settle_signs();
      *pair.out = pair.left->is_infinity() ? *pair.right : *pair.left;
    }
    return used & ~special;
  }

  // The sums, by the inverses of what they divide by.
  LANES_INLINE void finish(const Pair<F>* pairs, const Work* work, const V* inverted) {
    Addresses at[chains];
    V x1[chains], y1[chains], slope[chains], x3[chains];
    UNROLL
    for (u32 c = 0; c < chains; ++c) {
      addresses(pairs + 8 * c, work[c].used, at[c]);
      y1[c] = V::load(at[c].left, y_offset).opposite(at[c].minus_left);
      const V y2 = V::load(at[c].right, y_offset).opposite(at[c].minus_right);
      slope[c] = V::product(V::minus(y2, y1[c]), inverted[c]);
    }
    UNROLL
    for (u32 c = 0; c < chains; ++c) {
      x1[c] = V::load(at[c].left, 0);
      x3[c] = V::minus(V::minus(V::square(slope[c]), x1[c]), V::load(at[c].right, 0)).canonical();
    }
    UNROLL
    for (u32 c = 0; c < chains; ++c) {
      const V y3 = V::minus(V::product(slope[c], V::minus(x1[c], x3[c]).shifted()), y1[c]).canonical();
      x3[c].store(at[c].out, 0);
      y3.store(at[c].out, y_offset);
    }
  }

  // From the chains' products to their inverses, by one inversion.
  void invert(V running[chains]) {
    static_assert(chains == 2, "two chains share an inversion");
    const V both = inverse(V::product(running[0], running[1]));
    const V first = V::product(both, running[1]);
    running[1] = V::product(both, running[0]);
    running[0] = first;
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

  std::vector<Pair<F>> others_;
  std::vector<Work> work_;
  Affine<F> unused_;
  ScalarPairAdder<F> scalar_;
};

#else

template <class F>
using PairAdder = ScalarPairAdder<F>;

#endif

}  // namespace provewire
