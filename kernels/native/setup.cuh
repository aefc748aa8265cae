// From constraints and known secrets to a proving key's scalars and points; and whether a witness satisfies
// constraints.
#pragma once

#include "native/batch.cuh"
#include "native/digits.cuh"

namespace provewire {

constexpr u64 malformed = ~u64{0};

// The terms of constraints as an .r1cs file lists them: three times a number of terms and as many {wire, value}.
template <class F>
class TermReader {
 public:
  TermReader(const u8* section, u64 bytes, u64 wires) : section_(section), bytes_(bytes), wires_(wires) {}

  u64 position() const { return position_; }

  // Calls visit(matrix, wire, plain value) for each term of the next constraint; false where the bytes make none.
  template <class Visit>
  bool next(const Visit& visit) {
    for (u32 matrix = 0; matrix < 3; ++matrix) {
      u32 terms;
      if (bytes_ - position_ < sizeof terms) return false;
      std::memcpy(&terms, section_ + position_, sizeof terms);
      position_ += sizeof terms;
      if ((bytes_ - position_) / term_bytes < terms) return false;
      for (u32 i = 0; i < terms; ++i, position_ += term_bytes) {
        u32 wire;
        F value;
        std::memcpy(&wire, section_ + position_, sizeof wire);
        std::memcpy(static_cast<void*>(&value), section_ + position_ + sizeof wire, sizeof value);
        if (wire >= wires_ || !is_reduced(value)) return false;
        visit(matrix, wire, value);
      }
    }
    return true;
  }

 private:
  static constexpr u64 term_bytes = 4 + F::Params::bytes;

  static bool is_reduced(const F& value) {
    for (u32 i = F::n; i-- > 0;) {
      if (value.limb[i] != F::L::modulus(i)) return value.limb[i] < F::L::modulus(i);
    }
    return false;
  }

  const u8* section_;
  u64 bytes_;
  u64 wires_;
  u64 position_ = 0;
};

// The first constraint that a witness violates; `count` where it satisfies all; `malformed` where the bytes are.
template <class F>
u64 first_violated(const u8* section, u64 bytes, u64 count, u64 wires, const u8* witness) {
  TermReader<F> reader(section, bytes, wires);
  u64 found = count;
  for (u64 i = 0; i < count; ++i) {
    F sums[3] = {F::zero(), F::zero(), F::zero()};
    const bool is_whole = reader.next([&](u32 matrix, u32 wire, const F& value) {
      F here;
      std::memcpy(static_cast<void*>(&here), witness + wire * sizeof here, sizeof here);
      if (!here.is_zero()) sums[matrix] = sums[matrix] + value.from_plain() * here;  // plain
    });
    if (!is_whole) return malformed;
    if (found == count && !(sums[0] * sums[1] == sums[2].to_plain())) found = i;
  }
  return reader.position() == bytes ? found : malformed;
}

// out[i] = scale * x / (tau - x) for x = first * root^i; tau is no such x.
template <class F>
void lagrange(u64 count, const F& root, const F& first, const F& tau, const F& scale, F* out, u32 threads) {
  parallel_parts(count, 1 << 10, threads, [&](u64 begin, u64 end) {
    const u64 n = end - begin;
    std::vector<F> numerators(n), differences(n);
    F x = first * root.power([begin](u32) { return begin; }, 1);
    F product = F::one();
    for (u64 i = 0; i < n; ++i) {
      numerators[i] = scale * x;
      differences[i] = tau - x;
      out[begin + i] = product;
      product = product * differences[i];
      x = x * root;
    }
    F inverse = product.inverse();
    for (u64 i = n; i-- > 0;) {
      out[begin + i] = out[begin + i] * inverse * numerators[i];
      inverse = inverse * differences[i];
    }
  });
}

// Adds some constraints' terms, each times its constraint's weight, to the wires' sums, and writes the records of A and
// B as a proving key lists them, as long as `room` records fit. Tells how many constraints, bytes and records that
// were.
template <class F>
bool gather_terms(const u8* section, u64 bytes, u64 first, u64 count, u64 wires, const F* weights, F* const sums[3],
                  u8* records, u64 room, u64 done[3]) {
  TermReader<F> reader(section, bytes, wires);
  u64 constraints = 0, read = 0, written = 0;
  for (; constraints < count; ++constraints) {
    const u64 before = written;
    bool is_full = false;
    const auto measure = [&](u32 matrix, u32, const F&) { is_full = is_full || (matrix < 2 && ++written > room); };
    TermReader<F> ahead = reader;
    if (!ahead.next(measure)) return false;
    written = before;
    if (is_full) break;
    const u64 constraint = first + constraints;
    reader.next([&](u32 matrix, u32 wire, const F& plain) {
      const F value = plain.from_plain();
      sums[matrix][wire] = sums[matrix][wire] + value * weights[constraint];
      if (matrix == 2) return;
      const u32 place[3] = {matrix, static_cast<u32>(constraint), wire};
      const F stored = value.from_plain();  // times R once more
      u8* record = records + written++ * (sizeof place + sizeof stored);
      std::memcpy(record, place, sizeof place);
      std::memcpy(record + sizeof place, static_cast<const void*>(&stored), sizeof stored);
    });
    read = reader.position();
  }
  done[0] = constraints;
  done[1] = read;
  done[2] = written;
  return true;
}

// out[i] = scalar i times one base, the scalars in Montgomery form.
template <class F, class S>
void fixed_base(const Affine<F>& base, const S* scalars, u64 count, u8* out, u32 threads) {
  constexpr u32 bits = 8, windows = 8 * S::Params::bytes / bits, size = 1 << bits;
  std::vector<Affine<F>> table(windows * size);
  PairAdder<F> adder;
  std::vector<Pair<F>> pairs;
  Affine<F> top = base;
  for (u32 w = 0; w < windows; ++w) {
    Affine<F>* row = &table[w * size];
    row[0] = Affine<F>::infinity();
    row[1] = top;
    // Doubles what there is: row[2^k + i] = row[2^k] + row[i], after row[2^k] itself.
    for (u32 have = 2; have < size; have *= 2) {
      const Pair<F> doubled{&row[have / 2], &row[have / 2], &row[have]};
      adder.add(&doubled, 1);
      pairs.clear();
      for (u32 i = 1; i < have; ++i) pairs.push_back({&row[have], &row[i], &row[have + i]});
      adder.add(pairs.data(), pairs.size());
    }
    const Pair<F> next{&row[size - 1], &row[1], &top};
    adder.add(&next, 1);
  }
  parallel_parts(count, 1024, threads, [&](u64 begin, u64 end) {
    const u64 n = end - begin;
    std::vector<S> plain(n);
    std::vector<Affine<F>> sums(n, Affine<F>::infinity());
    std::vector<Pair<F>> own;
    PairAdder<F> adding;
    for (u64 i = 0; i < n; ++i) plain[i] = scalars[begin + i].to_plain();
    for (u32 w = 0; w < windows; ++w) {
      own.clear();
      for (u64 i = 0; i < n; ++i) {
        u8 digit;
        std::memcpy(&digit, reinterpret_cast<const u8*>(&plain[i]) + w, 1);
        if (digit != 0) own.push_back({&sums[i], &table[w * size + digit], &sums[i]});
      }
      adding.add(own.data(), own.size());
    }
    std::memcpy(out + begin * sizeof(Affine<F>), static_cast<const void*>(sums.data()), n * sizeof(Affine<F>));
  });
}

// The first point that does not lie on y^2 = x^3 + b; `count` where all do.
template <class F>
u64 first_off_curve(const u8* points, u64 count, const F& b, u32 threads) {
  std::atomic<u64> found{count};
  parallel_parts(count, 1 << 12, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) {
      Affine<F> point;
      std::memcpy(static_cast<void*>(&point), points + i * sizeof point, sizeof point);
      if (point.is_infinity() || point.y.square() == point.x.square() * point.x + b) continue;
      u64 least = found.load();
      while (i < least && !found.compare_exchange_weak(least, i)) {
      }
      return;
    }
  });
  return found.load();
}

}  // namespace provewire
