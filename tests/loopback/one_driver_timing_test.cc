// An engine answers whatever the application's threads do, because its progress thread drives when nobody else does.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "tests/loopback/support/guest.h"
#include "tests/loopback/support/pair.h"
#include "tests/loopback/support/stall.h"

namespace r2ccl::loopback {
namespace {

constexpr Duration kComputing = 10s;
constexpr std::size_t kMessages = 40;
constexpr std::size_t kBytes = 100'000;  // more than is copied: completes with the other end's receipt
constexpr StreamId kStream{1};

std::uint64_t key_of(std::size_t message) {
  return 0x1234567 * (message + 1);
}

// The other end: posts its receives, computes without calling in, and only then looks at what came.
void compute_and_check(Peer& peer, Pair::Common& common) {
  std::vector<std::byte> memory(kMessages * kBytes);
  HostRegion region(memory.data(), memory.size());
  peer.driver().with_engine([&](Engine& engine) {
    for (std::size_t number = 0; number < kMessages; ++number)
      if (!engine.session(peer.other()).receive(kGroup, kStream, {&region, number * kBytes, kBytes}, 0, number))
        throw std::runtime_error("a receive was refused");
  });
  common.go.raise_to(1);
  std::uint64_t value = 1;
  for (const Instant until = clock_now() + kComputing; clock_now() < until;) value = value * 3 + 1;
  common.go.raise_to(2);

  std::size_t done = 0;
  const auto all = [&](Engine& engine) {
    for (const Completion& completion : engine.session(peer.other()).take_completions()) {
      if (!completion.status || completion.length != kBytes) throw std::runtime_error("a receive failed");
      ++done;
    }
    return done == kMessages;
  };
  if (!peer.driver().wait_until(all, clock_now() + 5s))
    throw std::runtime_error("not all messages are here after computing");
  for (std::size_t number = 0; number < kMessages; ++number) {
    const auto bytes = std::span(memory).subspan(number * kBytes, kBytes);
    if (check_pattern(bytes, key_of(number)) != kBytes) throw std::runtime_error("a message is wrong");
  }
  peer.finish();
}

// How long it takes from posting until the other end's receipt.
Duration send_one(Peer& peer, std::span<std::byte> bytes, std::size_t number) {
  fill_pattern(bytes, key_of(number));
  HostRegion region(bytes.data(), bytes.size());
  const Instant start = clock_now();
  const auto posted = peer.with_session(
      [&](Session& session) { return session.send(kGroup, kStream, {&region, 0, bytes.size()}, 0, number); });
  if (!posted) throw std::runtime_error(posted.error().what);
  const auto released = [&](Engine& engine) { return !engine.session(peer.other()).take_completions().empty(); };
  if (!peer.driver().wait_until(released, start + 10s))
    throw std::runtime_error("a send was not released in ten seconds");
  return clock_now() - start;
}

TEST(OneDriverTest, PeerThatComputesStillTakesMessagesAndRepairsPaths) {
  Pair pair({}, compute_and_check);
  ASSERT_TRUE(pair.common().go.wait_for(1, clock_now() + 10s));
  std::vector<Duration> taken;
  std::vector<std::byte> bytes(kBytes);
  const Instant start = clock_now();
  for (std::size_t number = 0; number < kMessages; ++number) {
    // Evenly over the time of computing, so that the other end's threads have long gone to sleep each time.
    pair.common().go.wait_for(2, start + number * (kComputing - 1s) / kMessages);
    if (number == kMessages / 2) {
      FaultSpec fault;
      fault.kind = FaultKind::kReset;
      ASSERT_TRUE(pair.here().inject(fault));
      EXPECT_TRUE(pair.here().settle(3s)) << "the other end does not repair a path while it computes";
    }
    taken.push_back(send_one(pair.here(), bytes, number));
  }
  EXPECT_EQ(pair.common().go.value(), 1u) << "the test was slower than the computing it tests";
  fmt::print("{} messages to a computing peer: median {:.2f} ms, worst {:.2f} ms\n", kMessages, to_ms(median(taken)),
             to_ms(*std::ranges::max_element(taken)));
  EXPECT_LE(*std::ranges::max_element(taken), 50ms);
  pair.here().finish();
  EXPECT_EQ(pair.wait_for_child(20s), 0) << pair.common().child_failure.data();
}

TEST(OneDriverTest, ThreadsAndDescriptorsAreGivenBack) {
  const auto use = [] {
    Pair pair({.shape = {.streams = 2, .window = 2, .sizes = {50'000}}});
    EXPECT_TRUE(pair.traffic_goes_on(20)) << pair.traffic_failure();
    EXPECT_GT(count_threads(::getpid()), 1u);
    EXPECT_EQ(pair.stop_traffic(), "");
    EXPECT_EQ(pair.end(), "");
  };
  use();  // what the process itself opens on first use
  const std::size_t threads = count_threads(::getpid());
  const std::size_t descriptors = count_descriptors(::getpid());
  for (int round = 0; round < 3; ++round) use();
  EXPECT_EQ(count_threads(::getpid()), threads);
  EXPECT_EQ(count_descriptors(::getpid()), descriptors);
}

}  // namespace
}  // namespace r2ccl::loopback
