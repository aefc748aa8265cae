// Entries that know no curve.
#include "core/scan.cuh"
#include "msm/digits.cuh"

using namespace provewire;

extern "C" __global__ void scan_tiles(u32* values, u64 count, u32* totals, u64 per_thread) {
  RUN(ScanTiles{values, count, totals, per_thread});
}

extern "C" __global__ void scan_add(u32* values, u64 count, const u32* totals, u64 tile, u64 per_thread) {
  RUN(ScanAdd{values, count, totals, tile, per_thread});
}

extern "C" __global__ void bucket_count(const u32* digits, u64 count, u64 window_buckets, u32* counters, u64 per_thread,
                                        u64 slots) {
  RUN(BucketCount{{digits, count, window_buckets, counters, per_thread, slots}});
}

extern "C" __global__ void bucket_scatter(const u32* digits, u64 count, u64 window_buckets, u32* counters,
                                          u64 per_thread, u64 slots, u64 points, u64 stride, u32* sorted) {
  RUN(BucketScatter{{digits, count, window_buckets, counters, per_thread, slots}, points, stride, sorted});
}
