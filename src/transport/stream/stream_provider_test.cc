#include "transport/stream/stream_provider.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "env/seeded_random.h"
#include "testing/link_testing.h"
#include "testing/memory_stream.h"
#include "transport/stream/frame.h"
#include "transport/stream/handshake.h"

namespace r2ccl {
namespace {

// Connections of one process to itself or to whoever the test gives them to.
class MemoryDialer final : public Dialer {
 public:
  std::span<const Nic> nics() const override { return {}; }
  Result<Address> listen(NicId, std::uint16_t port) override { return Address::v4(127, 0, 0, 1, port); }
  Result<std::unique_ptr<Stream>> connect(NicId, const Address&) override { return dial(); }
  std::unique_ptr<Stream> accept() override {
    if (inbound.empty()) return nullptr;
    auto stream = std::move(inbound.front());
    inbound.pop_front();
    return stream;
  }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  bool step(Instant) override { return false; }

  std::unique_ptr<MemoryStream> dial() {
    MemoryPair pair;
    last_to_listener = pair.a_to_b;
    last_from_listener = pair.b_to_a;
    (other != nullptr ? other : this)->inbound.push_back(std::move(pair.b));
    return std::move(pair.a);
  }

  MemoryDialer* other = nullptr;  // where connections arrive
  std::deque<std::unique_ptr<MemoryStream>> inbound;
  std::shared_ptr<MemoryPipe> last_to_listener;
  std::shared_ptr<MemoryPipe> last_from_listener;
};

Secret make_secret(int fill) {
  Secret secret;
  secret.fill(static_cast<std::byte>(fill));
  return secret;
}

constexpr ProcessId kClient{1};
constexpr ProcessId kServer{2};

struct World {
  explicit World(const StreamLimits& limits = {})
      : client(client_dialer, client_ring, random, kClient, limits),
        server(server_dialer, server_ring, random, kServer, limits) {
    client_dialer.other = &server_dialer;
    key = client_ring.add(make_secret(1));
    server_ring.add(make_secret(1));
  }

  std::unique_ptr<Link> connect(ProcessId to = kServer) {
    auto link = client.connect(NicId{0}, Address{}, Hello{Purpose::kData, key, {}, to, PathId{{0}, {1}}}, now);
    return link ? std::move(*link) : nullptr;
  }
  void run(Link& link) {
    for (int i = 0; i < 10; ++i) {
      server.step(now);
      link.step(now, sink);
    }
  }

  Instant now{Duration(1h)};
  SeededRandom random{1};
  MemoryDialer client_dialer;
  MemoryDialer server_dialer;
  Keyring client_ring;
  Keyring server_ring;
  KeyId key;
  StreamProvider client;
  StreamProvider server;
  RecordingSink sink;
};

TEST(StreamProviderOpening, BothEndsGetEachOther) {
  World world;
  auto link = world.connect();
  EXPECT_EQ(link->state(), LinkState::kOpening);
  EXPECT_EQ(world.server.accept(), nullptr);
  world.run(*link);
  ASSERT_EQ(link->state(), LinkState::kUp) << link->error();
  EXPECT_EQ(link->peer(), kServer);
  const auto accepted = world.server.accept();
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->state(), LinkState::kUp);
  EXPECT_EQ(accepted->peer(), kClient);
  EXPECT_EQ(accepted->hello().from, kClient);
  EXPECT_EQ(accepted->hello().path, (PathId{{0}, {1}}));
  EXPECT_EQ(world.server.counters().proven, 1u);
  EXPECT_EQ(world.server.half_open(), 0u);
}

TEST(StreamProviderOpening, OneByteAtATimeOpensToo) {
  World world;
  auto link = world.connect();
  for (const auto& pipe : {world.client_dialer.last_to_listener, world.client_dialer.last_from_listener}) {
    pipe->read_bytes_max = 1;
    pipe->write_bytes_max = 1;
    pipe->capacity = 1;
  }
  for (int i = 0; i < 1000; ++i) {
    world.server.step(world.now);
    link->step(world.now, world.sink);
  }
  EXPECT_EQ(link->state(), LinkState::kUp);
  EXPECT_NE(world.server.accept(), nullptr);
}

TEST(StreamProviderOpening, FramesSentBeforeAcceptAreNotLost) {
  World world;
  auto link = world.connect();
  Bytes payload = pattern(100);
  HostRegion region(payload.data(), payload.size());
  ASSERT_TRUE(link->post(control_frame('c', to_bytes("early"))));  // waits for the handshake
  world.run(*link);
  ASSERT_TRUE(link->post(data_frame('d', {}, region)));
  link->step(world.now, world.sink);
  auto accepted = world.server.accept();
  RecordingSink sink;
  while (accepted->step(world.now, sink)) {
  }
  ASSERT_EQ(sink.frames.size(), 2u);
  EXPECT_EQ(sink.frames[0].body, to_bytes("early"));
  EXPECT_EQ(sink.frames[1].bytes, payload);
}

TEST(StreamProviderOpening, FramesReadTogetherWithTheProofAreKept) {
  World world;
  auto stream = world.client_dialer.dial();
  Nonce nonce;
  world.random.fill(nonce);
  Handshake handshake(Hello{Purpose::kControl, world.key, kClient, {}, {}}, make_secret(1), nonce);
  world.client_dialer.last_to_listener->bytes.assign(handshake.output().begin(), handshake.output().end());
  handshake.sent(handshake.output().size());
  world.server.step(world.now);
  const auto& back = world.client_dialer.last_from_listener->bytes;
  handshake.take(Bytes(back.begin(), back.end()));
  Bytes proof_and_frame(handshake.output().begin(), handshake.output().end());
  const std::size_t proof = proof_and_frame.size();
  proof_and_frame.resize(proof + kHeaderBytes);
  encode_header(FrameHeader{.type = 'x', .path = {}, .epoch = {}, .payload_bytes = 0}, {}, nullptr, 0,
                proof_and_frame.data() + proof);
  world.client_dialer.last_to_listener->bytes.assign(proof_and_frame.begin(), proof_and_frame.end());
  world.server.step(world.now);
  auto accepted = world.server.accept();
  ASSERT_NE(accepted, nullptr);
  RecordingSink sink;
  EXPECT_TRUE(accepted->step(world.now, sink));
  ASSERT_EQ(sink.frames.size(), 1u);
  EXPECT_EQ(sink.frames[0].header.type, 'x');
}

TEST(StreamProviderRefusing, AnotherSecretOpensNothingAndIsCounted) {
  World world;
  world.key = world.client_ring.add(make_secret(9));
  auto link = world.connect();
  world.run(*link);
  EXPECT_EQ(link->state(), LinkState::kDown);
  EXPECT_EQ(link->cause(), Cause::kUnproven);
  EXPECT_NE(link->error().find("does not know key"), std::string::npos) << link->error();
  EXPECT_EQ(world.server.accept(), nullptr);
  EXPECT_EQ(world.server.counters().unproven, 1u);
}

TEST(StreamProviderRefusing, AnotherProcessIsRefused) {
  World world;
  auto link = world.connect(ProcessId{77});
  world.run(*link);
  EXPECT_EQ(link->cause(), Cause::kRefused);
  EXPECT_EQ(world.server.counters().unproven, 1u);
}

TEST(StreamProviderRefusing, AKeyThatIsNotOursIsMisuse) {
  World world;
  const auto link = world.client.connect(NicId{0}, Address{}, Hello{Purpose::kData, KeyId{5}, {}, {}, {}}, world.now);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().fault, Fault::kMisuse);
}

TEST(StreamProviderRefusing, TruncatedHandshakesAreCountedAtEveryByte) {
  StreamLimits limits;
  limits.unproven_per_second_max = 1000;
  World world(limits);
  Handshake handshake(Hello{Purpose::kData, world.key, kClient, kServer, {}}, make_secret(1), Nonce{});
  const Bytes hello(handshake.output().begin(), handshake.output().end());
  for (std::size_t cut = 0; cut <= hello.size(); ++cut) {
    auto stream = world.client_dialer.dial();
    const ByteView part = ByteView(hello).first(cut);
    stream->write({&part, 1});
    stream->close(false);
    world.server.step(world.now);
    EXPECT_EQ(world.server.counters().unproven, cut + 1);
    EXPECT_EQ(world.server.half_open(), 0u);
  }
}

TEST(StreamProviderBounds, ASilentConnectionEndsAtTheDeadlineOnBothSides) {
  World world;
  auto link = world.connect();
  world.client_dialer.last_to_listener->capacity = 0;  // the HELLO never arrives
  const Turn turn = world.server.step(world.now);
  EXPECT_EQ(turn.next, world.now + 1s);
  EXPECT_EQ(world.client.step(world.now).next, world.now + 1s);
  world.now += 1s;
  EXPECT_TRUE(world.server.step(world.now).moved);
  EXPECT_EQ(world.server.half_open(), 0u);
  EXPECT_EQ(world.server.counters().unproven, 1u);
  EXPECT_EQ(world.client.step(world.now).next, kNever);
  world.client_dialer.last_from_listener->reset = false;
  EXPECT_TRUE(link->step(world.now, world.sink));
  EXPECT_EQ(link->state(), LinkState::kDown);
}

TEST(StreamProviderBounds, TenThousandHalfOpenConnectionsStayBounded) {
  StreamLimits limits;
  World world(limits);
  std::vector<std::unique_ptr<MemoryStream>> strangers;
  for (int i = 0; i < 10'000; ++i) strangers.push_back(world.client_dialer.dial());
  for (int i = 0; i < 1000; ++i) {
    const Turn turn = world.server.step(world.now);
    ASSERT_LE(world.server.half_open(), limits.half_open_max);
    ASSERT_TRUE(turn.moved || turn.next > world.now) << "it must not ask to be called at once for nothing";
    if (!turn.moved && turn.next != kNever) world.now = turn.next;
  }
  EXPECT_TRUE(world.server_dialer.inbound.empty());
  EXPECT_GT(world.server.counters().half_open_dropped, 0u);
  const auto& c = world.server.counters();
  EXPECT_EQ(c.accepted + c.rate_limited, 10'000u);
  // The flood over, a friend gets in at once.
  world.now += 5s;
  world.server.step(world.now);
  auto link = world.connect();
  world.run(*link);
  EXPECT_EQ(link->state(), LinkState::kUp);
}

TEST(StreamProviderBounds, ManyFriendsAtOnceAllGetIn) {
  World world;
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 2000; ++i) links.push_back(world.connect());
  std::vector<std::unique_ptr<Link>> accepted;
  for (int i = 0; i < 200; ++i) {
    world.now += 1ms;
    world.server.step(world.now);
    while (auto link = world.server.accept()) accepted.push_back(std::move(link));
    for (auto& link : links) link->step(world.now, world.sink);
  }
  EXPECT_EQ(accepted.size(), 2000u);
  EXPECT_EQ(world.server.counters().half_open_dropped, 0u);
  EXPECT_EQ(world.server.counters().rate_limited, 0u);
}

TEST(StreamProviderBounds, FailuresPerSecondCloseTheDoorUnreadUntilTheNext) {
  StreamLimits limits;
  limits.unproven_per_second_max = 10;
  World world(limits);
  std::vector<std::unique_ptr<MemoryStream>> strangers;
  const auto knock = [&] {
    strangers.push_back(world.client_dialer.dial());
    const Bytes garbage = pattern(100);
    const ByteView view = garbage;
    strangers.back()->write({&view, 1});
    world.server.step(world.now);
  };
  for (int i = 0; i < 15; ++i) knock();
  EXPECT_EQ(world.server.counters().unproven, 10u);
  EXPECT_EQ(world.server.counters().rate_limited, 5u);
  EXPECT_EQ(world.client_dialer.last_to_listener->reads, 0u) << "closed unread";
  world.now += 1s;
  auto link = world.connect();
  world.run(*link);
  EXPECT_EQ(link->state(), LinkState::kUp);
}

TEST(StreamProviderBounds, NobodyTakingReadyLinksStopsAccepting) {
  StreamLimits limits;
  limits.ready_max = 4;
  limits.accepts_per_step = 1;
  World world(limits);
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 50; ++i) links.push_back(world.connect());
  for (int i = 0; i < 100; ++i) {
    world.server.step(world.now);
    for (auto& link : links) link->step(world.now, world.sink);
  }
  EXPECT_LT(world.server.counters().accepted, 10u);
  EXPECT_NE(world.server.accept(), nullptr);
}

}  // namespace
}  // namespace r2ccl
