#include "control/control.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "control/control_wire.h"
#include "testing/control_net.h"

namespace r2ccl {
namespace {

constexpr KeyId kKey{77};
const Address kRoot = Address::v4(127, 0, 0, 1, 1000);

// A root at process 1 and clients at processes 1..count; process 1 talks to its root over the fake network too.
struct Star {
  explicit Star(std::size_t count, std::size_t expected = 0, const ControlLimits& limits = {})
      : root(expected == 0 ? count : expected, {}, log, limits) {
    id = UniqueId::make(random, {kRoot});
    for (std::size_t i = 1; i <= count; ++i) add(i);
  }
  void add(std::uint64_t process, std::uint32_t rank = 1000) {
    providers[process] = std::make_unique<test::ControlTestProvider>(net, ProcessId{process}, 1);
    if (process == 1) {
      EXPECT_EQ(*providers[1]->listen({0}, 0), kRoot);
    }
    ProcessInfo info{{process}, {process}, rank == 1000 ? static_cast<std::uint32_t>(100 - process) : rank, "host", {}};
    clients[process] = std::make_unique<ControlClient>(info, id, kKey, 0, ControlNics{.data = {{0}}, .place = {}},
                                                       *providers[process], log);
  }
  // Steps everybody until nothing moves.
  void settle() {
    for (int round = 0; round < 200; ++round) {
      bool moved = false;
      while (auto link = providers[1]->accept()) {
        root.accept(std::move(link), now);
        moved = true;
      }
      if (root_alive) moved |= root.step(now).moved;
      for (auto& [process, client] : clients) moved |= client->step(now).moved;
      if (!moved) return;
    }
    FAIL() << "still moving after 200 rounds";
  }
  void pass(Duration time) {
    for (const Instant end = now + time; now < end;) {
      now += 50ms;
      settle();
    }
  }
  std::vector<ControlEvent> events(std::uint64_t process) { return clients[process]->take_events(); }

  test::NullLog log;
  test::CountingRandom random;
  test::ControlTestNet net;
  UniqueId id;
  Instant now{1h};
  ControlRoot root;
  bool root_alive = true;
  std::map<std::uint64_t, std::unique_ptr<test::ControlTestProvider>> providers;
  std::map<std::uint64_t, std::unique_ptr<ControlClient>> clients;
};

TEST(Control, EverybodyGetsTheSameRosterByRank) {
  for (std::size_t count = 2; count <= 16; ++count) {
    Star star(count);
    star.settle();
    EXPECT_TRUE(star.root.complete());
    const auto& roster = star.clients[1]->roster();
    ASSERT_EQ(roster.size(), count);
    EXPECT_TRUE(std::ranges::is_sorted(roster, {}, &ProcessInfo::rank));
    for (auto& [process, client] : star.clients) EXPECT_EQ(client->roster(), roster);
  }
}

TEST(Control, NobodyGetsARosterBeforeTheLastHasRegistered) {
  Star star(3, 4);
  star.settle();
  for (auto& [process, client] : star.clients) EXPECT_TRUE(client->roster().empty());
  star.add(4);
  star.settle();
  for (auto& [process, client] : star.clients) EXPECT_EQ(client->roster().size(), 4u);
}

// A thousand members would hold the root's other work up.
TEST(Control, ARosterIsSentToAFewMembersAStep) {
  ControlLimits limits;
  limits.roster_parts_per_step = 1;
  Star star(7, 8, limits);
  star.settle();
  star.add(8);
  std::int64_t have = 0;
  for (int round = 0; round < 100 && have < 8; ++round) {
    while (auto link = star.providers[1]->accept()) star.root.accept(std::move(link), star.now);
    const bool moved = star.root.step(star.now).moved;
    for (auto& [process, client] : star.clients) (void)client->step(star.now);
    const auto now_have = std::ranges::count_if(star.clients, [](auto& one) { return !one.second->roster().empty(); });
    EXPECT_LE(now_have, have + 1);
    EXPECT_TRUE(moved || now_have <= have) << "the root would not be called again";
    have = now_have;
  }
  EXPECT_EQ(have, 8);
}

TEST(Control, NoticesAreRelayedWithTheirSender) {
  Star star(3);
  star.settle();
  star.clients[2]->send({3}, NoticeKind::kSession, Bytes(9, std::byte{4}));
  star.settle();
  const auto events = star.events(3);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].process, ProcessId{2});
  EXPECT_EQ(events[0].notice, NoticeKind::kSession);
  EXPECT_EQ(events[0].bytes, Bytes(9, std::byte{4}));
  EXPECT_TRUE(star.events(1).empty());
}

TEST(Control, LostMemberIsGoneAndBackWhenItRegistersAgain) {
  Star star(3);
  star.settle();
  star.net.refuse = true;
  star.providers[3]->cut();
  star.settle();
  auto events = star.events(2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::kGone);
  EXPECT_EQ(events[0].process, ProcessId{3});
  star.net.refuse = false;
  star.pass(6s);
  events = star.events(2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::kBack);
  EXPECT_TRUE(star.clients[3]->connected());
  EXPECT_EQ(star.clients[3]->roster().size(), 3u);
}

TEST(Control, LateComerLearnsWhoIsAway) {
  Star star(3);
  star.settle();
  star.net.refuse = true;
  star.providers[2]->cut();
  star.providers[3]->cut();
  star.settle();
  star.net.refuse = false;
  star.clients.erase(3);
  star.pass(6s);
  const auto events = star.events(2);
  EXPECT_TRUE(std::ranges::any_of(events, [](const ControlEvent& event) {
    return event.kind == ControlEvent::Kind::kGone && event.process == ProcessId{3};
  }));
}

TEST(Control, FarewellIsSilent) {
  Star star(3);
  star.settle();
  star.clients[3]->finish();
  star.settle();
  star.pass(5s);
  EXPECT_TRUE(star.events(1).empty());
  EXPECT_TRUE(star.events(2).empty());
  EXPECT_FALSE(star.root.everybody_left());
  EXPECT_EQ(star.root.left(), std::vector{ProcessId{3}});
  star.clients[1]->finish();
  star.clients[2]->finish();
  star.settle();
  EXPECT_TRUE(star.root.everybody_left());
}

TEST(Control, SilenceEndsTheConnectionAndANewOneReplacesIt) {
  Star star(2);
  star.settle();
  star.providers[2]->silence();
  star.pass(2900ms);
  EXPECT_TRUE(star.events(1).empty());
  star.pass(3s);
  const auto events = star.events(1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, ControlEvent::Kind::kBack);
  EXPECT_TRUE(star.clients[2]->connected());
}

TEST(Control, NewerConnectionReplacesTheOlderWithoutAlarm) {
  Star star(2);
  star.settle();
  const Hello hello{Purpose::kControl, kKey, {2}, {}, {}};
  auto [mine, theirs] = make_local_links(hello, {1});
  ProcessInfo info{{2}, {2}, 98, "host", {}};
  ASSERT_TRUE(post_control(*mine, ControlFrame::kRegister, encode_register(info)));
  star.root.accept(std::move(theirs), star.now);
  star.root.step(star.now);
  star.root.step(star.now);
  EXPECT_TRUE(star.events(1).empty());
}

TEST(Control, GarbageIsIgnored) {
  Star star(2);
  star.settle();
  const Hello hello{Purpose::kControl, kKey, {9}, {}, {}};
  auto [mine, theirs] = make_local_links(hello, {1});
  star.root.accept(std::move(theirs), star.now);
  for (int type = 0; type < 256; ++type) {
    if (type == static_cast<int>(ControlFrame::kBye) || type == static_cast<int>(ControlFrame::kRegister)) continue;
    const Bytes junk(static_cast<std::size_t>(type), std::byte{0xa5});
    ASSERT_TRUE(post_control(*mine, static_cast<ControlFrame>(type), junk));
  }
  struct Nowhere final : FrameSink {
    Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
    void on_frame(Link&, const FrameHeader&, ByteView, Payload) override {}
  } nowhere;
  const auto step_all = [&] {
    for (int i = 0; i < 10; ++i) {
      star.root.step(star.now);
      mine->step(star.now, nowhere);
      for (auto& [process, client] : star.clients) client->step(star.now);
    }
  };
  step_all();
  EXPECT_EQ(mine->state(), LinkState::kUp);
  EXPECT_TRUE(star.clients[2]->connected());
  for (int i = 0; i < 6; ++i) {
    star.now += 1s;
    step_all();
  }
  EXPECT_EQ(mine->state(), LinkState::kDown) << "a connection that never registers is closed";
  EXPECT_TRUE(star.clients[2]->connected());
  EXPECT_TRUE(star.events(1).empty());
}

TEST(Control, StrangerIsToldThatTheJobIsComplete) {
  Star star(2);
  star.settle();
  star.add(9);
  star.settle();
  EXPECT_NE(star.clients[9]->failure().find("complete with 2 processes"), std::string::npos)
      << star.clients[9]->failure();
  EXPECT_TRUE(star.events(1).empty());
}

TEST(Control, RankTakenTwiceIsRefusedWhileTheFirstIsHereAndReplacedWhenItIsNot) {
  Star star(2, 3);
  star.settle();
  star.add(9, 98);  // the rank of process 2
  star.settle();
  EXPECT_NE(star.clients[9]->failure().find("rank 98 is already taken"), std::string::npos)
      << star.clients[9]->failure();
  star.clients.erase(2);
  star.providers.erase(2);
  star.add(3);
  star.pass(6s);
  EXPECT_TRUE(star.root.complete());
  EXPECT_EQ(star.clients[9]->roster().size(), 3u);
  EXPECT_EQ(star.clients[9]->failure(), "");
}

TEST(Control, WrongSecretIsNamedAndAttemptsGoOn) {
  Star star(2);
  star.net.unproven = true;
  star.settle();
  EXPECT_NE(star.clients[2]->failure().find("do not share a secret"), std::string::npos);
  star.net.unproven = false;
  star.pass(6s);
  EXPECT_EQ(star.clients[2]->roster().size(), 2u);
  EXPECT_EQ(star.clients[2]->failure(), "");
}

TEST(Control, AttemptsBackOffToFiveSeconds) {
  Star star(1, 1);
  star.net.refuse = true;
  star.pass(60s);
  EXPECT_GE(star.providers[1]->connects, 14);
  EXPECT_LE(star.providers[1]->connects, 20);
}

TEST(Control, EveryNicIsTriedAtEveryAddressOfTheRoot) {
  Star star(1, 2);
  test::ControlTestProvider provider(star.net, ProcessId{2}, 3);
  const auto nobody = [](std::uint8_t rail) { return Address::v4(127, rail, 9, 9, 1000); };
  const UniqueId id = UniqueId::make(star.random, {nobody(0), nobody(1), nobody(2)});
  ControlClient client({{2}, {2}, 5, "host", {}}, id, kKey, 0, {.data = {{0}, {1}, {2}}, .place = {}}, provider,
                       star.log);
  for (int i = 0; i < 2000; ++i) client.step(star.now += 50ms);
  std::set<std::pair<NicId, Address>> tried(provider.tried.begin(), provider.tried.end());
  EXPECT_EQ(tried.size(), 9u);
  EXPECT_EQ(provider.tried[1], std::pair(NicId{1}, nobody(1)));
}

TEST(Control, DeadRootIsReportedGone) {
  Star star(2);
  star.settle();
  star.net.refuse = true;
  star.root_alive = false;
  star.clients.erase(1);
  star.providers[1]->cut();
  star.pass(1s);
  const auto events = star.events(2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::kGone);
  EXPECT_EQ(events[0].process, ProcessId{1});
}

TEST(Control, RootsFarewellEndsTheClientsWithoutAlarm) {
  Star star(3);
  star.settle();
  star.root.finish();
  star.settle();
  EXPECT_FALSE(star.clients[2]->connected());
  const int connects = star.providers[2]->connects;
  star.pass(10s);
  EXPECT_EQ(star.providers[2]->connects, connects);
  EXPECT_TRUE(star.events(2).empty());
}

TEST(Control, HostingProcessReachesItsRootWithoutNetwork) {
  Star star(2);
  star.clients.erase(1);
  star.net.refuse = true;
  ProcessInfo info{{1}, {1}, 0, "host", {}};
  star.clients[1] = std::make_unique<ControlClient>(info, star.id, kKey, 0, ControlNics{.data = {{0}}, .place = {}},
                                                    *star.providers[1], star.log);
  auto [here, there] = make_local_links({Purpose::kControl, kKey, {1}, {}, {}}, {1});
  star.clients[1]->adopt(std::move(here));
  star.root.accept(std::move(there), star.now);
  star.settle();
  EXPECT_TRUE(star.clients[1]->connected());
  star.net.refuse = false;
  star.pass(1s);
  EXPECT_EQ(star.clients[1]->roster().size(), 2u);
}

TEST(Control, UnregisteredConnectionsAreBounded) {
  Star star(2);
  star.settle();
  std::vector<std::unique_ptr<Link>> ends;
  for (std::uint64_t i = 0; i < 200; ++i) {
    auto [mine, theirs] = make_local_links({Purpose::kControl, kKey, {1000 + i}, {}, {}}, {1});
    star.root.accept(std::move(theirs), star.now);
    ends.push_back(std::move(mine));
  }
  star.clients[1]->send({2}, NoticeKind::kSession, {});
  star.settle();
  EXPECT_EQ(star.events(2).size(), 1u);
}

TEST(Control, IdleClientAsksToBeCalledForItsNextHeartbeat) {
  Star star(2);
  star.settle();
  const Turn turn = star.clients[2]->step(star.now);
  EXPECT_FALSE(turn.moved);
  EXPECT_GT(turn.next, star.now);
  EXPECT_LE(turn.next, star.now + 1s);
}

// Networks 0 and 1 carry data, 2 is for management: the root is to be met there, and nobody was told of any other
// address.
struct Meeting {
  static constexpr std::uint8_t kManagement = 2;
  static Address root_on(std::uint8_t network) { return Address::v4(127, network, 0, 1, 1000); }

  explicit Meeting(std::size_t members, std::size_t expected = 0)
      : root(expected == 0 ? members : expected, {root_on(0), root_on(1)}, log) {
    net.isolated = true;
    for (std::uint8_t nic = 0; nic < 3; ++nic) host.listen({nic}, 0);
    id = UniqueId::make(random, {root_on(kManagement)});
    id.place = id.root;
    for (std::size_t i = 0; i < members; ++i) add();
  }
  void add() {
    const std::uint64_t process = 2 + clients.size();
    providers.push_back(std::make_unique<test::ControlTestProvider>(net, ProcessId{process}, 3));
    const ProcessInfo info{{process}, {process}, static_cast<std::uint32_t>(process), "host", {}};
    const ControlNics nics{.data = {{0}, {1}}, .place = {kManagement}};
    clients.push_back(std::make_unique<ControlClient>(info, id, kKey, 0, nics, *providers.back(), log));
  }
  void pass(Duration time) {
    for (const Instant end = now + time; now < end; now += 10ms) {
      for (int round = 0; round < 6; ++round) {
        while (auto link = host.accept()) root.accept(std::move(link), now);
        root.step(now);
        for (auto& client : clients) client->step(now);
      }
    }
  }
  void kill(std::uint8_t network) {
    net.dead.insert(network);
    host.silence_network(network);
  }
  // Until the first member's control goes by that network; two minutes are more than any way takes.
  void pass_until_by(int network) {
    for (int i = 0; i < 1200 && network_of(0) != network; ++i) pass(100ms);
    EXPECT_EQ(network_of(0), network);
  }
  // By which network the member's control goes; -1: it has none.
  int network_of(std::size_t member) const {
    const auto way = clients[member]->way();
    if (!way) return -1;
    EXPECT_EQ(way->root, root_on(way->nic.value));
    return way->nic.value;
  }
  std::vector<ControlEvent::Kind> events(std::size_t member) {
    std::vector<ControlEvent::Kind> kinds;
    for (const ControlEvent& event : clients[member]->take_events()) kinds.push_back(event.kind);
    return kinds;
  }

  test::NullLog log;
  test::CountingRandom random;
  test::ControlTestNet net;
  test::ControlTestProvider host{net, ProcessId{1}, 3};
  UniqueId id;
  Instant now{1h};
  ControlRoot root;
  std::vector<std::unique_ptr<test::ControlTestProvider>> providers;
  std::vector<std::unique_ptr<ControlClient>> clients;
};

TEST(ControlPlace, WaysGoToThePlaceAndThenRailByRail) {
  const Address place = Meeting::root_on(2);
  const std::vector<Address> reach{Meeting::root_on(0), Meeting::root_on(1)};
  const std::vector<Nic> nics{{.id = {0}, .name = "a", .address = Address::v4(127, 0, 0, 9)},
                              {.id = {1}, .name = "b", .address = Address::v4(127, 1, 0, 9)},
                              {.id = {2}, .name = "m", .address = {}}};
  UniqueId id;
  id.root = id.place = {place};
  const ControlNics from{.data = {{0}, {1}}, .place = {2}};
  using Ways = std::vector<ControlWay>;
  EXPECT_EQ(control_ways(id, from, {}, nics), (Ways{{{2}, place}}));
  EXPECT_EQ(control_ways(id, {.data = {{0}, {1}}, .place = {1}}, {}, nics),
            (Ways{{{1}, place}, {{0}, place}, {{1}, place}}))
      << "where a data NIC leads there the others may, too";
  EXPECT_EQ(control_ways(id, from, reach, nics),
            (Ways{{{2}, place}, {{0}, reach[0]}, {{1}, reach[1]}, {{2}, place}, {{0}, reach[1]}, {{1}, reach[0]}}));
  id.place = {};
  EXPECT_EQ(control_ways(id, from, reach, nics),
            (Ways{{{0}, reach[0]}, {{1}, reach[1]}, {{0}, reach[1]}, {{1}, reach[0]}}));
  const Address v6 = Address::parse("[2001:db8::1]:5").value();
  id.root = id.place = {v6};
  EXPECT_EQ(control_ways(id, from, {}, nics), (Ways{{{2}, v6}})) << "only a NIC of no address in particular has both";
  id.place = {};
  EXPECT_EQ(control_ways(id, from, {}, nics).size(), 2u) << "then each fails with a reason";
}

TEST(ControlPlace, ControlLeavesADeadNetworkAndComesBackWithoutAlarm) {
  Meeting job(3);
  job.pass(1s);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(job.network_of(i), 2);
  job.kill(Meeting::kManagement);
  job.pass(5s);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(job.network_of(i), 0);
  for (std::size_t i = 0; i < 3; ++i) job.events(i);
  job.clients[0]->send({3}, NoticeKind::kApplication, Bytes(5));
  job.pass(100ms);
  EXPECT_EQ(job.events(1), std::vector{ControlEvent::Kind::kNotice}) << "notices go over data NICs now";
  job.net.dead.clear();
  job.pass(10s);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(job.network_of(i), 2);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(job.events(i).empty()) << "who goes back is not gone meanwhile";
  job.clients[0]->send({3}, NoticeKind::kApplication, Bytes(5));
  job.pass(100ms);
  EXPECT_EQ(job.events(1), std::vector{ControlEvent::Kind::kNotice});
}

TEST(ControlPlace, WhoHasRegisteredNeedsThePlaceNoMore) {
  Meeting job(2, 3);
  job.pass(1s);
  job.kill(Meeting::kManagement);
  job.pass(5s);
  EXPECT_EQ(job.network_of(0), 0);
  EXPECT_TRUE(job.clients[0]->roster().empty());
  job.net.dead.clear();
  job.add();
  job.pass(2s);
  EXPECT_EQ(job.clients[2]->roster().size(), 3u);
  EXPECT_EQ(job.clients[0]->roster().size(), 3u);
}

TEST(ControlPlace, DataNicsThatDieGiveWayToTheNextAndToThePlace) {
  Meeting job(2);
  job.pass(1s);
  job.kill(2);
  job.pass(5s);
  EXPECT_EQ(job.network_of(0), 0);
  job.kill(0);
  job.pass(8s);
  EXPECT_EQ(job.network_of(0), 1);
  job.net.dead.erase(2);
  job.kill(1);
  job.pass(5s);
  EXPECT_EQ(job.network_of(0), 2);
}

TEST(ControlPlace, ANetworkThatKeepsFailingIsTriedLessOften) {
  Meeting job(1);
  const auto returns_after = [&] {
    job.kill(2);
    job.pass_until_by(0);
    job.net.dead.clear();
    const Instant healed = job.now;
    job.pass_until_by(2);
    return job.now - healed;
  };
  job.pass(1s);
  EXPECT_LE(returns_after(), 3s);
  for (int i = 0; i < 6; ++i) returns_after();
  EXPECT_GE(returns_after(), 30s);
  EXPECT_LE(returns_after(), 61s);
  job.pass(61s);
  EXPECT_LE(returns_after(), 3s) << "after a minute without a failure it is trusted again";
}

TEST(ControlPlace, FarewellWhileGoingBackIsHeard) {
  Meeting job(2);
  job.pass(1s);
  job.kill(2);
  job.pass(5s);
  job.net.dead.clear();
  job.pass_until_by(2);
  job.clients[0]->finish();
  job.pass(5s);
  EXPECT_EQ(job.root.left(), std::vector{ProcessId{2}});
}

}  // namespace
}  // namespace r2ccl
