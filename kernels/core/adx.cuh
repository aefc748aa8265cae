// Montgomery multiplication on x86-64 with two carry chains: mulx leaves the flags alone, adcx keeps one chain in the
// carry flag and adox the other in the overflow flag. Compilers cannot express that.
//
// Not in builds with sanitizers, whose instrumentation takes the registers that this needs.
#pragma once

#include "core/platform.cuh"

#if defined(__ADX__) && defined(__BMI2__) && !defined(__SANITIZE_ADDRESS__) && !defined(PROVEWIRE_NO_ASM)
#define PROVEWIRE_ADX

namespace provewire {

// clang-format off
template <class P>
struct Constants {
  u64 modulus[P::bytes / 8];
  u64 negative_inverse;
};

template <class P>
constexpr Constants<P> make_constants() {
  Constants<P> made{};
  for (u32 i = 0; i < P::bytes / 8; ++i) made.modulus[i] = P::modulus(i);
  made.negative_inverse = P::negative_inverse();
  return made;
}

template <class P>
inline constexpr Constants<P> constants = make_constants<P>();

// z = x * y / 2^(64 n), below twice the modulus.
template <class P, u32 n = P::bytes / 8>
struct Adx;

template <class P>
struct Adx<P, 4> {
  // t += x * y, then t += m * p with the m that makes t0 zero. The sum fits n + 1 limbs, since t comes in below 2p.
  static inline __attribute__((always_inline)) void row(u64& t0, u64& t1, u64& t2, u64& t3, u64& t4, const u64* x, u64 y,
                                                        const Constants<P>* p) {
    u64 lo, hi;
    asm("xorl %k[lo], %k[lo]\n\t"  // clears both carries
        "mulxq 0(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t0]\n\t"
        "adoxq %[hi], %[t1]\n\t"
        "mulxq 8(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t1]\n\t"
        "adoxq %[hi], %[t2]\n\t"
        "mulxq 16(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t2]\n\t"
        "adoxq %[hi], %[t3]\n\t"
        "mulxq 24(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t3]\n\t"
        "adoxq %[hi], %[t4]\n\t"
        "movl $0, %k[lo]\n\t"
        "adcxq %[lo], %[t4]\n\t"
        "movq 32(%[p]), %%rdx\n\t"
        "imulq %[t0], %%rdx\n\t"
        "xorl %k[lo], %k[lo]\n\t"
        "mulxq 0(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t0]\n\t"
        "adoxq %[hi], %[t1]\n\t"
        "mulxq 8(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t1]\n\t"
        "adoxq %[hi], %[t2]\n\t"
        "mulxq 16(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t2]\n\t"
        "adoxq %[hi], %[t3]\n\t"
        "mulxq 24(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t3]\n\t"
        "adoxq %[hi], %[t4]\n\t"
        "movl $0, %k[lo]\n\t"
        "adcxq %[lo], %[t4]\n\t"
        : [t0] "+r"(t0), [t1] "+r"(t1), [t2] "+r"(t2), [t3] "+r"(t3), [t4] "+r"(t4), [lo] "=&r"(lo), [hi] "=&r"(hi), "+&d"(y)
        : [x] "r"(x), [p] "r"(p), "m"(*reinterpret_cast<const u64(*)[4]>(x)), "m"(*p)
        : "cc");
  }

  static inline __attribute__((always_inline)) void multiply(u64* z, const u64* x, const u64* y) {
    u64 t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4 = 0;
    row(t0, t1, t2, t3, t4, x, y[0], &constants<P>);
    row(t1, t2, t3, t4, t0, x, y[1], &constants<P>);
    row(t2, t3, t4, t0, t1, x, y[2], &constants<P>);
    row(t3, t4, t0, t1, t2, x, y[3], &constants<P>);
    z[0] = t4;
    z[1] = t0;
    z[2] = t1;
    z[3] = t2;
  }
};

template <class P>
struct Adx<P, 6> {
  // t += x * y, then t += m * p with the m that makes t0 zero. The sum fits n + 1 limbs, since t comes in below 2p.
  static inline __attribute__((always_inline)) void row(u64& t0, u64& t1, u64& t2, u64& t3, u64& t4, u64& t5, u64& t6, const u64* x, u64 y,
                                                        const Constants<P>* p) {
    u64 lo, hi;
    asm("xorl %k[lo], %k[lo]\n\t"  // clears both carries
        "mulxq 0(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t0]\n\t"
        "adoxq %[hi], %[t1]\n\t"
        "mulxq 8(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t1]\n\t"
        "adoxq %[hi], %[t2]\n\t"
        "mulxq 16(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t2]\n\t"
        "adoxq %[hi], %[t3]\n\t"
        "mulxq 24(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t3]\n\t"
        "adoxq %[hi], %[t4]\n\t"
        "mulxq 32(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t4]\n\t"
        "adoxq %[hi], %[t5]\n\t"
        "mulxq 40(%[x]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t5]\n\t"
        "adoxq %[hi], %[t6]\n\t"
        "movl $0, %k[lo]\n\t"
        "adcxq %[lo], %[t6]\n\t"
        "movq 48(%[p]), %%rdx\n\t"
        "imulq %[t0], %%rdx\n\t"
        "xorl %k[lo], %k[lo]\n\t"
        "mulxq 0(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t0]\n\t"
        "adoxq %[hi], %[t1]\n\t"
        "mulxq 8(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t1]\n\t"
        "adoxq %[hi], %[t2]\n\t"
        "mulxq 16(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t2]\n\t"
        "adoxq %[hi], %[t3]\n\t"
        "mulxq 24(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t3]\n\t"
        "adoxq %[hi], %[t4]\n\t"
        "mulxq 32(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t4]\n\t"
        "adoxq %[hi], %[t5]\n\t"
        "mulxq 40(%[p]), %[lo], %[hi]\n\t"
        "adcxq %[lo], %[t5]\n\t"
        "adoxq %[hi], %[t6]\n\t"
        "movl $0, %k[lo]\n\t"
        "adcxq %[lo], %[t6]\n\t"
        : [t0] "+r"(t0), [t1] "+r"(t1), [t2] "+r"(t2), [t3] "+r"(t3), [t4] "+r"(t4), [t5] "+r"(t5), [t6] "+r"(t6), [lo] "=&r"(lo), [hi] "=&r"(hi), "+&d"(y)
        : [x] "r"(x), [p] "r"(p), "m"(*reinterpret_cast<const u64(*)[6]>(x)), "m"(*p)
        : "cc");
  }

  static inline __attribute__((always_inline)) void multiply(u64* z, const u64* x, const u64* y) {
    u64 t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4 = 0, t5 = 0, t6 = 0;
    row(t0, t1, t2, t3, t4, t5, t6, x, y[0], &constants<P>);
    row(t1, t2, t3, t4, t5, t6, t0, x, y[1], &constants<P>);
    row(t2, t3, t4, t5, t6, t0, t1, x, y[2], &constants<P>);
    row(t3, t4, t5, t6, t0, t1, t2, x, y[3], &constants<P>);
    row(t4, t5, t6, t0, t1, t2, t3, x, y[4], &constants<P>);
    row(t5, t6, t0, t1, t2, t3, t4, x, y[5], &constants<P>);
    z[0] = t6;
    z[1] = t0;
    z[2] = t1;
    z[3] = t2;
    z[4] = t3;
    z[5] = t4;
  }
};
// clang-format on

}  // namespace provewire

#endif
