// The network model itself: what programs and TCP_INFO would see.

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "sim/net/wires/sim_dialer.h"

namespace r2ccl::sim {
namespace {

class Script final : public Stepped {
 public:
  std::function<void()> body = [] {};
  Turn step(Instant) override {
    body();
    return {};
  }
};

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

// Two servers with two NICs each, a process on each, and a connection from NIC 0 to NIC 0.
class NetworkTest : public testing::Test {
 protected:
  void build(const NetworkConfig& config, std::uint64_t seed = 1) {
    world.emplace(seed, Scheduling{});
    network.emplace(*world, config, 2, 2);
    for (std::uint8_t server : {0, 1}) {
      dialer[server].emplace(*network, server);
      dialer[server]->set_process(world->add(script[server]));
    }
    address = dialer[1]->listen({0}, 0).value();
    script[1].body = [this] {
      while (auto stream = dialer[1]->accept()) there = std::move(stream);
    };
  }
  void connect() {
    here = std::move(dialer[0]->connect({0}, address).value());
    run(10ms);
    ASSERT_EQ(here->state(), LinkState::kUp);
    ASSERT_NE(there, nullptr);
  }
  void run(Duration time) { world->run_until(world->now() + time); }

  static Io write(Stream& stream, ByteView bytes) { return stream.write(std::span(&bytes, 1)); }
  static Bytes read_all(Stream& stream) {
    Bytes all;
    std::array<std::byte, 4096> part;
    const ReadPart target{part.data(), part.size()};
    while (true) {
      const Io io = stream.read(std::span(&target, 1));
      all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(io.bytes));
      if (io.bytes == 0) return all;
    }
  }
  // Writes and reads until everything is through or nothing moves for a simulated second.
  Bytes transfer(Stream& from, Stream& to, ByteView bytes) {
    Bytes got;
    for (int idle = 0; idle < 1000; ++idle) {
      if (!bytes.empty()) {
        const Io io = write(from, bytes);
        bytes = bytes.subspan(io.bytes);
        if (io.bytes > 0) idle = 0;
      }
      run(1ms);
      const Bytes part = read_all(to);
      if (!part.empty()) idle = 0;
      got.insert(got.end(), part.begin(), part.end());
    }
    return got;
  }

  Script script[2];
  std::optional<SimWorld> world;
  std::optional<Network> network;
  std::optional<SimDialer> dialer[2];
  Address address;
  std::unique_ptr<Stream> here, there;
};

TEST_F(NetworkTest, BytesArriveInOrderWhateverTheSplits) {
  build({.jitter = 5,
         .send_buffer = 5000,
         .receive_buffer = 3000,
         .segment_bytes = 700,
         .split_reads = true,
         .split_writes = true});
  connect();
  const Bytes sent = pattern(100'000);
  EXPECT_EQ(transfer(*here, *there, sent), sent);
}

TEST_F(NetworkTest, AcceptedIsNotDelivered) {
  build({});
  connect();
  EXPECT_EQ(write(*here, pattern(1000)).bytes, 1000u);
  EXPECT_FALSE(there->readable());
  run(1ms);
  EXPECT_TRUE(there->readable());
}

TEST_F(NetworkTest, BuffersAreFinite) {
  build({.send_buffer = 4000, .receive_buffer = 6000, .segment_bytes = 1000});
  connect();
  std::size_t taken = 0;
  for (int i = 0; i < 20; ++i) {
    taken += write(*here, pattern(4000)).bytes;
    run(10ms);
  }
  EXPECT_EQ(taken, 10'000u);
  EXPECT_FALSE(here->writable());
}

TEST_F(NetworkTest, ClosedWindowLeavesNothingUnacknowledged) {
  build({.send_buffer = 4000, .receive_buffer = 6000, .segment_bytes = 1000});
  connect();
  for (int i = 0; i < 5; ++i) {
    write(*here, pattern(4000));
    run(500ms);
  }
  const Progress stuck = here->progress(world->now());
  EXPECT_EQ(stuck.unacked_bytes, 0u);
  EXPECT_EQ(stuck.queued_bytes, 4000u);
  EXPECT_EQ(stuck.acked_bytes, 6000u);
  read_all(*there);
  run(1ms);
  EXPECT_EQ(here->progress(world->now()).queued_bytes, 0u);
}

TEST_F(NetworkTest, LostWindowUpdateIsFoundByProbe) {
  build({.send_buffer = 4000, .receive_buffer = 6000, .segment_bytes = 1000});
  connect();
  for (int i = 0; i < 5; ++i) {
    write(*here, pattern(4000));
    run(10ms);
  }
  network->set_pair_loss({1, 0}, {0, 0}, 1);
  read_all(*there);
  run(10ms);
  network->set_pair_loss({1, 0}, {0, 0}, 0);
  EXPECT_EQ(here->progress(world->now()).queued_bytes, 4000u);
  run(2s);
  EXPECT_EQ(here->progress(world->now()).queued_bytes, 0u);
}

TEST_F(NetworkTest, BlackHoleShowsUnacknowledgedBytesAndGrowingAge) {
  build({});
  connect();
  network->nic({1, 0}).receive_loss = 1;
  write(*here, pattern(1000));
  run(100ms);
  const Progress lost = here->progress(world->now());
  EXPECT_EQ(lost.unacked_bytes, 1000u);
  EXPECT_GE(lost.last_ack_age, 100ms);
}

TEST_F(NetworkTest, DeliveryResumesAfterBlackHoleWithDoublingTimeOuts) {
  build({});
  connect();
  network->nic({1, 0}).receive_loss = 1;
  write(*here, pattern(1000));
  run(650ms);  // tries at 200 and 600 ms are lost; the next comes at 1400 ms
  network->nic({1, 0}).receive_loss = 0;
  run(700ms);
  EXPECT_FALSE(there->readable());
  run(100ms);
  EXPECT_EQ(read_all(*there), pattern(1000));
}

TEST_F(NetworkTest, SingleLossesAreRepairedByFastRetry) {
  build({.segment_bytes = 500}, 7);
  connect();
  network->nic({0, 0}).transmit_loss = 0.05;
  const Bytes sent = pattern(200'000);
  EXPECT_EQ(transfer(*here, *there, sent), sent);
  EXPECT_GT(network->packets_lost(), 0u);
}

TEST_F(NetworkTest, CutLosesTheSuffixAndArrivedBytesStayReadable) {
  build({.rate_bytes_s = 1e6, .segment_bytes = 1000});
  connect();
  const Bytes sent = pattern(20'000);
  write(*here, sent);
  run(8ms);
  network->cut({0, 0}, {1, 0}, 0ms, 5ms, true);
  run(1ms);
  EXPECT_EQ(here->state(), LinkState::kDown);
  EXPECT_EQ(here->cause(), Cause::kReset);
  EXPECT_EQ(there->state(), LinkState::kUp);
  run(10ms);
  EXPECT_EQ(there->state(), LinkState::kDown);
  const Bytes got = read_all(*there);
  ASSERT_GT(got.size(), 0u);
  ASSERT_LT(got.size(), sent.size());
  EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
}

TEST_F(NetworkTest, EndThatIsNotToldSeesOnlySilence) {
  build({});
  connect();
  network->cut({0, 0}, {1, 0}, 0ms, Network::kNeverNotices, false);
  write(*there, pattern(100));
  run(5s);
  EXPECT_EQ(there->state(), LinkState::kUp);
  EXPECT_EQ(there->progress(world->now()).unacked_bytes, 100u);
}

TEST_F(NetworkTest, OrderlyCloseDeliversEverythingFirst) {
  build({.rate_bytes_s = 1e6});
  connect();
  write(*here, pattern(5000));
  here->close(false);
  run(100ms);
  EXPECT_EQ(read_all(*there), pattern(5000));
  std::byte one;
  const ReadPart part{&one, 1};
  EXPECT_EQ(there->read(std::span(&part, 1)).cause, Cause::kClosed);
}

TEST_F(NetworkTest, DeadProcessAnswersWithReset) {
  build({});
  connect();
  network->drop_process(*dialer[1], false);
  run(1ms);
  write(*here, pattern(10));
  run(1ms);
  EXPECT_EQ(here->cause(), Cause::kReset);
  auto again = std::move(dialer[0]->connect({0}, address).value());
  run(1ms);
  EXPECT_EQ(again->cause(), Cause::kRefused);
}

TEST_F(NetworkTest, ConnectIntoBlackHoleKeepsOpeningAndSucceedsWhenItHeals) {
  build({});
  network->nic({1, 0}).receive_loss = 1;
  here = std::move(dialer[0]->connect({0}, address).value());
  run(500ms);
  EXPECT_EQ(here->state(), LinkState::kOpening);
  network->nic({1, 0}).receive_loss = 0;
  run(600ms);
  EXPECT_EQ(here->state(), LinkState::kUp);
}

TEST_F(NetworkTest, CarrierLossIsToldToTheOwnerAndRefusesConnections) {
  build({});
  connect();
  network->set_carrier({0, 0}, false);
  run(1ms);
  const auto event = dialer[0]->next_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_FALSE(event->up);
  EXPECT_FALSE(dialer[0]->connect({0}, address).has_value());
  EXPECT_FALSE(dialer[1]->next_event().has_value());
}

TEST_F(NetworkTest, ConnectionsOfANicShareItsRate) {
  build({.rate_bytes_s = 1e6, .segment_bytes = 1000});
  connect();
  auto first = std::move(here);
  auto first_there = std::move(there);
  connect();
  write(*first, pattern(50'000));
  write(*here, pattern(50'000));
  run(50ms);
  const auto a = first->progress(world->now()).acked_bytes;
  const auto b = here->progress(world->now()).acked_bytes;
  EXPECT_NEAR(static_cast<double>(a + b), 47'000, 4000);
  EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), 2000);
}

TEST_F(NetworkTest, PausedProcessStillAcknowledges) {
  build({.receive_buffer = 3000});
  connect();
  world->pause(1, world->now() + 10s);
  write(*here, pattern(2000));
  run(10ms);
  EXPECT_EQ(here->progress(world->now()).unacked_bytes, 0u);
}

TEST_F(NetworkTest, RailsDoNotReachEachOther) {
  build({.fabric = Fabric::kRails});
  here = std::move(dialer[0]->connect({1}, address).value());
  run(500ms);
  EXPECT_EQ(here->state(), LinkState::kOpening);
}

TEST_F(NetworkTest, CorruptedPayloadDiffersInOneBit) {
  build({});
  connect();
  network->nic({0, 0}).corrupt_payload = true;
  const Bytes sent = pattern(1000);
  const Bytes got = transfer(*here, *there, sent);
  ASSERT_EQ(got.size(), sent.size());
  int bits = 0;
  for (std::size_t i = 0; i < got.size(); ++i) bits += std::popcount(std::to_integer<unsigned>(got[i] ^ sent[i]));
  EXPECT_EQ(bits, 1);
}

TEST_F(NetworkTest, SameSeedSameDigest) {
  std::uint64_t digests[3];
  for (int i = 0; i < 3; ++i) {
    here.reset();
    there.reset();
    for (auto& one : dialer) one.reset();
    build({.jitter = 3, .segment_bytes = 900, .split_reads = true, .split_writes = true}, i == 2 ? 8 : 7);
    connect();
    const Bytes sent = pattern(60'000);
    EXPECT_EQ(transfer(*here, *there, sent), sent);
    digests[i] = world->digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_NE(digests[0], digests[2]);
}

}  // namespace
}  // namespace r2ccl::sim
