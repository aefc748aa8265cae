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
  // This times a + b v.
  Fq6 times(const E& a, const E& b) const {
    const E p0 = c[0] * a, p1 = c[1] * b;
    return {{p0 + times_xi(c[2] * b), (c[0] + c[1]) * (a + b) - p0 - p1, p1 + c[2] * a}};
  }
  Fq6 times(const typename T::Fq& a) const {
    return {{{c[0].c0 * a, c[0].c1 * a}, {c[1].c0 * a, c[1].c1 * a}, {c[2].c0 * a, c[2].c1 * a}}};
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
  // The square of an element whose inverse is its conjugate: three squares over the quadratic extension
  // (Granger and Scott, "Faster squaring in the cyclotomic subgroup of sixth degree extensions", 2010).
  Fq12 cyclotomic_square() const {
    Fq12 z;
    square_pair(c[0].c[0], c[1].c[1], z.c[0].c[0], z.c[1].c[1]);
    E low, high;
    square_pair(c[1].c[0], c[0].c[2], low, high);
    z.c[0].c[1] = low;
    z.c[1].c[2] = high;
    square_pair(c[0].c[1], c[1].c[2], low, high);
    z.c[0].c[2] = low;
    z.c[1].c[0] = Fq6<T>::times_xi(high);
    for (u32 i = 0; i < 3; ++i) {
      z.c[0].c[i] = (z.c[0].c[i] - c[0].c[i]).twice() + z.c[0].c[i];
      z.c[1].c[i] = (z.c[1].c[i] + c[1].c[i]).twice() + z.c[1].c[i];
    }
    return z;
  }
  Fq12 conjugate() const { return {{c[0], Fq6<T>::zero() - c[1]}}; }
  Fq12 inverse() const {
    const Fq6<T> inverted = (c[0] * c[0] - (c[1] * c[1]).times_v()).inverse();
    return {{c[0] * inverted, Fq6<T>::zero() - c[1] * inverted}};
  }

 private:
  // (x + y t)^2 with t^2 = xi.
  static void square_pair(const E& x, const E& y, E& low, E& high) {
    const E cross = x * y;
    low = (x + y) * (x + Fq6<T>::times_xi(y)) - cross - Fq6<T>::times_xi(cross);
    high = cross.twice();
  }
};

template <class T>
class Pairing {
 public:
  using F = typename T::Fq;
  using E = typename T::Fq2;

  Pairing() : frobenius_(frobenius_powers().power) {}

  bool product_is_one(std::vector<Affine<F>> ps, std::vector<Affine<E>> qs) const {
    for (u64 i = ps.size(); i-- > 0;) {
      if (!ps[i].is_infinity() && !qs[i].is_infinity()) continue;
      ps.erase(ps.begin() + static_cast<std::ptrdiff_t>(i));
      qs.erase(qs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return final_power(miller(ps, qs)).is_one();
  }

  // Whether a point of the twist y^2 = x^3 + b has order r. With t the trace of the q-th power map psi, which satisfies
  // psi^2 - t psi + q = 0 on the twist, psi(P) = (t - 1) P means (q + 1 - t) P = 0. That is r times the first group's
  // cofactor, which has no factor in common with the second group's.
  bool is_in_second_group(const Affine<E>& point, const E& b) const {
    if (point.is_infinity()) return true;
    if (!(point.y.square() == point.x.square() * point.x + b)) return false;
    const Wide trace_less_one = T::is_bn ? 6 * parameter() * parameter() : parameter();
    Xyzz<E> sum = Xyzz<E>::infinity();
    for (u32 bit = 128; bit-- > 0;) {
      sum = sum.twice();
      if (trace_less_one >> bit & 1) sum.add(point);
    }
    Affine<E> multiple = sum.to_affine();
    if (T::is_negative) multiple.y = -multiple.y;
    // The other families' twist divides where that of BN curves multiplies.
    const Affine<E> image = T::is_bn ? frobenius(point) : Affine<E>{conjugate(point.x), conjugate(point.y)};
    if (!T::is_bn) multiple = {multiple.x * frobenius_[2], multiple.y * frobenius_[3]};
    return image.x == multiple.x && image.y == multiple.y;
  }

 private:
  using Wide = unsigned __int128;

  static constexpr Wide loop() { return static_cast<Wide>(T::loop(1)) << 64 | T::loop(0); }
  // The absolute value of the family's x.
  static constexpr Wide parameter() { return T::is_bn ? (loop() - 2) / 6 : loop(); }

  // Digits -1, 0 and 1, never two in a row that are not 0, lowest first.
  static std::vector<int> digits(Wide number) {
    std::vector<int> found;
    for (; number != 0; number >>= 1) {
      const int digit = (number & 1) == 0 ? 0 : (number & 2) == 0 ? 1 : -1;
      if (digit == 1) number -= 1;
      if (digit == -1) number += 1;
      found.push_back(digit);
    }
    return found;
  }

  Fq12<T> miller(const std::vector<Affine<F>>& ps, const std::vector<Affine<E>>& qs) const {
    std::vector<Affine<E>> ts = qs, minus = qs;
    for (Affine<E>& q : minus) q.y = -q.y;
    Fq12<T> f = Fq12<T>::one();
    const std::vector<int> steps = digits(loop());
    for (u64 i = steps.size() - 1; i-- > 0;) {
      f = f.square();
      step(f, ts, ts, ps, true);
      if (steps[i] != 0) step(f, ts, steps[i] > 0 ? qs : minus, ps, false);
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
      f = T::is_bn ? times_line_of_bn(f, ps[i].y, across, at_t) : times_line_of_bls(f, at_t, across, ps[i].y);
      ts[i].y = slope * (ts[i].x - x) - ts[i].y;
      ts[i].x = x;
    }
  }

  // f (at_p + (across + at_t v) w).
  static Fq12<T> times_line_of_bn(const Fq12<T>& f, const F& at_p, const E& across, const E& at_t) {
    const Fq6<T> low = f.c[0].times(at_p), high = f.c[1].times(across, at_t);
    const E first{across.c0 + at_p, across.c1};
    return {{low + high.times_v(), (f.c[0] + f.c[1]).times(first, at_t) - low - high}};
  }
  // f (at_t + across v + at_p v w).
  static Fq12<T> times_line_of_bls(const Fq12<T>& f, const E& at_t, const E& across, const F& at_p) {
    const Fq6<T> low = f.c[0].times(at_t, across), high = f.c[1].times(at_p).times_v();
    const E second{across.c0 + at_p, across.c1};
    return {{low + high.times_v(), (f.c[0] + f.c[1]).times(at_t, second) - low - high}};
  }

  static E conjugate(const E& x) { return {x.c0, -x.c1}; }
  Affine<E> frobenius(const Affine<E>& q) const {
    return {conjugate(q.x) * frobenius_[2], conjugate(q.y) * frobenius_[3]};
  }
  Fq12<T> frobenius(const Fq12<T>& x) const {
    Fq12<T> y;
    for (u32 k = 0; k < 6; ++k) y.c[k % 2].c[k / 2] = conjugate(x.c[k % 2].c[k / 2]) * frobenius_[k];
    return y;
  }

  // x to a fixed multiple of (q^12 - 1) / r that is prime to r: x^((q^6 - 1)(q^2 + 1)), and the family's hard part.
  Fq12<T> final_power(Fq12<T> x) const {
    x = x.conjugate() * x.inverse();
    x = frobenius(frobenius(x)) * x;
    return T::is_bn ? hard_part_of_bn(x) : hard_part_of_bls(x);
  }

  // To the power 2 x (6 x^2 + 3 x + 1) (q^4 - q^2 + 1) / r, whose digits to the base q are 1 + 6x + 12x^2 + 12x^3,
  // 4x + 6x^2 + 12x^3, 6x + 6x^2 + 12x^3 and -1 + 4x + 6x^2 + 12x^3 (Fuentes-Castaneda, Knapp, Rodriguez-Henriquez,
  // "Faster hashing to G2", 2011).
  Fq12<T> hard_part_of_bn(const Fq12<T>& f) const {
    const Fq12<T> by_2x = to_parameter(f).cyclotomic_square(), by_4x = by_2x.cyclotomic_square();
    const Fq12<T> by_6x = by_4x * by_2x, by_6x2 = to_parameter(by_6x);
    const Fq12<T> both = to_parameter(by_6x2.cyclotomic_square()) * by_6x2;
    const Fq12<T> second = both * by_4x, third = both * by_6x, first = third * by_6x2 * f;
    // Horner's rule in the q-th power map.
    return frobenius(frobenius(frobenius(second * f.conjugate()) * third) * second) * first;
  }

  // To the power 3 (q^4 - q^2 + 1) / r = (x - 1)^2 (x + q) (x^2 + q^2 - 1) + 3.
  Fq12<T> hard_part_of_bls(const Fq12<T>& f) const {
    Fq12<T> a = to_parameter(f) * f.conjugate();
    a = to_parameter(a) * a.conjugate();
    a = to_parameter(a) * frobenius(a);
    a = to_parameter(to_parameter(a)) * frobenius(frobenius(a)) * a.conjugate();
    return a * f.cyclotomic_square() * f;
  }

  // f^x for f whose inverse is its conjugate.
  Fq12<T> to_parameter(const Fq12<T>& f) const {
    const std::vector<int> steps = digits(parameter());
    const Fq12<T> inverted = f.conjugate();
    Fq12<T> y = f;
    for (u64 i = steps.size() - 1; i-- > 0;) {
      y = y.cyclotomic_square();
      if (steps[i] != 0) y = y * (steps[i] > 0 ? f : inverted);
    }
    return T::is_negative ? y.conjugate() : y;
  }

  // xi^(k (q - 1) / 6) for k below 6: what the q-th power map multiplies by.
  struct Powers {
    E power[6];
  };

  // Computed once.
  static const Powers& frobenius_powers() {
    static const Powers powers = [] {
      using P = typename F::Params;
      constexpr u32 words = P::bytes / 8;
      u64 exponent[words], rest = 0;
      for (u32 i = words; i-- > 0;) {
        const Wide dividend = static_cast<Wide>(rest) << 64 | (P::modulus(i) - (i == 0));
        exponent[i] = static_cast<u64>(dividend / 6);
        rest = static_cast<u64>(dividend % 6);
      }
      E xi{F::one(), F::one()}, step = E::one();
      for (u32 i = 1; i < T::xi; ++i) xi.c0 = xi.c0 + F::one();
      for (u32 bit = 64 * words; bit-- > 0;) {
        step = step.square();
        if (exponent[bit / 64] >> (bit % 64) & 1) step = step * xi;
      }
      Powers found;
      found.power[0] = E::one();
      for (u32 k = 1; k < 6; ++k) found.power[k] = found.power[k - 1] * step;
      return found;
    }();
    return powers;
  }

  const E* frobenius_;
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
