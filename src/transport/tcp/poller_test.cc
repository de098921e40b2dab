#include "transport/tcp/poller.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

}  // namespace
}  // namespace r2ccl
