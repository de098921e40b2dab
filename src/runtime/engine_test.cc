// Engines joined in memory, in one thread; the test moves the clock. Data does not flow here (sim/ and tests/ do that): who meets
// whom, who is told what, and how it ends.

#include "runtime/engine.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "control/test_net.h"

namespace r2ccl {
namespace {

struct FixedClock final : Clock {
  Instant now() override { return at; }
  Instant at{1h};
};

struct Node {
  Node(test::TestNet& net, Clock& clock, std::uint64_t process, std::size_t nics, const EngineConfig& config)
      : provider(net, ProcessId{process}, nics),
        engine({clock, random, log}, provider, keyring, telemetry, {process}, config) {}
  test::NullLog log;
  test::CountingRandom random;
  test::TestProvider provider;
  Keyring keyring;
  Telemetry telemetry;
  Engine engine;
};

EngineConfig config_of(std::uint64_t process) {
  EngineConfig config;
  config.server = {process};
  config.rank = static_cast<std::uint32_t>(process - 1);
  config.host = "host" + std::to_string(process);
  return config;
}

struct Job {
  explicit Job(std::size_t count, std::size_t nics = 2) {
    for (std::uint64_t process = 1; process <= count; ++process) {
      nodes.push_back(std::make_unique<Node>(net, clock, process, nics, config_of(process)));
      EXPECT_TRUE(nodes.back()->engine.listen().has_value());
    }
    EXPECT_TRUE(engine(1).host_root(count).has_value());
    id = UniqueId::make(random, engine(1).root_addresses());
  }
  void join_all() {
    for (auto& node : nodes) node->engine.join(id);
    settle();
  }
  Engine& engine(std::uint64_t process) { return nodes[process - 1]->engine; }
  test::TestProvider& provider(std::uint64_t process) { return nodes[process - 1]->provider; }
  void settle() {
    for (int round = 0; round < 100; ++round) {
      for (auto& node : nodes) node->engine.step(clock.at);
    }
  }
  void pass(Duration time) {
    for (const Instant end = clock.at + time; clock.at < end;) {
      clock.at += 10ms;
      for (auto& node : nodes) node->engine.step(clock.at);
    }
  }

  FixedClock clock;
  test::TestNet net;
  test::CountingRandom random;
  UniqueId id;
  std::vector<std::unique_ptr<Node>> nodes;
};

TEST(Engine, ProcessesMeetAndAgreeOnTheRoster) {
  for (std::size_t count = 1; count <= 6; ++count) {
    Job job(count);
    EXPECT_FALSE(job.engine(1).ready());
    job.join_all();
    for (std::uint64_t process = 1; process <= count; ++process) {
      ASSERT_TRUE(job.engine(process).ready());
      EXPECT_EQ(job.engine(process).roster(), job.engine(1).roster());
      EXPECT_EQ(job.engine(process).roster()[process - 1], job.engine(process).self());
    }
  }
}

TEST(Engine, RootIsReachableOnEveryNic) {
  Job job(2, 3);
  EXPECT_EQ(job.engine(1).root_addresses().size(), 3u);
  EXPECT_TRUE(job.engine(2).root_addresses().empty());
}

TEST(Engine, SessionAskedForAtOneEndAppearsAtTheOther) {
  for (const std::uint64_t asks : {1u, 2u}) {
    Job job(3);
    job.join_all();
    job.engine(asks).session({3 - asks});
    job.settle();
    Session* other = job.engine(3 - asks).find_session({asks});
    ASSERT_NE(other, nullptr) << "asked for by process " << asks;
    EXPECT_EQ(other->paths().size(), 2u);
    for (const PathView& path : other->paths()) EXPECT_EQ(path.state, PathState::kUp);
    EXPECT_EQ(job.engine(3).find_session({asks}), nullptr);
  }
}

TEST(Engine, SessionWithoutSuchAProcessIsABug) {
  Job job(2);
  EXPECT_THROW(job.engine(1).session({2}), Bug) << "before the roster is known";
  job.join_all();
  EXPECT_THROW(job.engine(1).session({1}), Bug);
  EXPECT_THROW(job.engine(1).session({99}), Bug);
}

TEST(Engine, DataLinkFromBeforeTheRosterIsKept) {
  Job job(2);
  job.engine(1).join(job.id);
  job.settle();
  const Hello hello{Purpose::kData, {}, {2}, {1}, {{0}, {0}}};
  auto link = job.provider(2).connect({0}, job.engine(1).self().ports[0].listen, hello, job.clock.at);
  job.settle();
  EXPECT_EQ((*link)->state(), LinkState::kUp);
  job.engine(2).join(job.id);
  job.settle();
  EXPECT_NE(job.engine(1).find_session({2}), nullptr);
}

TEST(Engine, EarlyLinksAreBoundedInNumberAndTime) {
  Job job(2);
  struct Nowhere final : FrameSink {
    Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
    void on_frame(Link&, const FrameHeader&, ByteView, Payload) override {}
  } nowhere;
  std::vector<std::unique_ptr<Link>> links;
  for (std::uint64_t i = 0; i < EngineLimits::kEarlyLinksMax + 20; ++i) {
    const Hello hello{Purpose::kData, {}, {100 + i}, {1}, {}};
    links.push_back(*job.provider(2).connect({0}, job.engine(1).self().ports[0].listen, hello, job.clock.at));
  }
  const auto alive = [&] {
    for (auto& link : links) link->step(job.clock.at, nowhere);
    return std::ranges::count(links, LinkState::kUp, [](const auto& link) { return link->state(); });
  };
  job.settle();
  EXPECT_EQ(alive(), static_cast<std::ptrdiff_t>(EngineLimits::kEarlyLinksMax));
  job.pass(EngineLimits::kEarlyLinkTime);
  EXPECT_EQ(alive(), 0);
}

TEST(Engine, StrangerWithTheSecretButOutsideTheRosterIsClosed) {
  Job job(2);
  job.join_all();
  const Hello hello{Purpose::kData, {}, {99}, {1}, {}};
  auto link = *job.provider(2).connect({0}, job.engine(1).self().ports[0].listen, hello, job.clock.at);
  job.settle();
  struct Nowhere final : FrameSink {
    Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
    void on_frame(Link&, const FrameHeader&, ByteView, Payload) override {}
  } nowhere;
  link->step(job.clock.at, nowhere);
  EXPECT_EQ(link->state(), LinkState::kDown);
  EXPECT_EQ(job.engine(1).find_session({99}), nullptr);
}

TEST(Engine, ProbeIsAnsweredAndLeavesNothingBehind) {
  Job job(2);
  job.join_all();
  const Hello hello{Purpose::kProbe, {}, {2}, {1}, {}};
  auto link = *job.provider(2).connect({0}, job.engine(1).self().ports[0].listen, hello, job.clock.at);
  job.settle();
  EXPECT_EQ(link->state(), LinkState::kUp);
  EXPECT_EQ(job.engine(1).find_session({2}), nullptr);
}

TEST(Engine, NicThatCanNotListenIsLeftOutAndNamed) {
  test::TestNet net;
  FixedClock clock;
  Node node(net, clock, 1, 3, config_of(1));
  node.provider.broken_nic = NicId{1};
  ASSERT_TRUE(node.engine.listen().has_value());
  ASSERT_EQ(node.engine.self().ports.size(), 2u);
  EXPECT_EQ(node.engine.self().ports[1].nic, NicId{2});
  EXPECT_EQ(node.log.lines.at(0), "NIC nic1 is left out: The address is gone.");
}

TEST(Engine, NoNicLeftIsAnError) {
  test::TestNet net;
  FixedClock clock;
  Node node(net, clock, 1, 1, config_of(1));
  node.provider.broken_nic = NicId{0};
  EXPECT_FALSE(node.engine.listen().has_value());
}

TEST(Engine, ManagementNicCarriesNoData) {
  test::TestNet net;
  FixedClock clock;
  EngineConfig config = config_of(1);
  config.control_nic = {2};
  config.control_nic_is_data = false;
  Node node(net, clock, 1, 3, config);
  ASSERT_TRUE(node.engine.listen().has_value());
  EXPECT_EQ(node.engine.self().ports.size(), 2u);
  const auto root = node.engine.host_root(1);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(*root, Address::v4(127, 2, 0, 1, 1000));
  EXPECT_EQ(node.engine.root_addresses().front(), *root);
}

TEST(Engine, JobOfNobodyIsRefused) {
  Job job(1);
  EXPECT_FALSE(job.engine(1).host_root(0).has_value());
  EXPECT_FALSE(job.engine(1).host_root(kRosterMax + 1).has_value());
}

TEST(Engine, EverybodyFinishesWithoutAlarm) {
  Job job(3);
  job.join_all();
  job.engine(1).session({2});
  job.engine(2).session({3});
  job.settle();
  for (std::uint64_t process = 1; process <= 3; ++process) job.engine(process).finish(job.clock.at);
  job.pass(1s);
  for (std::uint64_t process = 1; process <= 3; ++process) {
    EXPECT_TRUE(job.engine(process).finished()) << process;
    EXPECT_TRUE(job.engine(process).verdicts().empty());
  }
}

TEST(Engine, RootWaitsForTheOthersFarewellButNotForEver) {
  Job job(2);
  job.join_all();
  job.engine(1).finish(job.clock.at);
  job.pass(500ms);
  EXPECT_FALSE(job.engine(1).finished());
  job.pass(600ms);
  EXPECT_TRUE(job.engine(1).finished());
}

TEST(Engine, CarrierLossIsJudgedOnceAtBothEnds) {
  Job job(2);
  job.join_all();
  job.engine(1).session({2});
  job.settle();
  job.provider(2).events.push_back({{1}, false});
  job.pass(1s);
  for (const std::uint64_t process : {1u, 2u}) {
    const auto& verdicts = job.engine(process).verdicts();
    ASSERT_EQ(verdicts.size(), 1u) << process;
    EXPECT_EQ(verdicts[0].blame, Blame::kNic);
    EXPECT_EQ(verdicts[0].culprit, (NicName{{2}, {1}}));
    const auto& lines = job.nodes[process - 1]->log.lines;
    EXPECT_EQ(
        std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("NIC nic1 (server 2): "); }),
        1);
  }
}

TEST(Engine, DeadProcessIsNobodysNic) {
  Job job(3);
  job.join_all();
  job.engine(1).session({3});
  job.engine(2).session({3});
  job.settle();
  job.nodes.pop_back();
  job.pass(2s);
  EXPECT_EQ(job.engine(2).session({3}).state(), SessionState::kPeerDown);
  EXPECT_TRUE(job.engine(1).verdicts().empty());
  EXPECT_TRUE(job.engine(2).verdicts().empty());
}

TEST(Engine, IdleEngineAsksForAtMostOneCallPerHeartbeat) {
  Job job(2);
  job.join_all();
  job.engine(1).session({2});
  job.pass(3s);
  int calls = 0;
  for (const Instant end = job.clock.at + 10s; job.clock.at < end;) {
    const Turn one = job.engine(1).step(job.clock.at);
    const Turn two = job.engine(2).step(job.clock.at);
    if (one.moved || two.moved) continue;
    ASSERT_GT(std::min(one.next, two.next), job.clock.at);
    job.clock.at = std::min({one.next, two.next, end});
    ++calls;
  }
  EXPECT_LT(calls, 10 * 20) << "in ten seconds";
}

}  // namespace
}  // namespace r2ccl
