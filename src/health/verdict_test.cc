#include "health/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace r2ccl {
namespace {

NicName nic(std::uint64_t server, std::uint8_t number = 1) {
  return {{server}, {number}};
}

const NicName kA = nic(0);
const NicName kB = nic(1);

constexpr auto kOk = ProbeResult::kOk;
constexpr auto kL = ProbeResult::kLocalError;
constexpr auto kT = ProbeResult::kTimeout;
constexpr auto kU = ProbeResult::kUnasked;
constexpr std::array kResults = {kOk, kL, kT, kU};

std::set<NicName> blamed(const Verdict& verdict) {
  std::set<NicName> names = {verdict.culprit};
  if (verdict.other) names.insert(*verdict.other);
  return names;
}

struct Row {
  Probes probes;
  Blame blame;
  std::set<NicName> names;
};

const std::set<NicName> kBoth = {kA, kB};

const std::vector<Row> kTable = {
    // The paper's rows and their completion.
    {{kL, kT, kT, kOk}, Blame::kNic, {kA}},
    {{kT, kL, kOk, kT}, Blame::kNic, {kB}},
    {{kT, kT, kOk, kOk}, Blame::kLink, kBoth},
    {{kOk, kOk, kOk, kOk}, Blame::kTransient, kBoth},
    {{kT, kT, kT, kOk}, Blame::kNic, {kA}},
    {{kT, kT, kOk, kT}, Blame::kNic, {kB}},
    {{kT, kT, kT, kT, true}, Blame::kRail, kBoth},
    {{kT, kT, kT, kT, false}, Blame::kNic, kBoth},
    {{kOk, kT, kU, kU}, Blame::kLink, kBoth},
    {{kT, kOk, kU, kU}, Blame::kLink, kBoth},
    // No third NIC: link, unless an end has a local error.
    {{kT, kT, kU, kU}, Blame::kLink, kBoth},
    {{kT, kT, kU, kU, true}, Blame::kLink, kBoth},
    {{kL, kT, kU, kU}, Blame::kNic, {kA}},
    {{kT, kL, kU, kU}, Blame::kNic, {kB}},
    {{kL, kL, kU, kU}, Blame::kNic, kBoth},
    {{kU, kU, kU, kU}, Blame::kUnknown, kBoth},
    // Two servers: a second NIC beside one end asks the far end.
    {{kT, kT, kU, kOk}, Blame::kLink, kBoth},
    {{kT, kT, kU, kT}, Blame::kNic, {kB}},
    {{kT, kT, kOk, kU}, Blame::kLink, kBoth},
    {{kT, kT, kT, kU}, Blame::kNic, {kA}},
    {{kL, kT, kU, kOk}, Blame::kNic, {kA}},
    // A third NIC with an error of its own has no voice.
    {{kT, kT, kL, kL}, Blame::kLink, kBoth},
    {{kT, kT, kT, kL}, Blame::kNic, {kA}},
    // A local error at an end that a third NIC reaches is about the way.
    {{kL, kT, kOk, kOk}, Blame::kLink, kBoth},
    {{kL, kT, kOk, kT}, Blame::kNic, {kB}},
    // A certain culprit explains the loss; one time-out does not make the other end guilty.
    {{kL, kT, kT, kT}, Blame::kNic, {kA}},
    {{kL, kL, kT, kT}, Blame::kNic, kBoth},
    // A dead switch takes the carrier from everyone.
    {{kL, kL, kT, kT, true}, Blame::kRail, kBoth},
    {{kL, kT, kT, kT, true}, Blame::kRail, kBoth},
    {{kT, kT, kT, kOk, true}, Blame::kNic, {kA}},
    // An end that was not asked.
    {{kU, kT, kT, kOk}, Blame::kNic, {kA}},
    {{kOk, kU, kU, kU}, Blame::kTransient, kBoth},
    // The path itself answers: what z sees is about other paths.
    {{kOk, kOk, kT, kOk}, Blame::kTransient, kBoth},
    {{kOk, kL, kOk, kOk}, Blame::kLink, kBoth},
};

TEST(Decide, EveryRowOfTheTable) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    const Verdict verdict = decide(kA, kB, kTable[i].probes);
    EXPECT_EQ(verdict.blame, kTable[i].blame) << "row " << i << ": " << to_text(verdict);
    EXPECT_EQ(blamed(verdict), kTable[i].names) << "row " << i << ": " << to_text(verdict);
    EXPECT_FALSE(verdict.why.empty());
  }
}

template <class Visit>
void for_every_probes(Visit visit) {
  for (const auto ab : kResults) {
    for (const auto ba : kResults) {
      for (const auto za : kResults) {
        for (const auto zb : kResults)
          for (const bool rail : {false, true}) visit(Probes{ab, ba, za, zb, rail});
      }
    }
  }
}

TEST(Decide, BothEndsReachTheSameVerdict) {
  for_every_probes([](const Probes& p) {
    const Verdict here = decide(kA, kB, p);
    const Verdict there = decide(kB, kA, {p.b_to_a, p.a_to_b, p.z_to_b, p.z_to_a, p.whole_rail_fails});
    EXPECT_EQ(here.blame, there.blame);
    EXPECT_EQ(to_text(here), to_text(there));
  });
}

TEST(Decide, ANicThatShookHandsIsNeverBlamedAlone) {
  for_every_probes([](const Probes& p) {
    const Verdict verdict = decide(kA, kB, p);
    if (verdict.blame != Blame::kNic) return;
    EXPECT_NE(p.a_to_b, kOk);
    EXPECT_NE(p.b_to_a, kOk);
    EXPECT_FALSE(blamed(verdict).contains(kA) && p.z_to_a == kOk);
    EXPECT_FALSE(blamed(verdict).contains(kB) && p.z_to_b == kOk);
  });
}

TEST(Decide, OnlyNoProbesAtAllLeaveItUnknown) {
  int unknown = 0;
  for_every_probes([&](const Probes& p) { unknown += decide(kA, kB, p).blame == Blame::kUnknown ? 1 : 0; });
  EXPECT_EQ(unknown, 2);
}

TEST(Decide, EveryPositionOfTheFailedServerIsRight) {
  constexpr std::uint64_t kServers = 5;
  for (std::uint64_t dead = 0; dead < kServers; ++dead) {
    for (std::uint64_t peer = 0; peer < kServers; ++peer) {
      if (peer == dead) continue;
      for (const bool local : {false, true}) {
        const ProbeResult own = local ? kL : kT;
        const Verdict one = decide(nic(dead), nic(peer), {own, kT, kT, kOk});
        const Verdict two = decide(nic(peer), nic(dead), {kT, own, kOk, kT});
        EXPECT_EQ(one.blame, Blame::kNic);
        EXPECT_EQ(one.culprit, nic(dead));
        EXPECT_EQ(two.culprit, nic(dead));
        EXPECT_FALSE(one.other);
      }
    }
  }
}

Observation seen(NicName here, NicName there, Cause cause) {
  return {here, there, cause, Instant{}};
}

// What every server reports when these NICs of the rail are black-holed.
std::vector<Observation> silence_around(const std::set<std::uint64_t>& dead, std::uint64_t servers, Cause cause) {
  std::vector<Observation> all;
  for (std::uint64_t x = 0; x < servers; ++x) {
    for (std::uint64_t y = 0; y < servers; ++y) {
      if (x != y && (dead.contains(x) || dead.contains(y))) all.push_back(seen(nic(x), nic(y), cause));
    }
  }
  return all;
}

TEST(Merge, HardEvidenceAtAnEndNamesThatNic) {
  for (const Cause cause : {Cause::kLocal, Cause::kCarrier}) {
    const std::vector at_a = {seen(kB, kA, Cause::kSilent), seen(kA, kB, cause)};
    EXPECT_EQ(merge(kA, kB, at_a).blame, Blame::kNic);
    EXPECT_EQ(merge(kA, kB, at_a).culprit, kA);
    EXPECT_EQ(merge(kA, kB, at_a).why, to_text(cause));
    const std::vector at_b = {seen(kB, kA, cause), seen(kA, kB, Cause::kTimeout)};
    EXPECT_EQ(merge(kA, kB, at_b).culprit, kB);
    const std::vector at_both = {seen(kB, kA, cause), seen(kA, kB, cause)};
    EXPECT_EQ(blamed(merge(kA, kB, at_both)), kBoth);
  }
}

TEST(Merge, HardEvidenceOfAnotherPathOfTheNicCounts) {
  const std::vector observations = {seen(kA, nic(2), Cause::kCarrier), seen(kB, kA, Cause::kReset)};
  EXPECT_EQ(merge(kA, kB, observations).culprit, kA);
}

TEST(Merge, SilenceFromOneServerOrAResetSettlesNothing) {
  for (const Cause cause : {Cause::kSilent, Cause::kTimeout, Cause::kReset, Cause::kClosed, Cause::kRefused,
                            Cause::kTold, Cause::kBadFrame, Cause::kDrained}) {
    const std::vector observations = {seen(kA, kB, cause), seen(kB, kA, cause)};
    EXPECT_EQ(merge(kA, kB, observations).blame, Blame::kUnknown) << to_text(cause);
  }
  EXPECT_EQ(merge(kA, kB, {}).blame, Blame::kUnknown);
  const std::vector resets = {seen(kB, kA, Cause::kReset), seen(nic(2), kA, Cause::kReset)};
  EXPECT_EQ(merge(kA, kB, resets).blame, Blame::kUnknown);
}

TEST(Merge, TwoNicsOfOneServerAreOneVoice) {
  const std::vector observations = {seen(nic(1, 0), kA, Cause::kSilent), seen(nic(1, 1), kA, Cause::kSilent)};
  EXPECT_EQ(merge(kA, kB, observations).blame, Blame::kUnknown);
}

TEST(Merge, SilenceFromTwoServersNamesTheNicForEveryPosition) {
  for (std::uint64_t servers = 3; servers <= 6; ++servers) {
    for (std::uint64_t dead = 0; dead < servers; ++dead) {
      const auto observations = silence_around({dead}, servers, dead % 2 == 0 ? Cause::kSilent : Cause::kTimeout);
      for (std::uint64_t peer = 0; peer < servers; ++peer) {
        if (peer == dead) continue;
        for (const Verdict& verdict :
             {merge(nic(dead), nic(peer), observations), merge(nic(peer), nic(dead), observations)}) {
          EXPECT_EQ(verdict.blame, Blame::kNic);
          EXPECT_EQ(blamed(verdict), std::set{nic(dead)}) << to_text(verdict);
        }
      }
    }
  }
}

TEST(Merge, TwoDeadNicsDoNotDragTheHealthyDown) {
  for (std::uint64_t servers = 4; servers <= 6; ++servers) {
    for (std::uint64_t x = 0; x < servers; ++x) {
      for (std::uint64_t y = 0; y < x; ++y) {
        const auto observations = silence_around({x, y}, servers, Cause::kSilent);
        for (std::uint64_t other = 0; other < servers; ++other) {
          if (other == x) continue;
          EXPECT_EQ(blamed(merge(nic(other), nic(x), observations)).contains(nic(other)), other == y);
        }
      }
    }
  }
}

TEST(Merge, WhereEverybodyIsSilentNobodyIsNamed) {
  const auto observations = silence_around({0, 1, 2}, 3, Cause::kSilent);
  EXPECT_EQ(merge(nic(0), nic(1), observations).blame, Blame::kUnknown);
}

TEST(Merge, AnAccuserWithoutCarrierHasNoVoice) {
  const std::vector observations = {seen(nic(2), kA, Cause::kSilent), seen(nic(2), nic(3), Cause::kCarrier),
                                    seen(nic(3), kA, Cause::kSilent)};
  EXPECT_EQ(merge(kA, kB, observations).blame, Blame::kUnknown);
}

TEST(Verdict, TextNamesObjectAndReason) {
  EXPECT_EQ(to_text(Verdict{Blame::kNic, nic(0, 1), std::nullopt, "carrier lost"}),
            "NIC 1 of server 0 down: carrier lost");
  EXPECT_EQ(to_text(Verdict{Blame::kLink, nic(0, 1), nic(0xabcdef012345, 2), "x"}),
            "link between NIC 1 of server 0 and NIC 2 of server 0000abcdef012345 down: x");
  for (int i = 0; i <= static_cast<int>(Blame::kTransient); ++i) {
    EXPECT_STRNE(to_text(static_cast<Blame>(i)), "unknown blame");
  }
}

}  // namespace
}  // namespace r2ccl
