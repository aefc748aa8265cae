// What a key's sections hold beside infinity: found and brought together on the host, before it goes to a device.
#include <cstring>

#include "core/platform.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

using provewire::u32;
using provewire::u64;
using provewire::u8;

// places = the points that are not all zero bytes; returns how many. `size` is a multiple of 8.
EXPORT u64 provewire_finite(const u8* points, u64 size, u64 count, u32* places) {
  u64 found = 0;
  for (u64 i = 0; i < count; ++i) {
    u64 any = 0;
    for (u64 at = 0; at < size && any == 0; at += 8) {
      u64 word;
      std::memcpy(&word, points + i * size + at, 8);  // sections lie at any address
      any |= word;
    }
    places[found] = static_cast<u32>(i);
    found += any != 0;
  }
  return found;
}

// out = the points at some places, one after the other.
EXPORT void provewire_gather(const u8* points, u64 size, const u32* places, u64 count, u8* out) {
  for (u64 i = 0; i < count; ++i) std::memcpy(out + i * size, points + places[i] * size, size);
}
