// Engines joined in memory, in one thread; the test moves the clock. Data does not flow here (sim/ and tests/ do
// that): who meets whom, who is told what, and how it ends.

#include "runtime/engine.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "testing/control_net.h"

namespace r2ccl {
namespace {

struct FixedClock final : Clock {
  Instant now() override { return at; }
  Instant at{1h};
};

struct Node {
  Node(test::ControlTestNet& net, Clock& clock, std::uint64_t process, std::size_t nics, const EngineConfig& config)
      : provider(net, ProcessId{process}, nics),
        engine({clock, random, log}, provider, keyring, telemetry, {process}, config) {}
  test::NullLog log;
  test::CountingRandom random;
  test::ControlTestProvider provider;
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
    id = engine(1).host(count).value();
  }
  void join_all() {
    for (auto& node : nodes) node->engine.join(id);
    settle();
  }
  Engine& engine(std::uint64_t process) { return nodes[process - 1]->engine; }
  test::ControlTestProvider& provider(std::uint64_t process) { return nodes[process - 1]->provider; }
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
  test::ControlTestNet net;
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
  EXPECT_EQ(job.id.root.size(), 3u);
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
  test::ControlTestNet net;
  FixedClock clock;
  Node node(net, clock, 1, 3, config_of(1));
  node.provider.broken_nic = NicId{1};
  ASSERT_TRUE(node.engine.listen().has_value());
  ASSERT_EQ(node.engine.self().ports.size(), 2u);
  EXPECT_EQ(node.engine.self().ports[1].nic, NicId{2});
  EXPECT_EQ(node.log.lines.at(0), "NIC nic1 is left out: The address is gone.");
}

TEST(Engine, NoNicLeftIsAnError) {
  test::ControlTestNet net;
  FixedClock clock;
  Node node(net, clock, 1, 1, config_of(1));
  node.provider.broken_nic = NicId{0};
  EXPECT_FALSE(node.engine.listen().has_value());
}

TEST(Engine, ManagementNicCarriesNoData) {
  test::ControlTestNet net;
  FixedClock clock;
  EngineConfig config = config_of(1);
  config.management_nic = config.place_nic = NicId{2};
  Node node(net, clock, 1, 3, config);
  ASSERT_TRUE(node.engine.listen().has_value());
  EXPECT_EQ(node.engine.self().ports.size(), 2u);
  const Address management = Address::v4(127, 2, 0, 1, 1000);
  const auto id = node.engine.host_at({.nic = {2}}, 1);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->place, std::vector{management});
  EXPECT_EQ(id->root.size(), 3u);
  const auto other = node.engine.host(1);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->place, std::vector<Address>{});
  EXPECT_EQ(std::ranges::count(other->root, management), 0) << "without a place nothing is met there";
}

TEST(Engine, TooLargeAJobIsRefused) {
  Job job(1);
  EXPECT_FALSE(job.engine(1).host(kRosterMax + 1).has_value());
}

TEST(Engine, MembersMaySayHowManyTheyAre) {
  Job job(3);
  const UniqueId id = job.engine(1).host(0).value();
  const KeyId first = job.engine(2).join(id, 1, 2);
  const KeyId second = job.engine(3).join(id, 0, 2);
  job.settle();
  ASSERT_TRUE(job.engine(2).ready(first));
  EXPECT_EQ(job.engine(3).roster(second).front().process, ProcessId{3}) << "by the rank it joined as";
  const KeyId late = job.engine(1).join(id, 1, 3);
  job.settle();
  EXPECT_FALSE(job.engine(1).ready(late));
  EXPECT_NE(job.engine(1).join_failure(late).find("expects 3 processes, this job has 2"), std::string::npos);
}

TEST(Engine, RendezvousShareSessionsAndEndOneByOne) {
  Job job(3);
  job.join_all();
  Session* const before = &job.engine(1).session({2});
  const UniqueId id = job.engine(1).host(0).value();
  const KeyId here = job.engine(1).join(id, 0, 2);
  const KeyId there = job.engine(2).join(id, 1, 2);
  job.settle();
  ASSERT_TRUE(job.engine(1).ready(here));
  EXPECT_EQ(&job.engine(1).session({2}), before);
  EXPECT_EQ(job.engine(1).roster().size(), 3u);
  job.engine(1).leave(here, job.clock.at);
  job.engine(2).leave(there, job.clock.at);
  job.settle();
  EXPECT_TRUE(job.engine(1).ready()) << "the first rendezvous goes on";
  EXPECT_EQ(before->state(), SessionState::kActive);
}

TEST(Engine, ASessionMadeAfterANicLostItsCarrierKnowsAndTellsThePeer) {
  Job job(3);
  job.join_all();
  const std::uint64_t before = job.engine(1).path_changes();
  job.provider(1).events.push_back({{1}, false});
  job.settle();
  EXPECT_EQ(job.engine(1).without_carrier(), std::set<NicId>{{1}});
  EXPECT_GT(job.engine(1).path_changes(), before) << "also where nothing has used it";
  Session& there = job.engine(2).session({1});
  job.settle();
  const auto dark = [&] {
    std::vector<bool> by_path;
    for (const PathView& path : there.paths()) by_path.push_back(path.there_dark);
    return by_path;
  };
  EXPECT_EQ(dark(), (std::vector<bool>{false, true}));
  const std::uint64_t at_peer = job.engine(2).path_changes();
  job.provider(1).events.push_back({{1}, true});
  job.settle();
  EXPECT_TRUE(job.engine(1).without_carrier().empty());
  EXPECT_EQ(dark(), (std::vector<bool>{false, false}));
  EXPECT_GT(job.engine(2).path_changes(), at_peer);
}

struct CountingTask final : EngineTask {
  void on_completion(ProcessId, const Completion& completion) override { tokens.push_back(completion.token); }
  void on_notice(ProcessId, ByteView bytes) override { words.emplace_back(bytes.begin(), bytes.end()); }
  Turn step(Instant) override {
    ++steps;
    return {};
  }
  std::vector<std::uint64_t> tokens;
  std::vector<Bytes> words;
  int steps = 0;
};

TEST(Engine, CompletionsGoToTheTaskOfTheirGroup) {
  Job job(2);
  job.join_all();
  std::array<CountingTask, 2> mine;
  job.engine(1).attach({1}, mine[0]);
  job.engine(1).attach({2}, mine[1]);
  std::array<std::byte, 8> data{};
  HostRegion region(data.data(), data.size());
  Session& session = job.engine(1).session({2});
  session.join({1}, Secret{});
  ASSERT_TRUE(session.receive({1}, {5}, {&region, 0, 8}, 0, 11));
  session.abort({1});
  job.settle();
  EXPECT_EQ(mine[0].tokens, std::vector<std::uint64_t>{11});
  EXPECT_TRUE(mine[1].tokens.empty());
  EXPECT_GT(mine[1].steps, 0);
  CountingTask theirs;
  job.engine(2).attach({1}, theirs);
  job.engine(1).notify({2}, {1}, Bytes(3, std::byte{7}));
  job.engine(1).notify({2}, {9}, Bytes(3, std::byte{7}));
  job.settle();
  ASSERT_FALSE(theirs.words.empty());
  EXPECT_EQ(theirs.words.front(), Bytes(3, std::byte{7}));
  job.engine(2).detach({1});

  job.engine(1).detach({2});
  const int steps = mine[1].steps;
  job.settle();
  EXPECT_EQ(mine[1].steps, steps);
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
