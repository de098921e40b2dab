#include "sim/side_by_side.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace r2ccl::sim {

Status side_by_side(std::uint64_t count, unsigned threads, const std::function<NumberedTask()>& make_worker,
                    const std::function<void(std::uint64_t done)>& progress) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // of the two below
  std::optional<Error> error;
  std::uint64_t failed = count;
  const auto work = [&](bool report) {
    const NumberedTask worker = make_worker();
    for (std::uint64_t i = next++; i < count && !stop; i = next++) {
      if (const Status status = worker(i); !status) {
        stop = true;
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = status.error();
        }
        return;
      }
      ++done;
      if (report && progress) progress(done);
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, false);
    work(true);
  }
  if (error) return std::unexpected(*error);
  return {};
}

}  // namespace r2ccl::sim
