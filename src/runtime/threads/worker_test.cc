// One thread, one job after another; it ends with what has begun.

#include "runtime/threads/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace r2ccl {
namespace {

TEST(Worker, DoesJobsInTheirOrderOnAThreadOfItsOwn) {
  std::vector<int> done;
  std::thread::id where;
  std::latch last(1);
  Worker worker;
  for (int i = 0; i < 100; ++i) worker.run([&, i] { done.push_back(i); });
  worker.run([&] {
    where = std::this_thread::get_id();
    last.count_down();
  });
  last.wait();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(Worker, EndsAfterTheJobThatHasBegunAndDropsTheRest) {
  std::latch begun(1);
  std::latch ending(1);
  std::atomic<int> done = 0;
  const auto captured = std::make_shared<int>(0);
  {
    Worker worker;
    worker.run([&] {
      begun.count_down();
      ending.wait();
      ++done;
    });
    for (int i = 0; i < 10; ++i) worker.run([&done, captured] { ++done; });
    begun.wait();
    ending.count_down();  // the others may begin, too, before it ends
  }
  EXPECT_GE(done, 1);
  EXPECT_EQ(captured.use_count(), 1) << "what dropped jobs held is gone";
}

std::ptrdiff_t threads_here() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(Worker, WithoutWorkThereIsNoThread) {
  const std::ptrdiff_t before = threads_here();
  const Worker idle;
  EXPECT_EQ(threads_here(), before);
  Worker busy;
  busy.run([] {});
  EXPECT_GT(threads_here(), before);  // a thread sanitizer brings one of its own
}

TEST(Worker, AnyThreadMayGiveJobs) {
  std::atomic<int> done = 0;
  std::latch all(400);
  Worker worker;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        worker.run([&] {
          ++done;
          all.count_down();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.wait();
  EXPECT_EQ(done, 400);
}

}  // namespace
}  // namespace r2ccl
