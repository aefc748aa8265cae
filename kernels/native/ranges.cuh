// Whether numbers of a file are below a limit, before anybody uses them.
#pragma once

#include <cstring>

#include "native/parallel.cuh"

namespace provewire {

// The first of `count` little-endian numbers of `bytes` bytes, one every `stride` bytes, that is not below `limit`;
// `count` where all are. A number has four bytes at least.
inline u64 first_not_below(const u8* numbers, u64 count, u64 stride, u64 bytes, const u8* limit, u32 threads) {
  const auto highest = [bytes](const u8* number) {
    u32 word;
    std::memcpy(&word, number + bytes - sizeof word, sizeof word);
    return word;
  };
  const auto is_below = [bytes, limit](const u8* number) {
    for (u64 i = bytes; i-- > 0;) {
      if (number[i] != limit[i]) return number[i] < limit[i];
    }
    return false;
  };
  const u32 bound = highest(limit);
  std::atomic<u64> found{count};
  parallel_parts(count, 1 << 14, threads, [&](u64 begin, u64 end) {
    for (u64 i = begin; i < end; ++i) {
      const u8* number = numbers + i * stride;
      // Almost always decided here.
      if (__builtin_expect(highest(number) < bound, 1) || is_below(number)) continue;
      u64 least = found.load();
      while (i < least && !found.compare_exchange_weak(least, i)) {
      }
      return;
    }
  });
  return found.load();
}

}  // namespace provewire
