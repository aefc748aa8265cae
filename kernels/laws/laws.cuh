// Kernels of the tests: one operation of a field or a group on arrays of operands.
#pragma once

#include "core/launch.cuh"
#include "curve/xyzz.cuh"
#include "field/ext2.cuh"
#include "field/mont.cuh"

namespace provewire {

enum class FieldOperation : u64 {
  add,
  subtract,
  multiply,
  negate,
  square,
  twice,
  inverse,
  to_plain,
  from_plain,
  equal
};

// out[i] = x[i] (operation) y[i]; operations of one operand ignore y, `equal` gives one or zero.
template <class F>
struct FieldLaw {
  u64 operation;
  const F* x;
  const F* y;
  F* out;
  u64 count;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  template <class P>
  static HD Mont<P> to_plain(const Mont<P>& x) {
    return x.to_plain();
  }
  template <class P>
  static HD Mont<P> from_plain(const Mont<P>& x) {
    return x.from_plain();
  }
  template <class G>
  static HD Ext2<G> to_plain(const Ext2<G>& x) {
    return Ext2<G>{x.c0.to_plain(), x.c1.to_plain()};
  }
  template <class G>
  static HD Ext2<G> from_plain(const Ext2<G>& x) {
    return Ext2<G>{x.c0.from_plain(), x.c1.from_plain()};
  }

  HD F result(const F& x, const F& y) const {
    switch (static_cast<FieldOperation>(operation)) {
      case FieldOperation::add:
        return x + y;
      case FieldOperation::subtract:
        return x - y;
      case FieldOperation::multiply:
        return x * y;
      case FieldOperation::negate:
        return -x;
      case FieldOperation::square:
        return x.square();
      case FieldOperation::twice:
        return x.twice();
      case FieldOperation::inverse:
        return x.inverse();
      case FieldOperation::to_plain:
        return to_plain(x);
      case FieldOperation::from_plain:
        return from_plain(x);
      case FieldOperation::equal:
        return x == y ? F::one() : F::zero();
    }
    return F::zero();
  }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i < count) out[i] = result(x[i], y[i]).canonical();
  }
};

enum class PointOperation : u64 { add_affine, add, twice, twice_affine, times, negate };

// out[i] = p[i] (operation) q[i]. The coordinates of p are spread by z[i], which must not be zero, before the
// operation, and those of q by its square, so that no operand of an XYZZ formula is one by accident.
template <class F>
struct PointLaw {
  u64 operation;
  const Affine<F>* p;
  const Affine<F>* q;
  const F* z;
  const u64* scalars;
  Affine<F>* out;
  u64 count;

  using Thread = NoState;
  HD u32 phases(At) const { return 1; }

  static HD Xyzz<F> spread(const Affine<F>& p, const F& z) {
    if (p.is_infinity()) return Xyzz<F>::infinity();
    const F zz = z.square();
    const F zzz = zz * z;
    return Xyzz<F>{p.x * zz, p.y * zzz, zz, zzz};
  }

  HD Xyzz<F> result(u64 i) const {
    Xyzz<F> sum = spread(p[i], z[i]);
    switch (static_cast<PointOperation>(operation)) {
      case PointOperation::add_affine:
        sum.add(q[i]);
        return sum;
      case PointOperation::add:
        sum.add(spread(q[i], z[i].square()));
        return sum;
      case PointOperation::twice:
        return sum.twice();
      case PointOperation::twice_affine:
        return p[i].is_infinity() ? sum : Xyzz<F>::twice_affine(p[i]);
      case PointOperation::times:
        return sum.times(scalars[i]);
      case PointOperation::negate:
        return Xyzz<F>::from_affine(-p[i]);
    }
    return Xyzz<F>::infinity();
  }

  HD void phase(u32, At at, u8*, Thread&) const {
    const u64 i = at.index();
    if (i < count) out[i] = result(i).to_affine();
  }
};

}  // namespace provewire
