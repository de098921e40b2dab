#include "bindings/nccl/background.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace r2ccl::bindings {
namespace {

constexpr std::chrono::seconds kExitWait{2};

struct Works {
  std::mutex mutex;
  std::condition_variable ended;
  int running = 0;
};

// Kept until exit: its threads may outlive static objects.
Works& works() {
  static auto* const kWorks = [] {
    auto* made = new Works;
    std::atexit([] {
      std::unique_lock lock(works().mutex);
      works().ended.wait_for(lock, kExitWait, [] { return works().running == 0; });
    });
    return made;
  }();
  return *kWorks;
}

}  // namespace

void in_background(std::function<void()> work) {
  {
    const std::lock_guard lock(works().mutex);
    ++works().running;
  }
  std::thread([work = std::move(work)] {
    work();
    const std::lock_guard lock(works().mutex);
    --works().running;
    works().ended.notify_all();
  }).detach();
}

}  // namespace r2ccl::bindings
