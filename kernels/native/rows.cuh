// The matrices' rows times the witness, straight from the key's records.
#pragma once

#include <algorithm>
#include <cstring>

#include "field/mont.cuh"
#include "native/parallel.cuh"

namespace provewire {

// a, b, c = A w, B w and their products, row by row. Records of snarkjs are sorted by constraint, so that threads can
// take parts of them; records in any other order one thread takes alone.
template <class F>
void evaluate_rows(const u8* records, u64 count, u64 domain, u64 signals, const u8* witness, F* a, F* b, F* c,
                   u32 threads) {
  constexpr u64 record_bytes = 12 + F::Params::bytes;
  const auto constraint_of = [&](u64 i) {
    u32 constraint;
    std::memcpy(&constraint, records + i * record_bytes + 4, sizeof constraint);
    return constraint;
  };
  std::atomic<bool> is_sorted{true};
  parallel_parts(count, 1 << 16, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin + (begin == 0); i < end; ++i) {
      if (constraint_of(i) < constraint_of(i - 1)) is_sorted.store(false);
    }
  });
  std::memset(static_cast<void*>(a), 0, domain * sizeof(F));
  std::memset(static_cast<void*>(b), 0, domain * sizeof(F));
  const u64 parts = is_sorted.load() ? 8 * u64{threads} : 1;
  // A part begins where a constraint does.
  const auto boundary = [&](u64 part) {
    u64 i = count * part / parts;
    if (part == parts) return count;
    while (i > 0 && i < count && constraint_of(i) == constraint_of(i - 1)) ++i;
    return i;
  };
  parallel(parts, threads, [&](u64 part) {
    const u64 end = boundary(part + 1);
    for (u64 i = boundary(part); i < end; ++i) {
      u32 place[3];
      std::memcpy(place, records + i * record_bytes, sizeof place);
      // The reader has checked this; a file that changed since then must still not make anybody write elsewhere.
      if (place[0] > 1 || place[1] >= domain || place[2] >= signals) continue;
      F wire, value;
      std::memcpy(static_cast<void*>(&wire), witness + place[2] * sizeof wire, sizeof wire);
      if (wire.is_zero()) continue;
      std::memcpy(static_cast<void*>(&value), records + i * record_bytes + 12, sizeof value);
      F& sum = (place[0] == 0 ? a : b)[place[1]];
      // The key keeps values times R^2 and the witness is plain: the product is in Montgomery form.
      sum = sum + value * wire;
    }
  });
  parallel_parts(domain, 1 << 13, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) c[i] = a[i] * b[i];
  });
}

}  // namespace provewire
