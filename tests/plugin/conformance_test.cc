// Plays NCCL's part against the built library, between two processes on loopback NICs, for every interface version.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/plugin/processes.h"

namespace r2ccl::plugin {
namespace {

using Buffer = std::vector<std::uint8_t>;

// One message after the other, each checked.
Part sends_all(std::vector<std::size_t> sizes) {
  return [sizes](Net& net, Line& line) {
    void* const sender = open_sender(net, line);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Buffer data(sizes[i]);
      fill_pattern(data, i);
      int size = -1;
      expect_ok(finish(net, must_send(net, sender, data.data(), sizes[i]), &size), "test");
      expect(size == static_cast<int>(sizes[i]), "the sender is told another size");
    }
    line.meet();
    expect_ok(net.close_send(sender), "close_send");
  };
}
Part receives_all(std::vector<std::size_t> sizes, std::size_t room) {
  return [sizes, room](Net& net, Line& line) {
    void* const receiver = open_receiver(net, line);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Buffer data(sizes[i] + room, 0xee);
      int size = -1;
      expect_ok(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}}), &size), "test");
      expect(size == static_cast<int>(sizes[i]), "message " + std::to_string(i) + " has another size");
      expect(has_pattern(data.data(), sizes[i], i), "message " + std::to_string(i) + " has other bytes");
      expect(std::all_of(data.begin() + size, data.end(), [](std::uint8_t byte) { return byte == 0xee; }),
             "bytes behind the message were written");
      void* flushed = &net;
      expect_ok(net.flush(receiver, data.data(), size, &flushed), "iflush");
      expect(flushed == nullptr, "a flush of host memory is over at once");
    }
    line.meet();
    expect_ok(net.close_receive(receiver), "close_receive");
  };
}

class EveryVersion : public testing::TestWithParam<int> {};

TEST_P(EveryVersion, MessagesOfAllSizesArrive) {
  const std::vector<std::size_t> sizes = {0, 1, 7, 8, 4097, 32768, 32769, 65536, (1 << 20) + 3, 16 << 20, 0, 5};
  EXPECT_EQ(run_pair({.version = GetParam()}, sends_all(sizes), receives_all(sizes, 100)), "");
}

// No receive is posted before everything was sent: a short send is over when it is copied, a longer one when it waits
// at the other end.
TEST_P(EveryVersion, WhatIsSentMayBeOverwrittenBeforeAnyReceive) {
  const std::vector<std::size_t> sizes = {8, 0, 32 << 10, 100'000, 128 << 10, (128 << 10) + 1, 300'000, 512 << 10, 1};
  constexpr int kRounds = 3;
  const std::string why = run_pair(
      {.version = GetParam()},
      [&](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        for (std::size_t i = 0; i < kRounds * sizes.size(); ++i) {
          Buffer data(sizes[i % sizes.size()]);
          fill_pattern(data, i);
          expect_ok(finish(net, must_send(net, sender, data.data(), data.size())), "send");
          std::ranges::fill(data, 0);
        }
        line.meet();
        line.meet();
        expect_ok(net.close_send(sender), "close_send");
      },
      [&](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        line.meet();
        for (std::size_t i = 0; i < kRounds * sizes.size(); ++i) {
          Buffer data(sizes[i % sizes.size()]);
          expect_ok(finish(net, must_receive(net, receiver, {{data.data(), data.size(), 0}})), "receive");
          expect(has_pattern(data.data(), data.size(), i), "message " + std::to_string(i) + " has other bytes");
        }
        line.meet();
        expect_ok(net.close_receive(receiver), "close_receive");
      });
  EXPECT_EQ(why, "");
}

// Sends much more than may wait at the other end: the grant comes back as NCCL takes messages. These are too long for
// the sender to copy.
TEST(NetPlugin, WhatWaitedAtTheOtherEndMakesRoom) {
  constexpr std::size_t kBytes = 400'000;
  constexpr int kRounds = 15, kEach = 4;
  const std::string why = run_pair(
      {},
      [&](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        Buffer data(kBytes);
        for (int round = 0; round < kRounds; ++round) {
          for (int i = 0; i < kEach; ++i)
            expect_ok(finish(net, must_send(net, sender, data.data(), kBytes)), "send " + std::to_string(round));
          line.meet();
          line.meet();
        }
        expect_ok(net.close_send(sender), "close_send");
      },
      [&](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        Buffer data(kBytes);
        for (int round = 0; round < kRounds; ++round) {
          line.meet();
          for (int i = 0; i < kEach; ++i)
            expect_ok(finish(net, must_receive(net, receiver, {{data.data(), kBytes, 0}})), "receive");
          line.meet();
        }
        expect_ok(net.close_receive(receiver), "close_receive");
      });
  EXPECT_EQ(why, "");
}

TEST_P(EveryVersion, RequestsAreTestedInAnyOrder) {
  constexpr int kCount = nccl::kRequestsMax;
  constexpr std::size_t kBytes = 40'001;
  const auto shuffled = [](unsigned seed) {
    std::vector<int> order(kCount);
    for (int i = 0; i < kCount; ++i) order[static_cast<std::size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
  };
  const std::string why = run_pair(
      {.version = GetParam()},
      [&](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        std::vector<Buffer> data(kCount, Buffer(kBytes));
        std::vector<void*> requests;
        for (int i = 0; i < kCount; ++i) {
          fill_pattern(data[static_cast<std::size_t>(i)], static_cast<std::uint64_t>(i));
          requests.push_back(must_send(net, sender, data[static_cast<std::size_t>(i)].data(), kBytes));
        }
        for (const int i : shuffled(1)) expect_ok(finish(net, requests[static_cast<std::size_t>(i)]), "send");
        line.meet();
        expect_ok(net.close_send(sender), "close_send");
      },
      [&](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        std::vector<Buffer> data(kCount, Buffer(kBytes));
        std::vector<void*> requests;
        for (Buffer& one : data) requests.push_back(must_receive(net, receiver, {{one.data(), kBytes, 0}}));
        void* none = &net;
        expect_ok(net.receive(receiver, {{data[0].data(), kBytes, 0}}, &none), "irecv");
        expect(none == nullptr, "more requests than NCCL may have");
        for (const int i : shuffled(2)) {
          expect_ok(finish(net, requests[static_cast<std::size_t>(i)]), "receive");
          expect(has_pattern(data[static_cast<std::size_t>(i)].data(), kBytes, static_cast<std::uint64_t>(i)),
                 "message " + std::to_string(i) + " has other bytes");
        }
        line.meet();
        expect_ok(net.close_receive(receiver), "close_receive");
      });
  EXPECT_EQ(why, "");
}

TEST_P(EveryVersion, GroupedReceivesTakeTheSendsOfTheirTags) {
  constexpr int kGroups = 20, kTags = 8;
  constexpr std::size_t kRoom = 100'000;
  const auto bytes_of = [](int group, int tag) {
    return static_cast<std::size_t>((group * 7919 + tag * 104729) % (tag % 2 == 0 ? 500 : 100'000));
  };
  const auto seed_of = [](int group, int tag) { return static_cast<std::uint64_t>(group * 100 + tag); };
  const std::string why = run_pair(
      {.version = GetParam()},
      [&](Net& net, Line& line) {
        void* const sender = open_sender(net, line);
        std::mt19937 random(3);
        for (int group = 0; group < kGroups; ++group) {
          std::vector<int> tags(kTags);
          for (int i = 0; i < kTags; ++i) tags[static_cast<std::size_t>(i)] = i;
          std::shuffle(tags.begin(), tags.end(), random);
          std::vector<Buffer> data(kTags);
          std::vector<void*> requests;
          for (const int tag : tags) {
            Buffer& one = data[static_cast<std::size_t>(tag)];
            one.resize(bytes_of(group, tag));
            fill_pattern(one, seed_of(group, tag));
            requests.push_back(must_send(net, sender, one.data(), one.size(), tag + 1000));
          }
          for (void* request : requests) expect_ok(finish(net, request), "send");
        }
        line.meet();
        expect_ok(net.close_send(sender), "close_send");
      },
      [&](Net& net, Line& line) {
        void* const receiver = open_receiver(net, line);
        std::vector<std::vector<Buffer>> data(kGroups, std::vector<Buffer>(kTags, Buffer(kRoom)));
        std::vector<void*> requests;
        for (auto& group : data) {
          std::vector<Received> parts;
          for (int tag = 0; tag < kTags; ++tag)
            parts.push_back({group[static_cast<std::size_t>(tag)].data(), kRoom, tag + 1000});
          requests.push_back(must_receive(net, receiver, parts));
        }
        for (int group = 0; group < kGroups; ++group) {
          std::array<int, kTags> sizes{};
          expect_ok(finish(net, requests[static_cast<std::size_t>(group)], sizes.data()), "receive");
          for (int tag = 0; tag < kTags; ++tag) {
            const auto at = static_cast<std::size_t>(tag);
            expect(sizes[at] == static_cast<int>(bytes_of(group, tag)), "a part has another size");
            expect(has_pattern(data[static_cast<std::size_t>(group)][at].data(), bytes_of(group, tag),
                               seed_of(group, tag)),
                   "a part has other bytes");
          }
        }
        line.meet();
        expect_ok(net.close_receive(receiver), "close_receive");
      });
  EXPECT_EQ(why, "");
}

TEST_P(EveryVersion, ProfilersSeeEveryTransferBeginAndEnd) {
  const std::vector<std::size_t> sizes = {0, 100, 100'000};
  const bool offered = GetParam() >= 10;
  const auto looks = [offered](const Part& part, std::size_t sent, std::size_t received) {
    return [=](Net& net, Line& line) {
      part(net, line);
      const Profiled seen = profiled();
      expect(seen.started == (offered ? 3 : 0) && seen.stopped == seen.started, "events are missing");
      expect(seen.sent_bytes == (offered ? sent : 0) && seen.received_bytes == (offered ? received : 0), "other sizes");
    };
  };
  EXPECT_EQ(run_pair({.version = GetParam()}, looks(sends_all(sizes), 100'100, 0),
                     looks(receives_all(sizes, 10), 0, 100'130)),
            "");
}

TEST_P(EveryVersion, DevicesArePooledOrOnePerNic) {
  const auto check = [](int count, int speed) {
    return [count, speed](Net& net, Line& line) {
      expect(net.devices() == count, "there are " + std::to_string(net.devices()) + " devices");
      const nccl::PropertiesV12 one = net.properties(count - 1);
      expect(one.speed_mbit_s == speed, "the speed is " + std::to_string(one.speed_mbit_s));
      expect(one.pointer_support == nccl::kPointerHost, "only host memory is supported");
      expect(one.receives_max == 8 && one.comms_max > 1000 && one.name != nullptr, "the properties are others");
      line.meet();
    };
  };
  EXPECT_EQ(run_pair({.version = GetParam(), .nics = 3}, check(1, 30'000), check(1, 30'000)), "");
  const Environment per_nic = {{"R2CCL_NET_DEVICES", "per-nic"}};
  EXPECT_EQ(run_pair({.version = GetParam(), .nics = 3, .both = per_nic}, check(3, 10'000), check(3, 10'000)), "");
}

INSTANTIATE_TEST_SUITE_P(Versions, EveryVersion, testing::Range(Net::kOldest, Net::kNewest + 1));

TEST(NetPlugin, MessagesMayBeVeryLong) {
  if (std::getenv("LONG_TESTS") == nullptr) GTEST_SKIP() << "LONG_TESTS is not set";
  const std::vector<std::size_t> sizes = {std::size_t{1} << 30};
  EXPECT_EQ(run_pair({}, sends_all(sizes), receives_all(sizes, 0)), "");
}

// As large as receives of NCCL's protocol LL: credit for those may wait.
TEST(NetPlugin, SmallMessagesNeedNoReceive) {
  constexpr std::size_t kBytes = std::size_t{64} << 10;
  const auto first = [](Net& net, Line& line) {
    void* const sender = open_sender(net, line);
    Buffer out(kBytes);
    fill_pattern(out, 1);
    expect_ok(finish(net, must_send(net, sender, out.data(), out.size())), "send");
    line.meet();
    line.meet();
    expect_ok(net.close_send(sender), "close_send");
  };
  const auto second = [](Net& net, Line& line) {
    void* const receiver = open_receiver(net, line);
    line.meet();  // it is sent
    Buffer in(kBytes);
    expect_ok(finish(net, must_receive(net, receiver, {{in.data(), in.size(), 0}})), "receive");
    expect(has_pattern(in.data(), in.size(), 1), "other bytes arrived");
    line.meet();
    expect_ok(net.close_receive(receiver), "close_receive");
  };
  EXPECT_EQ(run_pair({}, first, second), "");
}

TEST(NetPlugin, OnlyHostMemoryIsRegistered) {
  const auto part = [](Net& net, Line& line) {
    Buffer data(10);
    void* memory = nullptr;
    expect_ok(net.reg(nullptr, data.data(), data.size(), nccl::kPointerHost, &memory), "regMr");
    expect(net.reg(nullptr, data.data(), data.size(), nccl::kPointerCuda, &memory) == nccl::kInvalidUsage,
           "device memory is refused");
    line.meet();
  };
  EXPECT_EQ(run_pair({}, part, part), "");
}

TEST(NetPlugin, AProcessMayTalkToItself) {
  const auto part = [](Net& net, Line& line) {
    Net::Handle handle{};
    void *listener = nullptr, *sender = nullptr, *receiver = nullptr;
    expect_ok(net.listen(handle, &listener), "listen");
    for (const Instant until = now() + 10s; (sender == nullptr || receiver == nullptr) && now() < until;) {
      if (sender == nullptr) expect_ok(net.connect(handle, &sender), "connect");
      if (receiver == nullptr) expect_ok(net.accept(listener, &receiver), "accept");
    }
    expect(sender != nullptr && receiver != nullptr, "no connection");
    expect_ok(net.close_listen(listener), "close_listen");
    Buffer out(300'000), in(300'000);
    fill_pattern(out, 5);
    void* const receives = must_receive(net, receiver, {{in.data(), in.size(), 0}});
    void* const sends = must_send(net, sender, out.data(), out.size());
    int sent = 0, received = 0;
    while (sent == 0 || received == 0) {
      if (sent == 0) expect_ok(net.test(sends, &sent, nullptr), "send");
      if (received == 0) expect_ok(net.test(receives, &received, nullptr), "receive");
    }
    expect(in == out, "other bytes arrived");
    expect_ok(net.close_send(sender), "close_send");
    expect_ok(net.close_receive(receiver), "close_receive");
    line.meet();
  };
  EXPECT_EQ(run_pair({}, part, part), "");
}

// Many connections, all busy at once, both ways; then all of it once more after finalize() and init().
TEST(NetPlugin, ManyConnectionsWorkAndComeBack) {
  constexpr int kConnections = 64;
  const auto part = [](bool first) {
    return [first](Net& net, Line& line) {
      for (int round = 0; round < 2; ++round) {
        std::vector<void*> sends, receives, senders, receivers;
        for (int i = 0; i < kConnections; ++i) {
          if (i % 2 == (first ? 0 : 1))
            senders.push_back(open_sender(net, line));
          else
            receivers.push_back(open_receiver(net, line));
        }
        std::vector<Buffer> in(receivers.size(), Buffer(20'000)), out(senders.size(), Buffer(20'000));
        for (std::size_t i = 0; i < receivers.size(); ++i)
          receives.push_back(must_receive(net, receivers[i], {{in[i].data(), in[i].size(), 0}}));
        for (std::size_t i = 0; i < senders.size(); ++i) {
          fill_pattern(out[i], i);
          sends.push_back(must_send(net, senders[i], out[i].data(), out[i].size()));
        }
        for (void* request : sends) expect_ok(finish(net, request), "send");
        for (void* request : receives) expect_ok(finish(net, request), "receive");
        for (std::size_t i = 0; i < in.size(); ++i)
          expect(has_pattern(in[i].data(), in[i].size(), i), "other bytes arrived");
        for (void* sender : senders) expect_ok(net.close_send(sender), "close_send");
        for (void* receiver : receivers) expect_ok(net.close_receive(receiver), "close_receive");
        expect_ok(net.finalize(), "finalize");
        expect_ok(net.init(), "init again");
        line.meet();
      }
    };
  };
  EXPECT_EQ(run_pair({}, part(true), part(false)), "");
}

// Like many communicators of one process: a thread each, connections of their own, one plugin.
TEST(NetPlugin, ThreadsWorkSideBySide) {
  constexpr std::size_t kThreads = 4, kMessages = 200, kBytes = 30'000;
  const auto part = [](bool first) {
    return [first](Net& net, Line& line) {
      std::vector<void*> senders, receivers;
      for (std::size_t i = 0; i < kThreads; ++i) {
        if (first) senders.push_back(open_sender(net, line)), receivers.push_back(open_receiver(net, line));
        if (!first) receivers.push_back(open_receiver(net, line)), senders.push_back(open_sender(net, line));
      }
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&net, i, sender = senders[i], receiver = receivers[i]] {
          Buffer out(kBytes), in(kBytes);
          for (std::size_t number = 0; number < kMessages; ++number) {
            fill_pattern(out, number * kThreads + i);
            void* const receives = must_receive(net, receiver, {{in.data(), kBytes, 3}});
            expect_ok(finish(net, must_send(net, sender, out.data(), kBytes, 3)), "send");
            expect_ok(finish(net, receives), "receive");
            expect(has_pattern(in.data(), kBytes, number * kThreads + i), "other bytes arrived");
          }
          expect_ok(net.close_send(sender), "close_send");
          expect_ok(net.close_receive(receiver), "close_receive");
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
  };
  EXPECT_EQ(run_pair({}, part(true), part(false)), "");
}

}  // namespace
}  // namespace r2ccl::plugin
