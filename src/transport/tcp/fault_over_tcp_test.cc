// The decorator over real sockets: what the other end, which knows nothing of the fault, gets to see.

#include <gtest/gtest.h>

#include <functional>

#include "env/seeded_random.h"
#include "testing/fake_provider.h"
#include "transport/fault/fault_provider.h"
#include "transport/stream/stream_provider.h"
#include "transport/tcp/tcp_dialer.h"

namespace r2ccl {
namespace {

// Process 1 connects from 127.0.0.1; process 2 listens on 127.0.0.2 and is the one with faults. Time for both is a
// counter of milliseconds that grows while they sleep in epoll.
struct Cluster {
  Cluster() : random(5) {
    Secret secret{};
    key = keyring.add(secret);
    client_dialer = dialer(1);
    server_dialer = dialer(2);
    client = std::make_unique<StreamProvider>(*client_dialer, keyring, random, ProcessId{1}, limits);
    inner = std::make_unique<StreamProvider>(*server_dialer, keyring, random, ProcessId{2}, limits);
    const FaultHooks hooks{.deafen_nic = [this](NicId nic, bool on) { server_dialer->deafen_nic(nic, on); }};
    server = std::make_unique<FaultProvider>(*inner, ServerId{0}, std::vector<FaultSpec>{}, nullptr, hooks);
    address = server->listen({0}, 0).value();
  }

  static std::unique_ptr<TcpDialer> dialer(std::uint8_t last) {
    const Address address = Address::v4(127, 0, 0, last);
    return TcpDialer::open({{.id = {0}, .name = to_text(address), .address = address}}, {}).value();
  }

  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000; ++i, now += 2ms) {
      client->step(now);
      server->step(now);
      if (!there) there = server->accept();
      if (here) here->step(now, here_sink);
      if (there) there->step(now, there_sink);
      if (done()) return true;
      server_dialer->wait({}, Instant{} + 1ms);
      client_dialer->wait({}, Instant{} + 1ms);
    }
    return false;
  }

  bool connect() {
    there.reset();
    here = client->connect({0}, address, hello(), now).value();
    return until([&] { return there && here->state() != LinkState::kOpening; });
  }
  Hello hello() const {
    Hello hello;
    hello.key = key;
    hello.from = {1};
    hello.to = {2};
    return hello;
  }
  void inject(const char* text) { ASSERT_TRUE(server->inject(parse_fault(text).value(), now)); }
  void post(Link& link) {
    OutFrame frame;
    frame.header.type = 1;
    ASSERT_TRUE(link.post(frame));
  }

  SeededRandom random;
  Keyring keyring;
  KeyId key;
  StreamLimits limits;
  Instant now = Instant{} + 1s;
  std::unique_ptr<TcpDialer> client_dialer, server_dialer;
  std::unique_ptr<StreamProvider> client, inner;
  std::unique_ptr<FaultProvider> server;
  Address address;
  FakeSink here_sink, there_sink;
  std::unique_ptr<Link> here, there;
};

TEST(FaultOverTcp, BlackholeIsSilenceAtBothEnds) {
  Cluster cluster;
  ASSERT_TRUE(cluster.connect());
  cluster.inject("at=0 server=0 nic=0 kind=blackhole");
  cluster.post(*cluster.here);
  cluster.post(*cluster.there);
  ASSERT_TRUE(cluster.until([&] { return cluster.here->progress(cluster.now).last_ack_age > 50ms; }));
  EXPECT_GT(cluster.here->progress(cluster.now).unacked_bytes, 0u);
  EXPECT_GT(cluster.there->progress(cluster.now).unacked_bytes, 0u);
  EXPECT_EQ(cluster.here->state(), LinkState::kUp);
  EXPECT_EQ(cluster.here_sink.frames + cluster.there_sink.frames, 0);
}

TEST(FaultOverTcp, HealedBlackholeDeliversWhatWasHeld) {
  Cluster cluster;
  ASSERT_TRUE(cluster.connect());
  cluster.inject("at=0 server=0 nic=0 kind=blackhole for=50ms");
  cluster.post(*cluster.here);
  cluster.post(*cluster.there);
  EXPECT_TRUE(cluster.until([&] { return cluster.here_sink.frames == 1 && cluster.there_sink.frames == 1; }));
}

TEST(FaultOverTcp, LinkClosedOnAPulledCableDoesNotTellTheOtherEnd) {
  Cluster cluster;
  ASSERT_TRUE(cluster.connect());
  cluster.inject("at=0 server=0 nic=0 kind=cable for=200ms");
  cluster.there->drain_and_close(cluster.now, cluster.there_sink);
  cluster.post(*cluster.here);
  ASSERT_TRUE(cluster.until([&] { return cluster.here->progress(cluster.now).last_ack_age > 50ms; }));
  EXPECT_EQ(cluster.here->state(), LinkState::kUp);
  // The cable is in again: the other end learns that the connection is gone, and a new one stands at once.
  EXPECT_TRUE(cluster.until([&] { return cluster.here->state() == LinkState::kDown; }));
  EXPECT_EQ(cluster.here->cause(), Cause::kReset);
  ASSERT_TRUE(cluster.connect());
  EXPECT_EQ(cluster.here->state(), LinkState::kUp);
}

TEST(FaultOverTcp, ConnectionsToACutNicTimeOut) {
  Cluster cluster;
  cluster.server->step(cluster.now);
  cluster.inject("at=0 server=0 nic=0 kind=blackhole");
  cluster.here = cluster.client->connect({0}, cluster.address, cluster.hello(), cluster.now).value();
  ASSERT_TRUE(cluster.until([&] { return cluster.here->state() != LinkState::kOpening; }));
  EXPECT_EQ(cluster.here->cause(), Cause::kTimeout);
  EXPECT_FALSE(cluster.there);
}

TEST(FaultOverTcp, ResetIsSeenAtBothEnds) {
  Cluster cluster;
  ASSERT_TRUE(cluster.connect());
  cluster.inject("at=0 server=0 nic=0 kind=reset");
  EXPECT_EQ(cluster.there->cause(), Cause::kReset);
  cluster.there->drain_and_close(cluster.now, cluster.there_sink);
  ASSERT_TRUE(cluster.until([&] { return cluster.here->state() == LinkState::kDown; }));
  EXPECT_EQ(cluster.here->cause(), Cause::kReset);
  EXPECT_TRUE(cluster.connect());
}

}  // namespace
}  // namespace r2ccl
