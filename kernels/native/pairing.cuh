// Whether a product of pairings is one: the optimal ate pairings of kernels/reference/pairing.py, by the same steps.
//
// Fq6 = Fq2[v] / (v^3 - xi) with xi = T::xi + u, Fq12 = Fq6[w] / (w^2 - v). T is a curve's pairing (curve/*.cuh).
#pragma once

#include <cstring>
#include <vector>

#include "curve/xyzz.cuh"
#include "field/ext2.cuh"

namespace provewire {

template <class T>
struct Fq6 {
  using E = typename T::Fq2;
  E c[3];

  static Fq6 zero() { return {{E::zero(), E::zero(), E::zero()}}; }
  static Fq6 one() { return {{E::one(), E::zero(), E::zero()}}; }
  static E times_xi(const E& x) {
    auto c0 = x.c0, c1 = x.c1;
    for (u32 i = 1; i < T::xi; ++i) c0 = c0 + x.c0, c1 = c1 + x.c1;
    return {c0 - x.c1, c1 + x.c0};
  }
  friend Fq6 operator+(const Fq6& x, const Fq6& y) { return {{x.c[0] + y.c[0], x.c[1] + y.c[1], x.c[2] + y.c[2]}}; }
  friend Fq6 operator-(const Fq6& x, const Fq6& y) { return {{x.c[0] - y.c[0], x.c[1] - y.c[1], x.c[2] - y.c[2]}}; }
  friend Fq6 operator*(const Fq6& x, const Fq6& y) {
    const E p0 = x.c[0] * y.c[0], p1 = x.c[1] * y.c[1], p2 = x.c[2] * y.c[2];
    const E c01 = (x.c[0] + x.c[1]) * (y.c[0] + y.c[1]) - p0 - p1;
    const E c02 = (x.c[0] + x.c[2]) * (y.c[0] + y.c[2]) - p0 - p2;
    const E c12 = (x.c[1] + x.c[2]) * (y.c[1] + y.c[2]) - p1 - p2;
    return {{p0 + times_xi(c12), c01 + times_xi(p2), c02 + p1}};
  }
  Fq6 times_v() const { return {{times_xi(c[2]), c[0], c[1]}}; }
  Fq6 inverse() const {
    const E t0 = c[0].square() - times_xi(c[1] * c[2]);
    const E t1 = times_xi(c[2].square()) - c[0] * c[1];
    const E t2 = c[1].square() - c[0] * c[2];
    const E inverted = (c[0] * t0 + times_xi(c[2] * t1 + c[1] * t2)).inverse();
    return {{t0 * inverted, t1 * inverted, t2 * inverted}};
  }
};

template <class T>
struct Fq12 {
  using E = typename T::Fq2;
  Fq6<T> c[2];

  static Fq12 one() { return {{Fq6<T>::one(), Fq6<T>::zero()}}; }
  bool is_one() const {
    const Fq12 unit = one();
    bool same = true;
    for (u32 i = 0; i < 6; ++i) same = same && c[i / 3].c[i % 3] == unit.c[i / 3].c[i % 3];
    return same;
  }
  friend Fq12 operator*(const Fq12& x, const Fq12& y) {
    const Fq6<T> low = x.c[0] * y.c[0], high = x.c[1] * y.c[1];
    return {{low + high.times_v(), (x.c[0] + x.c[1]) * (y.c[0] + y.c[1]) - low - high}};
  }
  // (c0 + c1 w)^2 by two products of Fq6.
  Fq12 square() const {
    const Fq6<T> cross = c[0] * c[1];
    return {{(c[0] + c[1]) * (c[0] + c[1].times_v()) - cross - cross.times_v(), cross + cross}};
  }
  Fq12 conjugate() const { return {{c[0], Fq6<T>::zero() - c[1]}}; }
  Fq12 inverse() const {
    const Fq6<T> inverted = (c[0] * c[0] - (c[1] * c[1]).times_v()).inverse();
    return {{c[0] * inverted, Fq6<T>::zero() - c[1] * inverted}};
  }
};

template <class T>
class Pairing {
 public:
  using F = typename T::Fq;
  using E = typename T::Fq2;

  // What Python computes once: xi^(k (q - 1) / 6) for k below 6, and (q^4 - q^2 + 1) / r to the base q, plain.
  struct Constants {
    E frobenius[6];
    u64 digits[4][sizeof(F) / 8];
  };

  explicit Pairing(const Constants& constants) : constants_(constants) {}

  bool product_is_one(std::vector<Affine<F>> ps, std::vector<Affine<E>> qs) const {
    for (u64 i = ps.size(); i-- > 0;) {
      if (!ps[i].is_infinity() && !qs[i].is_infinity()) continue;
      ps.erase(ps.begin() + static_cast<std::ptrdiff_t>(i));
      qs.erase(qs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return final_power(miller(ps, qs)).is_one();
  }

 private:
  Fq12<T> miller(const std::vector<Affine<F>>& ps, const std::vector<Affine<E>>& qs) const {
    std::vector<Affine<E>> ts = qs;
    Fq12<T> f = Fq12<T>::one();
    u32 bit = 128;
    while (!(T::loop(--bit / 64) >> (bit % 64) & 1)) {
    }
    while (bit-- > 0) {
      f = f.square();
      step(f, ts, ts, ps, true);
      if (T::loop(bit / 64) >> (bit % 64) & 1) step(f, ts, qs, ps, false);
    }
    if (!T::is_bn) return T::is_negative ? f.conjugate() : f;
    std::vector<Affine<E>> next = qs;
    for (Affine<E>& q : next) q = frobenius(q);
    step(f, ts, next, ps, false);
    for (Affine<E>& q : next) {
      q = frobenius(q);
      q.y = -q.y;
    }
    step(f, ts, next, ps, false);
    return f;
  }

  // f *= the line through t and q at p, t += q, for every pair; one inversion serves all.
  void step(Fq12<T>& f, std::vector<Affine<E>>& ts, const std::vector<Affine<E>>& qs, const std::vector<Affine<F>>& ps,
            bool doubling) const {
    std::vector<E> before(ts.size());
    E product = E::one();
    const auto denominator = [&](u64 i) { return doubling ? ts[i].y.twice() : qs[i].x - ts[i].x; };
    for (u64 i = 0; i < ts.size(); ++i) {
      before[i] = product;
      product = product * denominator(i);
    }
    E inverse = product.inverse();
    for (u64 i = ts.size(); i-- > 0;) {
      const E inverted = inverse * before[i];
      inverse = inverse * denominator(i);
      const E square = ts[i].x.square();
      const E slope = (doubling ? square.twice() + square : qs[i].y - ts[i].y) * inverted;
      const E x = slope.square() - ts[i].x - (doubling ? ts[i].x : qs[i].x);
      const E at_t = slope * ts[i].x - ts[i].y;
      const E across{-(slope.c0 * ps[i].x), -(slope.c1 * ps[i].x)};
      const E at_p{ps[i].y, F::zero()};
      Fq12<T> line{{Fq6<T>::zero(), Fq6<T>::zero()}};
      if (T::is_bn) {
        line.c[0].c[0] = at_p;
        line.c[1].c[0] = across;
        line.c[1].c[1] = at_t;
      } else {
        line.c[0].c[0] = at_t;
        line.c[0].c[1] = across;
        line.c[1].c[1] = at_p;
      }
      f = f * line;
      ts[i].y = slope * (ts[i].x - x) - ts[i].y;
      ts[i].x = x;
    }
  }

  static E conjugate(const E& x) { return {x.c0, -x.c1}; }
  Affine<E> frobenius(const Affine<E>& q) const {
    return {conjugate(q.x) * constants_.frobenius[2], conjugate(q.y) * constants_.frobenius[3]};
  }
  Fq12<T> frobenius(const Fq12<T>& x) const {
    Fq12<T> y;
    for (u32 k = 0; k < 6; ++k) y.c[k % 2].c[k / 2] = conjugate(x.c[k % 2].c[k / 2]) * constants_.frobenius[k];
    return y;
  }

  // x^((q^12 - 1) / r): x^((q^6 - 1)(q^2 + 1)), and then the product of the q^i-th powers to the digits.
  Fq12<T> final_power(Fq12<T> x) const {
    x = x.conjugate() * x.inverse();
    x = frobenius(frobenius(x)) * x;
    Fq12<T> powers[4], table[16];
    powers[0] = x;
    for (u32 i = 1; i < 4; ++i) powers[i] = frobenius(powers[i - 1]);
    table[0] = Fq12<T>::one();
    for (u32 i = 1; i < 16; ++i) {
      const u32 low = static_cast<u32>(__builtin_ctz(i));
      table[i] = table[i & (i - 1)] * powers[low];
    }
    Fq12<T> y = Fq12<T>::one();
    for (u32 bit = 8 * sizeof(F); bit-- > 0;) {
      y = y.square();
      u32 chosen = 0;
      for (u32 i = 0; i < 4; ++i) chosen |= static_cast<u32>(constants_.digits[i][bit / 64] >> (bit % 64) & 1) << i;
      if (chosen != 0) y = y * table[chosen];
    }
    return y;
  }

  Constants constants_;
};

// Whether a point lies on y^2 = x^3 + b and has the order r of the scalar field P.
template <class P, class F>
bool is_in_group(const Affine<F>& point, const F& b) {
  if (point.is_infinity()) return true;
  if (!(point.y.square() == point.x.square() * point.x + b)) return false;
  Xyzz<F> sum = Xyzz<F>::infinity();
  for (u32 bit = P::bits; bit-- > 0;) {
    sum = sum.twice();
    if (P::modulus(bit / 64) >> (bit % 64) & 1) sum.add(point);
  }
  return sum.is_infinity();
}

}  // namespace provewire
