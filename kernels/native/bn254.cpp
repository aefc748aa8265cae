// DO NOT EDIT. Made from kernels/entry/templates/native.cpp.in by kernels/generate.py (make generate).
// clang-format off
// BN254 on CPUs: what a prover does there, each a function for the foreign-function interface.
//
// Points and scalars are as files have them, with no alignment; scalars are plain integers below r. Sizes and ranges are
// the caller's to check.
#include "curve/bn254.cuh"
#include "native/msm.cuh"
#include "native/pairing.cuh"
#include "native/quotient.cuh"
#include "native/ranges.cuh"
#include "native/rows.cuh"
#include "native/setup.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace provewire;
using namespace provewire::bn254;

namespace {

template <class T>
T loaded(const u8* from) {
  T value;
  std::memcpy(static_cast<void*>(&value), from, sizeof value);
  return value;
}

template <class T>
void store(u8* to, const T& value) {
  std::memcpy(to, static_cast<const void*>(&value), sizeof value);
}

template <class F>
Xyzz<F> product(const Affine<F>& point, const u8* scalar) {
  const Folded k = loaded<Folded>(scalar);
  Xyzz<F> sum = Xyzz<F>::infinity();
  for (u32 bit = 256; bit-- > 0;) {
    if (!sum.is_infinity()) sum = sum.twice();
    if (k.word[bit / 64] >> (bit % 64) & 1) sum.add(point);
  }
  return sum;
}

template <class F>
u64 sum_sorted(const Bases<F>& bases, Entries entries, Windows windows, const u32* sorted, const u32* ends, u8* out,
               u32 threads) {
  MultiExponentiation<F> sum(bases, entries, windows, sorted, ends, threads);
  store(out, sum.run().to_affine());
  return sum.additions();
}

}  // namespace

EXPORT u64 bn254_first_not_below(const u8* numbers, u64 count, u64 stride, u64 bytes, const u8* limit, u32 threads) {
  return first_not_below(numbers, count, stride, bytes, limit, threads);
}

EXPORT void bn254_lengths(const u8* scalars, u64 count, u64* lengths, u32 threads) {
  count_lengths<FrParams>(scalars, count, lengths, threads);
}

EXPORT u64 bn254_sort_scratch_bytes(u64 count, u64 longs) {
  return DigitSort<FrParams>::scratch_bytes(count, longs);
}

EXPORT void bn254_sort(const u8* scalars, u64 count, u64 longs, u32 window_bits, u32 windows, u8* scratch,
                         u32* sorted, u32* ends, u32 threads) {
  DigitSort<FrParams>(scalars, count, longs, {window_bits, windows}, scratch).run(sorted, ends, threads);
}

// These two return how many additions of two points it took.

EXPORT u64 bn254_g1_sum(const u8* points, u64 skip, u64 count, u64 scalars, u64 longs, u32 window_bits, u32 windows,
                          const u32* sorted, const u32* ends, u8* out, u32 threads) {
  return sum_sorted<Fq>({points, skip, count}, {scalars, longs}, {window_bits, windows}, sorted, ends, out, threads);
}

EXPORT u64 bn254_g2_sum(const u8* points, u64 skip, u64 count, u64 scalars, u64 longs, u32 window_bits, u32 windows,
                          const u32* sorted, const u32* ends, u8* out, u32 threads) {
  return sum_sorted<Fq2>({points, skip, count}, {scalars, longs}, {window_bits, windows}, sorted, ends, out, threads);
}

EXPORT void bn254_rows(const u8* records, u64 count, u64 domain, u64 signals, const u8* witness, Fr* a, Fr* b, Fr* c,
                         u32 threads) {
  evaluate_rows<Fr>(records, count, domain, signals, witness, a, b, c, threads);
}

// root, coset and 1 / domain in Montgomery form.
EXPORT void bn254_quotient_of(u64 log_n, const u8* root, const u8* coset, const u8* size_inverse, Fr* a, Fr* b, Fr* c,
                                u32 threads) {
  Quotient3<Fr>(log_n, loaded<Fr>(root), loaded<Fr>(coset), loaded<Fr>(size_inverse), threads).run(a, b, c);
}

// The proof's points from the sums: A = alpha + sum_a + r delta, B = beta + sum_b + s delta in both groups,
// C = sum_c + sum_h + s A + r B - r s delta. `minus_rs` is -r s.
EXPORT void bn254_assemble(const u8* sums_g1, const u8* sum_b2, const u8* alpha1, const u8* beta1, const u8* delta1,
                             const u8* beta2, const u8* delta2, const u8* r, const u8* s, const u8* minus_rs, u8* a,
                             u8* b, u8* c) {
  const auto sum = [&](u32 i) { return loaded<G1>(sums_g1 + i * sizeof(G1)); };
  const G1 delta = loaded<G1>(delta1);
  G1Sum first = product(delta, r);
  first.add(loaded<G1>(alpha1));
  first.add(sum(0));
  G1Sum second = product(delta, s);
  second.add(loaded<G1>(beta1));
  second.add(sum(1));
  G2Sum twisted = product(loaded<G2>(delta2), s);
  twisted.add(loaded<G2>(beta2));
  twisted.add(loaded<G2>(sum_b2));
  const G1 point_a = first.to_affine();
  G1Sum third = product(point_a, s);
  third.add(product(second.to_affine(), r));
  third.add(product(delta, minus_rs));
  third.add(sum(2));
  third.add(sum(3));
  store(a, point_a);
  store(b, twisted.to_affine());
  store(c, third.to_affine());
}

// What `setup` computes with, all scalars in Montgomery form.

EXPORT u64 bn254_first_violated(const u8* section, u64 bytes, u64 count, u64 wires, const u8* witness) {
  return first_violated<Fr>(section, bytes, count, wires, witness);
}

EXPORT void bn254_lagrange(u64 count, const u8* root, const u8* first, const u8* tau, const u8* scale, Fr* out,
                             u32 threads) {
  lagrange<Fr>(count, loaded<Fr>(root), loaded<Fr>(first), loaded<Fr>(tau), loaded<Fr>(scale), out, threads);
}

EXPORT u64 bn254_gather_terms(const u8* section, u64 bytes, u64 first, u64 count, u64 wires, const Fr* weights,
                                Fr* a, Fr* b, Fr* c, u8* records, u64 room, u64* done) {
  Fr* const sums[] = {a, b, c};
  return gather_terms<Fr>(section, bytes, first, count, wires, weights, sums, records, room, done);
}

// out[i] = (beta a[i] + alpha b[i] + c[i]) * factor.
EXPORT void bn254_combine(const Fr* a, const Fr* b, const Fr* c, u64 count, const u8* alpha, const u8* beta,
                            const u8* factor, Fr* out, u32 threads) {
  const Fr first = loaded<Fr>(alpha), second = loaded<Fr>(beta), scale = loaded<Fr>(factor);
  parallel_parts(count, 1 << 13, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) out[i] = (second * a[i] + first * b[i] + c[i]) * scale;
  });
}

EXPORT void bn254_g1_multiples(const u8* base, const Fr* scalars, u64 count, u8* out, u32 threads) {
  fixed_base<Fq, Fr>(loaded<G1>(base), scalars, count, out, threads);
}

EXPORT void bn254_g2_multiples(const u8* base, const Fr* scalars, u64 count, u8* out, u32 threads) {
  fixed_base<Fq2, Fr>(loaded<G2>(base), scalars, count, out, threads);
}

EXPORT u64 bn254_g1_first_off_curve(const u8* points, u64 count, const u8* b, u32 threads) {
  return first_off_curve<Fq>(points, count, loaded<Fq>(b), threads);
}

EXPORT u64 bn254_g2_first_off_curve(const u8* points, u64 count, const u8* b, u32 threads) {
  return first_off_curve<Fq2>(points, count, loaded<Fq2>(b), threads);
}

// Verification. Points are affine in Montgomery form.

EXPORT u64 bn254_pairing_product_is_one(const u8* ps, const u8* qs, u64 count) {
  std::vector<G1> first(count);
  std::vector<G2> second(count);
  for (u64 i = 0; i < count; ++i) {
    first[i] = loaded<G1>(ps + i * sizeof(G1));
    second[i] = loaded<G2>(qs + i * sizeof(G2));
  }
  return Pairing<PairingTraits>().product_is_one(first, second);
}

EXPORT u64 bn254_g1_is_in_group(const u8* point, const u8* b) {
  return is_in_group<FrParams>(loaded<G1>(point), loaded<Fq>(b));
}

EXPORT u64 bn254_g2_is_in_group(const u8* point, const u8* b) {
  return Pairing<PairingTraits>().is_in_second_group(loaded<G2>(point), loaded<Fq2>(b));
}

// out = points[0] + the sum of scalar times point over the others.
EXPORT void bn254_statement(const u8* points, const u8* scalars, u64 count, u8* out) {
  G1Sum sum = G1Sum::from_affine(loaded<G1>(points));
  for (u64 i = 0; i < count; ++i) sum.add(product(loaded<G1>(points + (i + 1) * sizeof(G1)), scalars + i * sizeof(Folded)));
  store(out, sum.to_affine());
}
