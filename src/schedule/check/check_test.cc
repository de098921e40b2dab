#include "schedule/check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "schedule/check/check_shorten.h"
#include "testing/check_examples.h"

namespace r2ccl {
namespace {

using ::testing::HasSubstr;

std::string verdict(const Schedule& s, bool full = false) {
  const Result<CheckReport> r = check(s, {.full = full});
  return r ? "" : r.error().what;
}

TEST(Check, AcceptsEveryExample) {
  for (const Schedule& s : example::all()) {
    EXPECT_EQ(verdict(s), "") << to_text(s.header.collective) << " over " << s.header.ranks;
    EXPECT_EQ(verdict(s, true), "");
  }
}

TEST(Check, AcceptsRingsOfAnySize) {
  for (std::uint32_t ranks = 2; ranks <= 6; ++ranks) {
    for (const std::uint32_t segments : {1U, 2U, 7U, 40U}) {
      const Result<CheckReport> r = check(example::ring(ranks, segments), {.full = true});
      ASSERT_TRUE(r) << r.error().what;
      EXPECT_EQ(r->messages, 2ULL * (ranks - 1) * ranks * segments);
      EXPECT_EQ(r->steps, 2 * (ranks - 1) + 1ULL);
      EXPECT_EQ(verdict(example::ring(ranks, segments)), "");
    }
  }
}

TEST(Check, AcceptsDirectWithAnyWeightsAndLag) {
  for (std::uint32_t ranks = 2; ranks <= 5; ++ranks) {
    for (std::uint32_t lag = 1; lag <= 3; ++lag) {
      for (const std::uint32_t segments : {1U, 4U, 64U}) {
        std::vector<double> weights;
        for (std::uint32_t i = 0; i < ranks; ++i) weights.push_back(i == 1 ? 0 : 1.0 + i);
        EXPECT_EQ(verdict(example::direct(ranks, segments, lag, weights)), "");
        EXPECT_EQ(verdict(example::direct(ranks, segments, lag, weights), true), "");
      }
    }
  }
}

TEST(Check, OneRankNeedsOnlyACopy) {
  Schedule s = example::empty(Collective::kAllReduce, 1, Layout::equal(1));
  s.lanes[0] = {{.name = "copy",
                 .steps = {{.kind = StepKind::kCopy, .source = example::kInput, .destination = example::kOutput}}}};
  EXPECT_EQ(verdict(s), "");
  s.lanes[0].clear();
  EXPECT_EQ(verdict(s), "rank 0, no lane, no step: the output of piece 0 is never written");
}

TEST(Check, NamesBothStepsOfAnEarlyOverwrite) {
  Schedule s = example::star(3, 4);
  s.lanes[1][0].steps[0].waits.clear();
  EXPECT_EQ(verdict(s),
            "rank 1, lane up, step 0 (iteration 2.0): overwrites piece 0 of segment 2 before the receipt of "
            "lane up, step 1 (iteration 0.0), which sends it");
}

TEST(Check, AWaitMustReachBackFarEnough) {
  Schedule s = example::star(3, 5);
  s.lanes[1][0].steps[0].waits[0].outer_offset = -3;
  EXPECT_THAT(verdict(s), HasSubstr("rank 1, lane up, step 0 (iteration 2.0): overwrites"));
  s.lanes[1][0].steps[0].waits[0].outer_offset = -1;
  EXPECT_EQ(verdict(s), "");
}

// Rank 1 hands on what rank 0 gave it and gets the same again: that says nothing about its own message.
TEST(Check, ForeignContributionsComingBackProveNothing) {
  Schedule s = example::empty(Collective::kBroadcast, 3, Layout::equal(1));
  s.header.slots = 4;
  const Step to_one{.kind = StepKind::kSend, .to = fixed(1), .source = example::kInput};
  const Step copy{.kind = StepKind::kCopy, .source = example::kInput, .destination = example::kOutput};
  const Step on{.kind = StepKind::kRecvCopySend, .from = fixed(0), .to = fixed(2), .destination = example::kOutput};
  Step again{.kind = StepKind::kRecv, .from = fixed(0), .destination = example::kOutput};
  const Step last{.kind = StepKind::kRecv, .from = fixed(1), .destination = example::kOutput};
  s.lanes[0] = {{.name = "a", .steps = {to_one, to_one, copy}}};
  s.lanes[1] = {{.name = "b", .steps = {on, again}}};
  s.lanes[2] = {{.name = "c", .steps = {last}}};
  EXPECT_THAT(
      verdict(s),
      HasSubstr("rank 1, lane b, step 1 (iteration 0.0): overwrites piece 0 before the receipt of lane b, step 0"));
  s.lanes[1][0].steps[1].waits = {{.lane = 0, .step = 0}};
  EXPECT_EQ(verdict(s), "");
}

// Two exchange sums; what arrives is not made from what was sent, so the sum may not be written over it yet. Only in
// place and only without the wait.
TEST(Check, AnExchangeMustWaitForItsReceipt) {
  Schedule s = example::empty(Collective::kAllReduce, 2, Layout::equal(1));
  for (std::uint32_t me = 0; me < 2; ++me) {
    const Step out{.kind = StepKind::kSend, .to = fixed(1 - me), .source = example::kInput};
    Step in{.kind = StepKind::kRecvReduce,
            .from = fixed(1 - me),
            .source = example::kInput,
            .destination = example::kOutput};
    s.lanes[me] = {{.name = "x", .steps = {out, in}}};
  }
  EXPECT_EQ(verdict(s),
            "rank 1, lane x, step 1 (iteration 0.0): overwrites piece 0 before the receipt of lane x, step 0 "
            "(iteration 0.0), "
            "which sends it, in place");
  for (auto& lanes : s.lanes) lanes[0].steps[1].waits = {{.lane = 0, .step = 0}};
  EXPECT_THAT(verdict(s),
              HasSubstr("waits forever for the receipt of lane x, step 0"));  // both wait before they receive
}

TEST(Check, BuffersEndWhereTheirWindowEnds) {
  Schedule s = example::chain(Collective::kReduce, 3, 1);
  s.lanes[1][0].steps[0].kind = StepKind::kRecvReduceCopySend;
  s.lanes[1][0].steps[0].destination = example::kOutput;
  EXPECT_EQ(verdict(s), "rank 1, lane chain, step 0 (iteration 0.0): piece 0 is not in this rank's output");
  s.lanes[1][0].steps[0].destination = example::kInput;
  EXPECT_EQ(verdict(s), "rank 1, lane chain, step 0 (iteration 0.0): writes to the input");
  s = example::blocks(Collective::kAllGather, 3, 1);
  s.lanes[1][0].steps[0].span = fixed(2);
  EXPECT_EQ(verdict(s), "rank 1, lane out, step 0 (iteration 0.0): piece 2 is not in this rank's input");
}

TEST(Check, AReaderMustBeDoneBeforeItsDataIsReplaced) {
  Schedule s = example::empty(Collective::kAllReduce, 1, Layout::equal(1));
  s.header.scratch_slots = 1;
  const Operand slot{.buffer = Buffer::kScratch};
  const Step fill{.kind = StepKind::kCopy, .source = example::kInput, .destination = slot};
  const Step use{.kind = StepKind::kCopy, .source = slot, .destination = example::kOutput};
  Step again = fill;
  again.waits = {{.lane = 0, .step = 0}};
  s.lanes[0] = {{.name = "a", .steps = {fill, use}}, {.name = "b", .steps = {again}}};
  EXPECT_EQ(verdict(s),
            "rank 0, lane b, step 0 (iteration 0.0): writes piece 0 without a wait for lane a, step 1 (iteration 0.0), "
            "which reads it");
  s.lanes[0][1].steps[0].waits[0].step = 1;
  EXPECT_EQ(verdict(s), "");
  s.lanes[0][1].steps[0].waits.clear();
  EXPECT_THAT(verdict(s), HasSubstr("which writes it too"));
}

TEST(Check, BothEndsMustNameTheSameRange) {
  Schedule s = example::star(2, 1);
  s.lanes[1][0].steps[1].span = fixed(0);
  EXPECT_EQ(verdict(s),
            "rank 0, lane add, step 1 (iteration 0.0): receives piece 0 (2 pieces), but gets piece 0 (1 pieces) from "
            "rank 1, lane up, step 1 (iteration 0.0)");
}

TEST(Check, LanesThatShareAChannelMustBeOrdered) {
  Schedule s = example::direct(3, 3, 2, {1, 1, 1});
  for (auto& lanes : s.lanes) {
    for (Lane& lane : lanes) {
      for (Step& step : lane.steps) step.channel_in = step.channel_out = 0;
    }
  }
  EXPECT_EQ(verdict(s), "");
  for (auto& lanes : s.lanes) {
    Lane second = lanes[0];
    second.name = "second";
    second.steps.erase(second.steps.begin());
    lanes[0].steps.pop_back();
    lanes.push_back(second);
  }
  EXPECT_THAT(verdict(s), HasSubstr("on the same channel as"));
}

TEST(Check, TooFewSlotsInACircleGetStuck) {
  Schedule s = example::ring(3, 3);
  s.header.slots = 1;
  EXPECT_THAT(verdict(s), HasSubstr("waits forever for a free slot (1 of 1 in use) to rank"));
}

TEST(Check, BlocksMustBeAlike) {
  Schedule s = example::blocks(Collective::kAllGather, 3, 1);
  s.header.layout.bounds = {0, 1, 2, 4};
  EXPECT_THAT(verdict(s), HasSubstr("piece 3 is not at the same place"));
  s = example::blocks(Collective::kAllGather, 3, 2);
  s.header.layout.order = Layout::Order::kSegmentsOutside;
  EXPECT_THAT(verdict(s), HasSubstr("blocks must not be cut"));
}

TEST(Check, GarbageIsRefusedBeforeItIsUsed) {
  const Schedule good = example::star(3, 4);
  const auto refused = [&](auto&& change) {
    Schedule s = good;
    change(s);
    return !verdict(s).empty();
  };
  EXPECT_TRUE(refused([](Schedule& s) { s.header.ranks = 0; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.ranks = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.slots = 0; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.bounds.clear(); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.bounds = {0, 0, 0}; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.bounds = {0, 5, 3}; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.segments = 0; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.segments = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.layout.spans = {{1, UINT32_MAX}}; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.scratch_slots = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.header.scratch_slots = 1; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes.pop_back(); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].outer = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[0][0].inner = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[0][0].steps[0].waits[0].lane = 9; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[0][0].steps[0].waits[0].step = 9; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].steps[1].to = fixed(1); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].steps[1].to = fixed(-1); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].steps[1].span = {.base = INT32_MAX, .scale = INT32_MAX}; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].steps[1].source.slot = fixed(-1); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.lanes[1][0].steps[1].source.buffer = Buffer::kNone; }));
}

// Loops of thousands of iterations cost no more than a few, and the verdict is that of the full run.
TEST(CheckShorten, LongPipelinesAreCutAndJudgedAlike) {
  const Schedule s = example::direct(4, 500, 2, {1, 2, 0, 3});
  const auto shorter = shortened(s);
  ASSERT_TRUE(shorter);
  EXPECT_LE(shorter->schedule.header.layout.segments, 12U);
  const Result<CheckReport> short_run = check(s);
  const Result<CheckReport> full_run = check(s, {.full = true});
  ASSERT_TRUE(short_run && full_run);
  EXPECT_LT(short_run->messages * 20, full_run->messages);
}

TEST(CheckShorten, KeepsThePhaseOfItsPeriod) {
  Schedule s = example::star(3, 64);
  for (auto& lanes : s.lanes) {
    for (Lane& lane : lanes) {
      for (Step& step : lane.steps) {
        if (step.source.buffer == Buffer::kScratch) step.source.slot.modulo = 5;
        if (step.destination.buffer == Buffer::kScratch) step.destination.slot.modulo = 5;
        for (Wait& w : step.waits) w.outer_offset = w.outer_offset == 0 ? 0 : -5;
      }
    }
  }
  s.header.scratch_slots = 5;
  const auto shorter = shortened(s);
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->schedule.header.layout.segments % 5, 64U % 5);
  EXPECT_EQ(verdict(s), "");
  s.lanes[2][0].steps[0].waits[0].outer_offset = -6;
  EXPECT_THAT(verdict(s), HasSubstr("rank 2, lane up, step 0 (iteration 5.0): overwrites"));
}

TEST(CheckShorten, LeavesOtherLoopsAlone) {
  Schedule s = example::ring(3, 64);
  EXPECT_TRUE(shortened(s));
  s.lanes[0][0].steps[0].guards = {{.value = {.by_outer = 1}, .equals = 7}};
  EXPECT_FALSE(shortened(s));
}

TEST(ScratchBytes, CountsSlotsAndStaging) {
  // Rank 0 of the star: two slots for both pieces of a segment, and two messages of each of two peers.
  EXPECT_EQ(scratch_bytes(example::star(3, 4), 4000), 2 * 1000 + 2 * 2 * 1000);
  // Relays and plain receives need none.
  EXPECT_EQ(scratch_bytes(example::chain(Collective::kBroadcast, 4, 3), 4000), 0);
  // The largest share decides: rank 2 stages 2 x 2 messages of 500.
  EXPECT_EQ(scratch_bytes(example::direct(3, 2, 1, {1, 1, 2}), 2000), 2 * 2 * 500);
}

}  // namespace
}  // namespace r2ccl
