// What NCCL must survive, or must be told: NICs that fail under traffic, ends that close early, processes that die.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/plugin/processes.h"

namespace r2ccl::plugin {
namespace {

using Buffer = std::vector<std::uint8_t>;

// A stream of messages for so long, 8 under way, every one checked. The last one is empty.
constexpr std::size_t kWindow = 8;

Part sends_for(Duration time, std::size_t bytes) {
  return [=](Net& net, Line& line) {
    void* const sender = open_sender(net, line);
    std::vector<Buffer> data(kWindow, Buffer(bytes));
    std::array<void*, kWindow> requests{};
    const Instant until = now() + time;
    std::uint64_t sent = 0;
    for (; now() < until; ++sent) {
      const std::size_t at = sent % kWindow;
      if (requests[at] != nullptr) expect_ok(finish(net, requests[at]), "send");
      fill_pattern(data[at], sent);
      requests[at] = must_send(net, sender, data[at].data(), bytes);
    }
    for (void* request : requests) {
      if (request != nullptr) expect_ok(finish(net, request), "send");
    }
    expect_ok(finish(net, must_send(net, sender, nullptr, 0)), "send");
    line.meet();
    expect_ok(net.close_send(sender), "close_send");
  };
}

Part receives_until_empty(std::size_t bytes) {
  return [=](Net& net, Line& line) {
    void* const receiver = open_receiver(net, line);
    std::vector<Buffer> data(kWindow, Buffer(bytes));
    std::array<void*, kWindow> requests{};
    for (std::size_t i = 0; i < kWindow; ++i) requests[i] = must_receive(net, receiver, {{data[i].data(), bytes, 0}});
    for (std::uint64_t got = 0;; ++got) {
      const std::size_t at = got % kWindow;
      int size = -1;
      expect_ok(finish(net, requests[at], &size), "receive");
      if (size == 0) break;
      expect(size == static_cast<int>(bytes) && has_pattern(data[at].data(), bytes, got), "other bytes arrived");
      requests[at] = must_receive(net, receiver, {{data[at].data(), bytes, 0}});
    }
    line.meet();
    expect_ok(net.close_receive(receiver), "close_receive");  // with receives under way
  };
}

bool log_has(const std::string& a, const std::string& b) {
  return std::ranges::any_of(logged(), [&](const std::string& line) {
    return line.find(a) != std::string::npos && line.find(b) != std::string::npos;
  });
}

class Faults : public testing::TestWithParam<const char*> {};

TEST_P(Faults, AreNotSeenByMessages) {
  const Environment fault = {{"R2CCL_FAULT", GetParam()}};
  for (const std::size_t bytes : {std::size_t{3000}, std::size_t{700'000}}) {
    EXPECT_EQ(run_pair({.nics = 3, .both = fault}, sends_for(700ms, bytes), receives_until_empty(bytes)), "") << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         testing::Values("at=150ms server=0 nic=1 kind=reset", "at=150ms server=0 nic=0 kind=down",
                                         "at=150ms server=1 nic=1 kind=cable for=100ms",
                                         "at=150ms server=1 nic=2 kind=blackhole",
                                         "at=150ms server=0 nic=1 kind=down;at=300ms server=1 nic=0 kind=down"));

TEST(NetPluginTrouble, TheFailureLineNamesNicServerAndCause) {
  const Environment fault = {{"R2CCL_FAULT", "at=100ms server=0 nic=1 kind=down"}};
  const Part sends = sends_for(600ms, 400'000);
  const auto sends_and_looks = [&](Net& net, Line& line) {
    sends(net, line);
    expect(log_has("WARN", "NIC 127.21.0.1 (server 0)"), "the failure line is missing");
    expect(log_has("NET/R2CCL : Path down: NIC 127.21.0.1 of", "bytes resent on other paths; repaired in"),
           "bytes and time are missing");
  };
  EXPECT_EQ(run_pair({.nics = 3, .both = fault}, sends_and_looks, receives_until_empty(400'000)), "");
}

// Both for messages that came before their receive and for later ones.
TEST(NetPluginTrouble, AMessageLongerThanItsReceiveIsInvalidUsage) {
  for (const bool early : {true, false}) {
    const std::string why = run_pair(
        {},
        [&](Net& net, Line& line) {
          void* const sender = open_sender(net, line);
          Buffer data(1000);
          if (!early) line.meet();
          must_send(net, sender, data.data(), data.size(), 1);
          if (early) expect_ok(finish(net, must_send(net, sender, data.data(), data.size(), 2)), "send");
          line.meet();
          expect_ok(net.close_send(sender), "close_send");
        },
        [&](Net& net, Line& line) {
          void* const receiver = open_receiver(net, line);
          Buffer data(1000);
          if (early) expect_ok(finish(net, must_receive(net, receiver, {{data.data(), 1000, 2}})), "receive");
          void* const request = must_receive(net, receiver, {{data.data(), 999, 1}});
          if (!early) line.meet();
          expect(finish(net, request) == nccl::kInvalidUsage, "it is too long");
          line.meet();
          expect_ok(net.close_receive(receiver), "close_receive");
        });
    EXPECT_EQ(why, "") << early;
  }
}

// ---- the end of a connection --------------------------------------------------------------------------------------

TEST(NetPluginTrouble, WhatWasSentBeforeCloseArrives) {
  constexpr int kCount = 30;
  const std::string why = run_pair(
      {},
      [](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        Buffer data(1000);
        fill_pattern(data, 9);
        for (int i = 0; i < kCount; ++i)
          expect_ok(finish(net, must_send(net, sender, data.data(), data.size())), "send");
        expect_ok(net.close_send(sender), "close_send");
        line.meet();
        line.meet();
      },
      [](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        line.meet();
        Buffer data(1000);
        for (int i = 0; i < kCount; ++i) {
          expect_ok(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})), "receive");
          expect(has_pattern(data.data(), data.size(), 9), "other bytes arrived");
        }
        expect(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})) == nccl::kRemoteError,
               "what never comes is a remote error");
        expect_ok(net.close_receive(receiver), "close_receive");
        line.meet();
      });
  EXPECT_EQ(why, "");
}

// Versions without finalize: nothing is closed, the program just ends.
TEST(NetPluginTrouble, WhatWasSentBeforeTheProgramEndsArrives) {
  const std::string why = run_pair(
      {.version = 8},
      [](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        Buffer data(20'000);
        fill_pattern(data, 4);
        for (int i = 0; i < 20; ++i) expect_ok(finish(net, must_send(net, sender, data.data(), data.size())), "send");
      },
      [](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        Buffer data(20'000);
        for (int i = 0; i < 20; ++i) {
          expect_ok(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})), "receive");
          expect(has_pattern(data.data(), data.size(), 4), "other bytes arrived");
        }
      });
  EXPECT_EQ(why, "");
}

// NCCL's threads go on while the program ends.
TEST(NetPluginTrouble, AProgramMayEndWhileThreadsPoll) {
  const auto part = [](bool first) {
    return [first](Net& net, Line& line) {
      void* const connection = first ? open_sender(net, line) : open_receiver(net, line);
      Buffer& data = *new Buffer(100'000);  // for longer than the program
      std::thread([&net, &data, connection, first] {
        for (;;) {
          void* request = nullptr;
          int done = 0;
          if (first) net.send(connection, data.data(), data.size(), 0, &request);
          if (!first) net.receive(connection, {{data.data(), data.size(), 0}}, &request);
          while (request != nullptr && done == 0 && net.test(request, &done, nullptr) == nccl::kSuccess) {
          }
        }
      }).detach();
      line.meet();
      std::exit(0);
    };
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run_pair({.version = 10}, part(true), part(false)), "");
}

TEST(NetPluginTrouble, AReceiverThatClosesEarlyIsARemoteError) {
  const std::string why = run_pair(
      {},
      [](Net& net, Line& line) {
        for (int round = 0; round < 3; ++round) {
          void* const sender = open_sender(net, line);
          Buffer data(3'000'000);
          void* const pending = must_send(net, sender, data.data(), data.size());
          if (round > 0) line.meet();  // the other end has a receive under way; in round 1 it closes now
          if (round != 2) expect(finish(net, pending) == nccl::kRemoteError, "the send must fail");
          expect_ok(net.close_send(sender), "close_send");  // in the last round with the send under way
          line.meet();
        }
      },
      [](Net& net, Line& line) {
        for (int round = 0; round < 3; ++round) {
          void* const receiver = open_receiver(net, line);
          Buffer small(1'000'000);
          if (round == 1) {
            must_receive(net, receiver, {{small.data(), small.size(), 7}});  // of a tag nobody sends
            line.meet();
          }
          if (round == 2) {
            void* const waits = must_receive(net, receiver, {{small.data(), small.size(), 7}});
            line.meet();  // before that there might be nobody left to accept
            expect(finish(net, waits) == nccl::kRemoteError, "the receive must fail");
          }
          expect_ok(net.close_receive(receiver), "close_receive");
          line.meet();
        }
      });
  EXPECT_EQ(why, "");
}

TEST(NetPluginTrouble, AMessageThatDoesNotFitIsMisuseAtBothEnds) {
  const std::string why = run_pair(
      {},
      [](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        Buffer data(700'000);
        expect(finish(net, must_send(net, sender, data.data(), data.size())) == nccl::kInvalidUsage, "sender");
        line.meet();
        expect_ok(net.close_send(sender), "close_send");
      },
      [](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        Buffer data(600'000);
        expect(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})) == nccl::kInvalidUsage,
               "receiver");
        line.meet();
        expect_ok(net.close_receive(receiver), "close_receive");
      });
  EXPECT_EQ(why, "");
}

TEST(NetPluginTrouble, AHandleOfSomebodyElseIsRefused) {
  const auto part = [](Net& net, Line& line) {
    Net::Handle handle{};
    void* sender = &net;
    expect(net.connect(handle, &sender) == nccl::kInvalidUsage, "zeros are no handle");
    void* listener = nullptr;
    expect_ok(net.listen(handle, &listener), "listen");
    handle[20] ^= std::byte{1};
    expect(net.connect(handle, &sender) == nccl::kInvalidUsage, "a damaged handle is none");
    expect_ok(net.close_listen(listener), "close_listen");
    line.meet();
  };
  EXPECT_EQ(run_pair({}, part, part), "");
}

// Whatever is left when an end closes, in whatever order: nothing hangs, nothing crashes, and later connections work.
constexpr unsigned kRandomRounds = 60;

bool ok_or_remote(nccl::NetResult result, const std::string& what) {
  if (result != nccl::kRemoteError) expect_ok(result, what);
  return result == nccl::kSuccess;
}

void test_some(Net& net, void* request, unsigned times) {
  int done = 0;
  for (unsigned i = 0; i < times && done == 0 && request != nullptr; ++i) {
    if (!ok_or_remote(net.test(request, &done, nullptr), "test")) return;
  }
}

void sends_at_random(Net& net, Line& line) {
  std::mt19937 random(11);
  for (unsigned round = 0; round < kRandomRounds; ++round) {
    auto handle = line.get<Net::Handle>();
    void* sender = nullptr;
    while (sender == nullptr && ok_or_remote(net.connect(handle, &sender), "connect")) std::this_thread::yield();
    if (sender == nullptr) continue;  // the other end has closed before we knew that it is there
    Buffer data(random() % 2 == 0 ? random() % 5000 : random() % 2'000'000);
    std::vector<void*> requests(random() % 6);
    for (void*& request : requests) ok_or_remote(net.send(sender, data.data(), data.size(), 0, &request), "isend");
    if (!requests.empty()) test_some(net, requests.front(), random() % 50);
    expect_ok(net.close_send(sender), "close_send");
  }
  Buffer data(100'000);
  fill_pattern(data, 1);
  void* const sender = open_sender(net, line);
  expect_ok(finish(net, must_send(net, sender, data.data(), data.size())), "send");
  expect_ok(net.close_send(sender), "close_send");
}

void receives_at_random(Net& net, Line& line) {
  std::mt19937 random(12);
  for (unsigned round = 0; round < kRandomRounds; ++round) {
    Net::Handle handle{};
    void *listener = nullptr, *receiver = nullptr;
    expect_ok(net.listen(handle, &listener), "listen");
    line.put(handle);
    while (receiver == nullptr && ok_or_remote(net.accept(listener, &receiver), "accept")) std::this_thread::yield();
    expect_ok(net.close_listen(listener), "close_listen");
    if (receiver == nullptr) continue;
    Buffer data(2'000'000);
    std::vector<void*> requests(random() % 6);
    for (void*& request : requests)
      ok_or_remote(net.receive(receiver, {{data.data(), data.size(), 0}}, &request), "irecv");
    if (!requests.empty()) test_some(net, requests.front(), random() % 50);
    expect_ok(net.close_receive(receiver), "close_receive");
  }
  Buffer data(100'000);
  void* const receiver = open_receiver(net, line);
  expect_ok(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})), "receive");
  expect(has_pattern(data.data(), data.size(), 1), "other bytes arrived");
  expect_ok(net.close_receive(receiver), "close_receive");
}

TEST(NetPluginTrouble, ConnectionsMayCloseAtAnyMoment) {
  EXPECT_EQ(run_pair({}, sends_at_random, receives_at_random), "");
}

// ---- death --------------------------------------------------------------------------------------------------------

constexpr Duration kDeathMax = 3s;

TEST(NetPluginTrouble, ADeadProcessIsARemoteErrorForItsSendersAndReceivers) {
  const std::string why = run_pair(
      {.second_is_killed = true},
      [](Net& net, Line& line) {
        for (int i = 0; i < 4; ++i) {  // the two processes have met before
          expect_ok(net.close_send(open_sender(net, line)), "close_send");
          expect_ok(net.close_receive(open_receiver(net, line)), "close_receive");
        }
        void* const sender = open_sender(net, line);
        void* const receiver = open_receiver(net, line);
        Buffer out(5'000'000), in(1000);
        void* const sends = must_send(net, sender, out.data(), out.size());
        void* const receives = must_receive(net, receiver, {{in.data(), in.size(), 0}});
        line.meet();
        const Instant start = now();
        expect(finish(net, sends) == nccl::kRemoteError, "the send must fail");
        expect(finish(net, receives) == nccl::kRemoteError, "the receive must fail");
        expect(now() - start < kDeathMax, "that took " + std::to_string(to_seconds(now() - start)) + " s");
        void* request = nullptr;
        expect(net.send(sender, out.data(), 1, 0, &request) == nccl::kRemoteError, "and it stays so");
        expect_ok(net.close_send(sender), "close_send");
        expect_ok(net.close_receive(receiver), "close_receive");
      },
      [](Net& net, Line& line) {
        for (int i = 0; i < 5; ++i) open_receiver(net, line), open_sender(net, line);
        line.meet();
        ::kill(::getpid(), SIGKILL);
      });
  EXPECT_EQ(why, "");
}

TEST(NetPluginTrouble, WithoutAnyNicOurEndIsToBlameAndTheOtherIsNot) {
  const Environment fault = {{"R2CCL_FAULT", "at=200ms server=0 nic=0 kind=down;at=200ms server=0 nic=1 kind=down"},
                             {"R2CCL_PEER_TIMEOUT", "1s"}};
  const std::string why = run_pair(
      {.both = fault},
      [](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        Buffer data(1000);
        expect(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})) == nccl::kSystemError,
               "our NICs are down");
        line.meet();
        expect_ok(net.close_receive(receiver), "close_receive");
      },
      [](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        Buffer data(1'000'000);
        nccl::NetResult result = nccl::kSuccess;
        // Without a receive for it the send waits until the peer is given up.
        result = finish(net, must_send(net, sender, data.data(), data.size(), 5));
        expect(result == nccl::kRemoteError, "the other end is gone");
        line.meet();
        expect_ok(net.close_send(sender), "close_send");
      });
  EXPECT_EQ(why, "");
}

}  // namespace
}  // namespace r2ccl::plugin
