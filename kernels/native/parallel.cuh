// Loops shared out over CPU threads.
#pragma once

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "core/platform.cuh"

namespace provewire {

// Calls work(i) for i below count, on at most `threads` threads, this one included. Work is handed out in order, one
// item at a time; a machine that will not give another thread still gets it done, by those it gave.
template <class Work>
void parallel(u64 count, u32 threads, const Work& work) {
  std::atomic<u64> next{0};
  const auto loop = [&] {
    for (u64 i = next++; i < count; i = next++) work(i);
  };
  const u64 helpers = count < 2 || threads < 2 ? 0 : (count < threads ? count : threads) - 1;
  std::vector<std::thread> pool;
  pool.reserve(helpers);
  for (u64 i = 0; i < helpers; ++i) {
    try {
      pool.emplace_back(loop);
    } catch (const std::system_error&) {
      break;
    }
  }
  loop();
  for (std::thread& helper : pool) helper.join();
}

// As parallel, and each thread has a State of its own: calls work(state, i).
template <class State, class Work>
void parallel_with(u64 count, u32 threads, const Work& work) {
  std::atomic<u64> next{0};
  const u64 loops = count < threads ? count : threads;
  parallel(loops, threads, [&](u64) {
    State state;
    for (u64 i = next++; i < count; i = next++) work(state, i);
  });
}

// Calls work(begin, end) for consecutive parts of 0 to count, each of `grain` items but the last.
template <class Work>
void parallel_parts(u64 count, u64 grain, u32 threads, const Work& work) {
  parallel((count + grain - 1) / grain, threads, [&](u64 part) {
    const u64 begin = part * grain;
    work(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace provewire
