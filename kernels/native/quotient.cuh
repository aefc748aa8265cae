// The quotient's values on the coset: there and back for three vectors, by transforms that permute nothing.
//
// The inverse transform goes from natural to bit-reversed order, the forward one back. Levels whose butterflies lie
// close together are done block by block in the cache, the last of the one and the first of the other transform in one
// visit; the far ones two at a time over the whole vector.
#pragma once

#include <vector>

#include "field/mont.cuh"
#include "native/butterflies.cuh"
#include "native/lanes.cuh"
#include "native/parallel.cuh"
#include "ntt/ntt.cuh"

namespace provewire {

template <class F>
class Quotient3 {
#if defined(PROVEWIRE_LANES)
  using L = Lanes<typename F::Params>;
  using Eight = EightButterflies<F>;
#endif

 public:
  // `root` is the primitive root of order 2^log_n, `coset` the coset's generator.
  Quotient3(u64 log_n, const F& root, const F& coset, const F& size_inverse, u32 threads)
      : log_n_(log_n), log_block_(log_n < 12 ? log_n : 12), threads_(threads), coset_(coset), scale_(size_inverse) {
    const u64 half = size() / 2;
    roots_.reserve(half + 1);
    roots_.resize(half == 0 ? 1 : half);
    parallel_parts(half, 1 << 12, threads, [&](u64 begin, u64 end) {
      F power = raised(root, begin);
      for (u64 i = begin; i < end; ++i) {
        roots_[i] = power;
        power = power * root;
      }
    });
    const u64 near = u64{1} << (log_block_ - 1);
    near_.resize(near);
    for (u64 i = 0; i < near; ++i) near_[i] = roots_[i << (log_n_ - log_block_)];
#if defined(PROVEWIRE_LANES)
    // Products of lanes divide by 2^(2 shift) more than memory's: their factors are multiplied by that. The inverse
    // transform turns by -w^(size/2 - e), or 1.
    scaled_near_.resize(near);
    back_near_.resize(near);
    for (u64 i = 0; i < near; ++i) scaled_near_[i] = scaled(near_[i]);
    for (u64 i = 0; i < near; ++i) back_near_[i] = i == 0 ? scaled_near_[0] : -scaled_near_[near - i];
    scaled_near_.push_back(-scaled_near_[0]);
    if (log_n_ > log_block_) {
      parallel_parts(half, 1 << 12, threads, [&](u64 begin, u64 end) {
        for (u64 i = begin; i < end; ++i) roots_[i] = scaled(roots_[i]);
      });
      // -1, so that an exponent of zero turns back by 1 as the others by their roots.
      roots_.push_back(-roots_[0]);
    }
#endif
    // The coset's powers by the bit-reversed place within a block.
    places_.resize(u64{1} << log_block_);
    const F step = raised(coset, u64{1} << (log_n_ - log_block_));
    F power = F::one();
    for (u64 i = 0; i < places_.size(); ++i) {
      places_[reverse_bits(i, static_cast<u32>(log_block_))] = power;
      power = power * step;
    }
#if defined(PROVEWIRE_LANES)
    // Two products put two such factors too few into the value.
    scaled_places_.resize(places_.size());
    for (u64 i = 0; i < places_.size(); ++i) scaled_places_[i] = scaled(scaled(places_[i]));
#endif
  }

#if defined(PROVEWIRE_LANES)
  static F scaled(const F& x) {
    F y = x;
    for (u32 i = 0; i < 2 * Lanes<typename F::Params>::shift; ++i) y = y.twice();
    return y;
  }
#endif

  u64 size() const { return u64{1} << log_n_; }

  // a = a b - c on the coset, as plain integers; b and c are overwritten.
  void run(F* a, F* b, F* c) const {
    F* const vectors[] = {a, b, c};
    for (F* vector : vectors) {
      for (u64 bit = log_n_; bit > log_block_;) {
        if (bit - log_block_ >= 2) {
          far_pair_inverse(vector, bit - 1);
          bit -= 2;
        } else {
          far_inverse(vector, bit - 1);
          bit -= 1;
        }
      }
    }
    const u64 blocks = size() >> log_block_;
    parallel(blocks, threads_, [&](u64 block) {
      const u64 reversed = log_n_ == log_block_ ? 0 : reverse_bits(block, static_cast<u32>(log_n_ - log_block_));
      const F first = scale_ * raised(coset_, reversed);
      for (F* vector : vectors) near_levels(vector + (block << log_block_), first);
    });
    for (F* vector : vectors) {
      for (u64 bit = log_block_; bit < log_n_;) {
        if (log_n_ - bit >= 2) {
          far_pair_forward(vector, bit);
          bit += 2;
        } else {
          far_forward(vector, bit);
          bit += 1;
        }
      }
    }
    parallel_parts(size(), 1 << 12, threads_, [&](u64 begin, u64 end) {
      u64 i = begin;
#if defined(PROVEWIRE_LANES)
      F factor{};
      factor.limb[0] = u64{1} << (2 * L::shift);
      const L to_plain = L::broadcast(factor);
      for (; i + 8 <= end; i += 8) {
        // A product lacks 2^(2 shift); a difference of elements becomes plain by the same factor.
        const L product = L::product(Eight::eight(a + i), Eight::eight(b + i)).shifted().shifted();
        const L difference = L::template difference<1>(product, Eight::eight(c + i));
        Eight::put(L::product(difference, to_plain).template reduced<1>(), a + i);
      }
#endif
      for (; i < end; ++i) a[i] = (a[i] * b[i] - c[i]).to_plain();
    });
  }

 private:
  static F raised(const F& base, u64 exponent) {
    return base.power([exponent](u32) { return exponent; }, 1);
  }

  // w^-e for 0 < e <= size / 2, without its sign, is -w^(size/2 - e).
  static F turned_back(const F& difference, const std::vector<F>& roots, u64 exponent) {
    return exponent == 0 ? difference : -(difference * roots[roots.size() - exponent]);
  }

#if defined(PROVEWIRE_LANES)
  // Eight subblocks at once, one in each lane, so that all lanes turn by the same root.
  void near_levels(F* block, const F& first) const {
    if (log_block_ < 6) {
      near_levels_plainly(block, first);
      return;
    }
    const u64 log_rows = log_block_ - 3, rows = u64{1} << log_rows;
    // The three far levels of the block go across lanes.
    const u64 quarter = 2 * rows;
    for (u64 i = 0; i < quarter; i += 8) Eight::four_inverse(block + i, quarter, &scaled_near_.back(), i, 0);
    far_in_block(block, log_rows, true);
    std::vector<L> lanes(rows);
    const auto addresses = [&](u64 i, void* to[8]) {
      for (u64 l = 0; l < 8; ++l) to[l] = block + l * rows + i;
    };
    void* to[8];
    for (u64 i = 0; i < rows; ++i) {
      addresses(i, to);
      lanes[i] = L::load(const_cast<const void* const*>(to), 0);
    }
    // Values are below 2p between the levels of the inverse transform.
    for (u64 bit = log_rows; bit-- > 0;) {
      const u64 half = u64{1} << bit, stride = log_block_ - 1 - bit;
      for (u64 i = 0; i < half; ++i) {
        const L root = L::broadcast(back_near_[i << stride]);
        for (u64 base = i; base < rows; base += 2 * half) {
          const L upper = lanes[base], lower = lanes[base + half];
          lanes[base] = L::sum(upper, lower).template reduced<2>();
          lanes[base + half] = L::product(L::template difference<2>(upper, lower), root);
        }
      }
    }
    // In one product per element by the coset's power; its factor that differs from lane to lane is in the table.
    F factors[8];
    const void* from[8];
    for (u64 l = 0; l < 8; ++l) {
      factors[l] = first * places_[l * rows];
      from[l] = &factors[l];
    }
    const L own = L::load(from, 0);
    for (u64 i = 0; i < rows; ++i) lanes[i] = L::product(L::product(lanes[i], L::broadcast(scaled_places_[i])), own);
    // Each level of the forward transform adds 2p to the bound; nine make 20p, which a product still takes.
    for (u64 bit = 0; bit < log_rows; ++bit) {
      const u64 half = u64{1} << bit, stride = log_block_ - 1 - bit;
      for (u64 i = 0; i < half; ++i) {
        const L root = L::broadcast(scaled_near_[i << stride]);
        for (u64 base = i; base < rows; base += 2 * half) {
          const L upper = lanes[base], turned = L::product(lanes[base + half], root);
          lanes[base] = L::sum(upper, turned);
          lanes[base + half] = L::template difference<2>(upper, turned);
        }
      }
    }
    const L one = L::broadcast(scaled_near_[0]);
    for (u64 i = 0; i < rows; ++i) {
      addresses(i, to);
      L::product(lanes[i], one).template reduced<1>().store(to, 0);
    }
    far_in_block(block, log_rows, false);
    for (u64 i = 0; i < quarter; i += 8) Eight::four_forward(block + i, quarter, scaled_near_, i, 1);
  }

  // One level of a block, eight neighbouring butterflies at a time.
  void far_in_block(F* block, u64 bit, bool inverse) const {
    const u64 half = u64{1} << bit, stride = log_block_ - 1 - bit;
    const std::ptrdiff_t step = std::ptrdiff_t{1} << stride;
    for (u64 base = 0; base < places_.size(); base += 2 * half) {
      for (u64 i = 0; i < half; i += 8) {
        const F* root = inverse ? &scaled_near_.back() - (i << stride) : &scaled_near_[i << stride];
        Eight::two(block + base + i, half, root, inverse ? -step : step, inverse);
      }
    }
  }

  void near_levels_plainly(F* block, const F& first) const {
#else
  void near_levels(F* block, const F& first) const {
#endif
    for (u64 bit = log_block_; bit-- > 0;) {
      const u64 half = u64{1} << bit, stride = log_block_ - 1 - bit;
      for (u64 base = 0; base < places_.size(); base += 2 * half) {
        for (u64 i = 0; i < half; ++i) {
          F& upper = block[base + i];
          F& lower = block[base + i + half];
          const F difference = upper - lower;
          upper = upper + lower;
          lower = turned_back(difference, near_, i << stride);
        }
      }
    }
    for (u64 i = 0; i < places_.size(); ++i) block[i] = block[i] * (first * places_[i]);
    for (u64 bit = 0; bit < log_block_; ++bit) {
      const u64 half = u64{1} << bit, stride = log_block_ - 1 - bit;
      for (u64 base = 0; base < places_.size(); base += 2 * half) {
        for (u64 i = 0; i < half; ++i) {
          F& upper = block[base + i];
          F& lower = block[base + i + half];
          const F turned = lower * near_[i << stride];
          lower = upper - turned;
          upper = upper + turned;
        }
      }
    }
  }

  // One level between elements 2^bit apart: calls step(lower index, exponent) for every pair.
  template <class Step>
  void each_pair(u64 bit, const Step& step) const {
    parallel_parts(size() / 2, 1 << 13, threads_, [&](u64 begin, u64 end) {
      const u64 mask = (u64{1} << bit) - 1;
      for (u64 u = begin; u < end; ++u) {
        const u64 i = u & mask;
        step(((u & ~mask) << 1) | i, i << (log_n_ - 1 - bit));
      }
    });
  }

#if defined(PROVEWIRE_LANES)
  // As each_pair, eight neighbours at a time: calls step(first lower index, its exponent, between exponents).
  template <class Step>
  void each_eight(u64 bit, const Step& step) const {
    parallel_parts(size() / 16, 1 << 10, threads_, [&](u64 begin, u64 end) {
      const u64 mask = (u64{1} << bit) - 1, between = u64{1} << (log_n_ - 1 - bit);
      for (u64 u = begin; u < end; ++u) {
        const u64 i = 8 * u & mask;
        step(((8 * u & ~mask) << 1) | i, i * between, between);
      }
    });
  }
#endif

  void far_inverse(F* vector, u64 bit) const {
#if defined(PROVEWIRE_LANES)
    if (bit >= 3) {
      each_eight(bit, [&](u64 at, u64 exponent, u64 step) {
        const auto between = -static_cast<std::ptrdiff_t>(step);
        Eight::two(vector + at, u64{1} << bit, &roots_.back() - exponent, between, true);
      });
      return;
    }
#endif
    each_pair(bit, [&](u64 at, u64 exponent) {
      F& upper = vector[at];
      F& lower = vector[at + (u64{1} << bit)];
      const F difference = upper - lower;
      upper = upper + lower;
      lower = turned_back(difference, roots_, exponent);
    });
  }

  void far_forward(F* vector, u64 bit) const {
#if defined(PROVEWIRE_LANES)
    if (bit >= 3) {
      each_eight(bit, [&](u64 at, u64 exponent, u64 step) {
        Eight::two(vector + at, u64{1} << bit, &roots_[exponent], static_cast<std::ptrdiff_t>(step), false);
      });
      return;
    }
#endif
    each_pair(bit, [&](u64 at, u64 exponent) {
      F& upper = vector[at];
      F& lower = vector[at + (u64{1} << bit)];
      const F turned = lower * roots_[exponent];
      lower = upper - turned;
      upper = upper + turned;
    });
  }

  // Two levels at once: index bits `low` and `low + 1`. Calls step(index with both bits zero, place below 2^low).
  template <class Step>
  void each_four(u64 low, const Step& step) const {
    parallel_parts(size() / 4, 1 << 12, threads_, [&](u64 begin, u64 end) {
      const u64 mask = (u64{1} << low) - 1;
      for (u64 u = begin; u < end; ++u) step(((u & ~mask) << 2) | (u & mask), u & mask);
    });
  }

#if defined(PROVEWIRE_LANES)
  // As each_four, for eight neighbours.
  template <class Step>
  void each_four_eights(u64 low, const Step& step) const {
    parallel_parts(size() / 32, 1 << 9, threads_, [&](u64 begin, u64 end) {
      const u64 mask = (u64{1} << low) - 1;
      for (u64 u = begin; u < end; ++u) step(((8 * u & ~mask) << 2) | (8 * u & mask), 8 * u & mask);
    });
  }
#endif

  void far_pair_inverse(F* vector, u64 high) const {
    const u64 low = high - 1, q = u64{1} << low, shift = log_n_ - 1 - high;
#if defined(PROVEWIRE_LANES)
    if (low >= 3) {
      each_four_eights(low, [&](u64 at, u64 i) { Eight::four_inverse(vector + at, q, &roots_.back(), i, shift); });
      return;
    }
#endif
    each_four(low, [&](u64 at, u64 i) {
      F* x = vector + at;
      const F a0 = x[0] + x[2 * q], a1 = x[q] + x[3 * q];
      const F a2 = turned_back(x[0] - x[2 * q], roots_, i << shift);
      const F a3 = turned_back(x[q] - x[3 * q], roots_, (i + q) << shift);
      x[0] = a0 + a1;
      x[q] = turned_back(a0 - a1, roots_, i << (shift + 1));
      x[2 * q] = a2 + a3;
      x[3 * q] = turned_back(a2 - a3, roots_, i << (shift + 1));
    });
  }

  void far_pair_forward(F* vector, u64 low) const {
    const u64 q = u64{1} << low, shift = log_n_ - 1 - low;
#if defined(PROVEWIRE_LANES)
    if (low >= 3) {
      each_four_eights(low, [&](u64 at, u64 i) { Eight::four_forward(vector + at, q, roots_, i, shift); });
      return;
    }
#endif
    each_four(low, [&](u64 at, u64 i) {
      F* x = vector + at;
      const F& w = roots_[i << shift];
      const F b1 = x[q] * w, b3 = x[3 * q] * w;
      const F a0 = x[0] + b1, a1 = x[0] - b1, a2 = x[2 * q] + b3, a3 = x[2 * q] - b3;
      const F t2 = a2 * roots_[i << (shift - 1)], t3 = a3 * roots_[(i + q) << (shift - 1)];
      x[0] = a0 + t2;
      x[2 * q] = a0 - t2;
      x[q] = a1 + t3;
      x[3 * q] = a1 - t3;
    });
  }

  u64 log_n_;
  u64 log_block_;
  u32 threads_;
  F coset_;
  F scale_;
  std::vector<F> roots_;
  std::vector<F> near_;
  std::vector<F> places_;
#if defined(PROVEWIRE_LANES)
  std::vector<F> scaled_near_, back_near_, scaled_places_;
#endif
};

}  // namespace provewire
