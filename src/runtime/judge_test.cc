// Judges of several processes, joined by a perfect control network; which NIC reaches which is a function of the test.

#include "runtime/judge.h"

#include <functional>

#include <gtest/gtest.h>

#include "testing/control_net.h"

namespace r2ccl {
namespace {

enum class Way : std::uint8_t { kOpen, kSilent, kLocal, kRefused };
// From NIC (server, nic) to NIC (server, nic).
using Ways = std::function<Way(NicName from, NicName to)>;

class StubLink final : public Link {
 public:
  explicit StubLink(Way way) : way_(way) {}
  LinkState state() const override {
    if (way_ == Way::kOpen) return LinkState::kUp;
    return way_ == Way::kSilent ? LinkState::kOpening : LinkState::kDown;
  }
  Cause cause() const override {
    if (way_ == Way::kLocal) return Cause::kLocal;
    return way_ == Way::kRefused ? Cause::kRefused : Cause::kNone;
  }
  const std::string& error() const override { return error_; }
  const Hello& hello() const override { return hello_; }
  ProcessId peer() const override { return {}; }
  NicId nic() const override { return {}; }
  Result<Ticket> post(const OutFrame&) override { return fail(Fault::kPathDown, "stub"); }
  bool forget(Ticket) override { return false; }
  void discard_rest() override {}
  bool step(Instant, FrameSink&) override { return false; }
  void drain_and_close(Instant, FrameSink&) override {}
  void close() override {}
  Progress progress(Instant) override { return {}; }
  bool deafen(bool) override { return false; }

 private:
  Way way_;
  Hello hello_;
  std::string error_;
};

NicName named(std::uint64_t server, std::uint8_t nic) {
  return {{server}, {nic}};
}
Address address_of(NicName name) {
  return Address::v4(127, name.nic.value, 0, static_cast<std::uint8_t>(name.server.value), 9);
}
NicName name_at(const Address& address) {
  return named(address.ip[15], address.ip[13]);
}

class StubProvider final : public Provider {
 public:
  StubProvider(ServerId server, const Ways& ways) : server_(server), ways_(ways) {}
  std::span<const Nic> nics() const override { return {}; }
  Result<Address> listen(NicId, std::uint16_t) override { return fail(Fault::kMisuse, "stub"); }
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant) override {
    EXPECT_EQ(hello.purpose, Purpose::kProbe);
    ++connects;
    return std::make_unique<StubLink>(ways_({server_, nic}, name_at(remote)));
  }
  std::unique_ptr<Link> accept() override { return nullptr; }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  Turn step(Instant) override { return {}; }
  int connects = 0;

 private:
  ServerId server_;
  const Ways& ways_;
};

// One process per server, numbered alike; NICs 0..nics-1 each.
struct World final {
  struct Member final : NoticeSender, ProcessKeys {
    Member(World& world_ref, std::uint64_t number, JudgeConfig config)
        : world(world_ref),
          self(number),
          provider({number}, world.ways),
          judge(world.roster[number - 1], world.roster, provider, *this, *this, log, telemetry, config) {}
    KeyId key_for(ProcessId) const override { return {}; }
    void send_notice(ProcessId to, NoticeKind kind, ByteView bytes) override {
      if (world.control_works) world.mail.push_back({{self}, to, kind, Bytes(bytes.begin(), bytes.end())});
    }
    World& world;
    std::uint64_t self;
    StubProvider provider;
    test::NullLog log;
    Telemetry telemetry;
    Judge judge;
  };
  struct Letter {
    ProcessId from, to;
    NoticeKind kind;
    Bytes bytes;
  };

  explicit World(std::size_t servers, std::uint8_t nics = 2, Fabric fabric = Fabric::kRouted) {
    for (std::uint64_t s = 1; s <= servers; ++s) {
      ProcessInfo info{{s}, {s}, static_cast<std::uint32_t>(s), "host" + std::to_string(s), {}};
      for (std::uint8_t n = 0; n < nics; ++n)
        info.ports.push_back({{n}, "eth" + std::to_string(n), address_of(named(s, n)), 0});
      roster.push_back(info);
    }
    for (std::uint64_t s = 1; s <= servers; ++s)
      members.push_back(std::make_unique<Member>(*this, s, JudgeConfig{fabric, 250ms}));
  }
  Judge& judge(std::uint64_t server) { return members[server - 1]->judge; }
  // The process on `here`'s server saw its path to `there` die.
  void observe(NicName here, NicName there, Cause cause) {
    judge(here.server.value).on_observation({there.server.value}, {here, there, cause, now}, now);
  }
  void observe_both(NicName a, NicName b, Cause cause) {
    observe(a, b, cause);
    observe(b, a, cause);
  }
  void pass(Duration time) {
    for (const Instant end = now + time; now < end; now += 1ms) {
      for (auto& member : members) member->judge.step(now);
      for (const Letter& letter : std::exchange(mail, {})) {
        judge(letter.to.value).on_notice(letter.from, letter.kind, letter.bytes, now);
      }
    }
  }
  void expect_verdict(std::uint64_t server, Blame blame, NicName culprit) {
    const auto& verdicts = judge(server).verdicts();
    ASSERT_EQ(verdicts.size(), 1u) << "at server " << server;
    EXPECT_EQ(verdicts[0].blame, blame) << to_text(verdicts[0]);
    EXPECT_EQ(verdicts[0].culprit, culprit) << to_text(verdicts[0]);
  }

  Instant now{1h};
  Ways ways = [](NicName, NicName) { return Way::kOpen; };
  bool control_works = true;
  std::vector<ProcessInfo> roster;
  std::vector<Letter> mail;
  std::vector<std::unique_ptr<Member>> members;
};

// Nothing gets in or out of this NIC.
Ways dead_nic(NicName dead) {
  return [dead](NicName from, NicName to) { return from == dead || to == dead ? Way::kSilent : Way::kOpen; };
}

TEST(Judge, CarrierLossNeedsNoProbe) {
  World world(2);
  world.observe(named(2, 1), named(1, 1), Cause::kCarrier);
  world.observe(named(1, 1), named(2, 1), Cause::kTold);
  world.pass(100ms);
  world.expect_verdict(1, Blame::kNic, named(2, 1));
  world.expect_verdict(2, Blame::kNic, named(2, 1));
  EXPECT_EQ(world.members[0]->provider.connects + world.members[1]->provider.connects, 0);
  EXPECT_EQ(world.members[0]->log.lines.at(0), "NIC eth1 (server 2): carrier lost; 1 path down");
}

TEST(Judge, SilentNicIsFoundByProbesAtEveryPosition) {
  for (const std::size_t servers : {2u, 3u, 4u}) {
    for (std::uint64_t dead = 1; dead <= servers; ++dead) {
      World world(servers);
      world.ways = dead_nic(named(dead, 1));
      const std::uint64_t other = dead == 1 ? 2 : 1;
      world.observe_both(named(dead, 1), named(other, 1), Cause::kSilent);
      world.pass(2s);
      world.expect_verdict(dead, Blame::kNic, named(dead, 1));
      world.expect_verdict(other, Blame::kNic, named(dead, 1));
    }
  }
}

TEST(Judge, OnlyTheLowerProcessAsksForProbes) {
  World world(2);
  world.ways = dead_nic(named(2, 0));
  world.observe(named(2, 0), named(1, 0), Cause::kReset);
  world.pass(2s);
  EXPECT_EQ(world.members[0]->provider.connects, 2) << "to the peer, and from another NIC to the peer";
  EXPECT_EQ(world.members[1]->provider.connects, 2) << "as asked";
  world.expect_verdict(2, Blame::kNic, named(2, 0));
}

TEST(Judge, BrokenWayBetweenTwoWorkingNicsIsTheLink) {
  World world(3);
  world.ways = [](NicName from, NicName to) {
    const bool between = (from == named(1, 0) && to == named(2, 0)) || (from == named(2, 0) && to == named(1, 0));
    return between ? Way::kSilent : Way::kOpen;
  };
  world.observe_both(named(1, 0), named(2, 0), Cause::kSilent);
  world.pass(2s);
  world.expect_verdict(1, Blame::kLink, named(1, 0));
  EXPECT_EQ(world.judge(2).verdicts().at(0).other, named(2, 0));
}

TEST(Judge, ResetThatAnswersAgainIsTransient) {
  World world(2);
  world.observe_both(named(1, 0), named(2, 0), Cause::kReset);
  world.pass(1s);
  world.expect_verdict(1, Blame::kTransient, named(1, 0));
}

TEST(Judge, OnIsolatedRailsTwoServersCanOnlyBlameTheLink) {
  World world(2, 2, Fabric::kRails);
  world.ways = dead_nic(named(2, 1));
  world.observe_both(named(1, 1), named(2, 1), Cause::kSilent);
  world.pass(2s);
  world.expect_verdict(1, Blame::kLink, named(1, 1));
}

TEST(Judge, ThirdServerOnTheSameRailSettlesItOnIsolatedRails) {
  World world(3, 2, Fabric::kRails);
  world.ways = dead_nic(named(2, 1));
  world.observe_both(named(1, 1), named(2, 1), Cause::kSilent);
  world.pass(2s);
  world.expect_verdict(1, Blame::kNic, named(2, 1));
}

TEST(Judge, ManyPathsOfOneNicMakeOneVerdict) {
  World world(5);
  world.ways = dead_nic(named(1, 1));
  for (std::uint64_t other = 2; other <= 5; ++other) world.observe_both(named(1, 1), named(other, 1), Cause::kSilent);
  world.pass(1s);
  world.observe_both(named(1, 1), named(3, 0), Cause::kSilent);
  world.pass(1s);
  for (std::uint64_t server = 1; server <= 5; ++server) world.expect_verdict(server, Blame::kNic, named(1, 1));
  EXPECT_NE(world.members[0]->log.lines.at(0).find("4 paths down"), std::string::npos)
      << world.members[0]->log.lines[0];
}

TEST(Judge, SameNicFailingAgainLaterIsSaidAgain) {
  World world(2);
  for (int round = 0; round < 3; ++round) {
    world.observe(named(1, 0), named(2, 0), Cause::kCarrier);
    world.pass(Judge::kSameFault + 1s);
  }
  EXPECT_EQ(world.judge(1).verdicts().size(), 3u);
  EXPECT_EQ(world.judge(2).verdicts().size(), 3u);
}

TEST(Judge, HardEvidenceDuringProbingEndsIt) {
  World world(2);
  world.ways = dead_nic(named(2, 0));
  world.observe(named(1, 0), named(2, 0), Cause::kSilent);
  world.pass(100ms);
  EXPECT_TRUE(world.judge(1).verdicts().empty());
  world.observe(named(2, 0), named(1, 0), Cause::kCarrier);
  world.pass(30ms);
  world.expect_verdict(1, Blame::kNic, named(2, 0));
  EXPECT_EQ(world.judge(1).verdicts()[0].why, "carrier lost");
}

TEST(Judge, GonePeerIsNoFaultOfItsNics) {
  World world(2);
  world.observe(named(1, 0), named(2, 0), Cause::kClosed);
  world.pass(5ms);
  world.judge(1).on_gone({2});
  world.pass(2s);
  EXPECT_TRUE(world.judge(1).verdicts().empty());
}

TEST(Judge, RefusedProbeMeansADeadProcess) {
  World world(2);
  world.control_works = false;
  world.ways = [](NicName, NicName) { return Way::kRefused; };
  world.observe(named(1, 0), named(2, 0), Cause::kReset);
  world.pass(2s);
  EXPECT_TRUE(world.judge(1).verdicts().empty());
}

TEST(Judge, WithoutControlTheLowerEndStillDecides) {
  World world(2);
  world.control_works = false;
  world.ways = dead_nic(named(2, 0));
  world.observe(named(1, 0), named(2, 0), Cause::kSilent);
  world.observe(named(2, 0), named(1, 0), Cause::kSilent);
  world.pass(3s);
  world.expect_verdict(1, Blame::kNic, named(2, 0));
  EXPECT_TRUE(world.judge(2).verdicts().empty());
}

TEST(Judge, DrainedAndReplacedPathsAreNotJudged) {
  World world(2);
  world.observe_both(named(1, 0), named(2, 0), Cause::kDrained);
  world.observe_both(named(1, 1), named(2, 1), Cause::kReplaced);
  world.pass(2s);
  EXPECT_TRUE(world.judge(1).verdicts().empty());
}

TEST(Judge, ProcessSpeaksForItsOwnServerOnly) {
  World world(3);
  const Observation forged{named(2, 0), named(1, 0), Cause::kCarrier, {}};
  world.judge(1).on_notice({3}, NoticeKind::kObservation, encode_observation(forged), world.now);
  world.pass(1s);
  EXPECT_TRUE(world.judge(1).verdicts().empty());
}

TEST(Judge, VerdictsAreBounded) {
  World world(2);
  for (std::size_t i = 0; i < Judge::kVerdictsMax + 10; ++i) {
    Verdict verdict{Blame::kNic, named(2, 0), std::nullopt, std::to_string(i)};
    world.judge(1).on_notice({2}, NoticeKind::kVerdict, encode_verdict(verdict), world.now);
    world.now += Judge::kSameFault;
  }
  EXPECT_EQ(world.judge(1).verdicts().size(), Judge::kVerdictsMax);
  EXPECT_EQ(world.judge(1).verdicts().back().why, std::to_string(Judge::kVerdictsMax + 9));
}

TEST(HealthNotices, SurviveAndRefuseTruncationAndExcess) {
  const Verdict verdict{Blame::kLink, named(1, 2), named(3, 4), "why\n"};
  const std::vector<Bytes> all = {encode_observation({named(1, 2), named(3, 4), Cause::kSilent, {}}),
                                  encode_probe_request({5, {1}, {2}, {3}}),
                                  encode_probe_answer({5, ProbeResult::kTimeout}), encode_verdict(verdict)};
  const auto parses = [](std::size_t kind, ByteView bytes) {
    if (kind == 0) return parse_observation(bytes).has_value();
    if (kind == 1) return parse_probe_request(bytes).has_value();
    if (kind == 2) return parse_probe_answer(bytes).has_value();
    return parse_verdict(bytes).has_value();
  };
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    EXPECT_TRUE(parses(kind, all[kind]));
    for (std::size_t size = 0; size < all[kind].size(); ++size)
      EXPECT_FALSE(parses(kind, ByteView(all[kind]).first(size)));
    Bytes longer = all[kind];
    longer.push_back(std::byte{0});
    EXPECT_FALSE(parses(kind, longer));
  }
  EXPECT_EQ(parse_verdict(all[3])->why, "why?");
}

}  // namespace
}  // namespace r2ccl
