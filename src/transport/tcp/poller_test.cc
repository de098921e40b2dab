#include "transport/tcp/poller.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <thread>

namespace r2ccl {
namespace {

struct Counter final : ReadyHandler {
  void on_ready(std::uint32_t) override { ++told; }
  int told = 0;
};

struct ReadyPoller {
  ReadyPoller() {
    EXPECT_TRUE(poller.open());
    EXPECT_EQ(poller.add(fd.get(), EPOLLIN | EPOLLET, handler, token), 0);
    ring();
  }
  ~ReadyPoller() { poller.remove(fd.get(), token); }
  void ring() { EXPECT_EQ(::eventfd_write(fd.get(), 1), 0); }

  Fd fd{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  Counter handler;
  Poller poller;
  Poller::Token token = Poller::kNoToken;
};

TEST(Poller, OneDispatchIsSkippedAndTheNextTells) {
  ReadyPoller ready;
  ready.poller.skip_once();
  EXPECT_FALSE(ready.poller.dispatch());
  EXPECT_EQ(ready.handler.told, 0);
  EXPECT_TRUE(ready.poller.dispatch());
  EXPECT_EQ(ready.handler.told, 1);
}

TEST(Poller, WhoSkipsAgainAndAgainStillHears) {
  ReadyPoller ready;
  int dispatches = 0;
  for (; ready.handler.told == 0 && dispatches < 1000; ++dispatches) {
    ready.poller.skip_once();
    ready.poller.dispatch();
  }
  EXPECT_EQ(dispatches, Poller::kSkipsMost);
}

TEST(Poller, WhatPollFoundIsNotLostToASkip) {
  ReadyPoller ready;
  EXPECT_TRUE(ready.poller.poll());
  ready.poller.skip_once();
  EXPECT_TRUE(ready.poller.dispatch());
  EXPECT_EQ(ready.handler.told, 1);
}

TEST(Poller, NobodySleepsWhileAnAnswerIsLookedFor) {
  ReadyPoller ready;
  ready.poller.dispatch();
  EXPECT_FALSE(ready.poller.poll());
  ready.poller.skip_once();
  EXPECT_TRUE(ready.poller.poll());
  ready.poller.wait(Instant{}, kNever);  // returns
}

// From here on, for this thread, the kernel is one that has no epoll_pwait2, or a sandbox that says it must not be
// used.
bool refuse_epoll_pwait2(std::uint32_t error) {
  std::array<sock_filter, 4> steps{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = steps.size(), .filter = steps.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_epoll_pwait2, -1, nullptr, 0, nullptr, nullptr, 0) == -1 && errno == static_cast<int>(error);
}

// Each in a thread of its own, because a filter stays with its thread.
TEST(Poller, AnOldKernelSleepsInMillisecondsNeitherForeverNorNotAtAll) {
  using namespace std::chrono_literals;
  for (const int error : {ENOSYS, EPERM}) {
    bool refused = false;
    std::thread([&] {
      refused = refuse_epoll_pwait2(static_cast<std::uint32_t>(error));
      if (!refused) return;
      ReadyPoller ready;
      ready.poller.wait(Instant{}, kNever);  // returns, because something is ready
      EXPECT_TRUE(ready.poller.dispatch());
      const auto slept = [&ready](Duration longest) {
        const auto begin = std::chrono::steady_clock::now();
        ready.poller.wait(Instant{}, Instant{} + longest);
        return std::chrono::steady_clock::now() - begin;
      };
      EXPECT_GE(slept(10us), 10us);
      EXPECT_GE(slept(1500us), 1500us);
      ready.poller.wake();
      ready.poller.wait(Instant{}, kNever);
      EXPECT_FALSE(ready.poller.dispatch());  // it was the wake-up alone
    }).join();
    if (!refused) GTEST_SKIP() << "this kernel has no filters of system calls";
  }
}

}  // namespace
}  // namespace r2ccl
