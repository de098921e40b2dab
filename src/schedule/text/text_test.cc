#include "schedule/text/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "testing/random_schedule.h"

namespace r2ccl {
namespace {

Step step_of(StepKind kind, Buffer source = Buffer::kNone, Buffer destination = Buffer::kNone) {
  Step step;
  step.kind = kind;
  step.source.buffer = source;
  step.destination.buffer = destination;
  return step;
}

Lane small_out() {
  Lane lane;
  lane.name = "out";
  lane.outer = 66;
  lane.inner = 3;
  lane.rail = 1;
  Step scatter = step_of(StepKind::kSend, Buffer::kInput);
  scatter.to = scatter.span = {.base = 1, .by_inner = 1, .modulo = 4};
  scatter.segment = outer_plus(0);
  scatter.outer_end = 64;
  Step gather = step_of(StepKind::kSend, Buffer::kOutput);
  gather.to = scatter.to;
  gather.channel_out = 1;
  gather.segment = outer_plus(-2);
  gather.outer_begin = 2;
  gather.guards = {{{.by_outer = 1, .modulo = 2}, 1}};
  gather.waits = {{.lane = 1, .step = 1, .outer_offset = -2},
                  {.lane = 0, .step = 0, .one_inner = true, .inner_offset = -1}};
  lane.steps = {scatter, gather};
  return lane;
}

Lane small_in() {
  Lane lane;
  lane.name = "in";
  lane.outer = 64;
  lane.inner = 3;
  lane.inner_begin = 1;
  lane.inner_end = 2;
  Step keep = step_of(StepKind::kCopy, Buffer::kInput, Buffer::kScratch);
  keep.span = fixed(4);
  keep.segment = outer_plus(0);
  keep.destination.slot = {.by_outer = 1, .modulo = 2};
  Step add = step_of(StepKind::kRecvReduce, Buffer::kOutput, Buffer::kOutput);
  add.from = {.base = 3, .by_inner = -1};
  add.segment = outer_plus(0);
  add.has_first = true;
  add.first_source = Buffer::kInput;
  Step pass = step_of(StepKind::kRecvReduceCopySend, Buffer::kNone, Buffer::kOutput);
  pass.from = fixed(3);
  pass.channel_in = 2;
  pass.to = fixed(1);
  pass.span = {.by_outer = 1, .by_inner = 2, .modulo = 4, .scale = -2, .offset = 6};
  lane.steps = {keep, add, pass};
  return lane;
}

// The least that is a schedule.
Schedule tiny() {
  Schedule s;
  s.header.layout = Layout::equal(1);
  s.lanes.resize(1);
  return s;
}

// A bit of everything; it makes no sense.
Schedule small() {
  Schedule s;
  s.header.algorithm = "weighted_direct";
  s.header.ranks = 4;
  s.header.ranks_per_server = 2;
  s.header.slots = 3;
  s.header.scratch_slots = 2;
  s.header.layout.bounds = {0, 100, 400, 700, 1000};
  s.header.layout.segments = 64;
  s.header.layout.spans = {{0, 4}, {2, 1}};
  s.header.shares = {2, 2, {0, 0, 1365, 2731, 1365, 2731, 0, 0}};
  s.header.nic_of_rail = {0, 1, 0, 1};
  s.lanes.resize(4);
  s.lanes[0] = {small_out(), small_in()};
  s.lanes[2].resize(1);
  s.lanes[2][0].steps = {step_of(StepKind::kRecv)};
  s.lanes[2][0].steps[0].from = fixed(1);
  return s;
}

constexpr std::string_view kSmallText = R"(all_reduce weighted_direct ranks=4 per_server=2 slots=3 scratch=2
pieces 100 300 300 300 / 1000 segments=64
span 4 = 0..3
span 5 = 2
shares servers=2 rails=2
share 0 1 = 1365 2731
nics 0..1 = 0 1
rank 0
  lane out outer=66 inner=3 rail=1
    send to=(1+i)%4 span=(1+i)%4 seg=o src=input when o<64
    send to=(1+i)%4 ch_out=1 span=0 seg=o-2 src=output when o>=2 (o)%2==1 wait in.1@o-2 out.0@o,i-1
  lane in outer=64 inner=3
    once copy span=4 seg=o src=input dst=scratch[(o)%2]
    recv_reduce from=3-i span=0 seg=o src=output first=input dst=output
    once recv_reduce_copy_send from=3 ch_in=2 to=1 span=(o+2i)%4*-2+6 dst=output
rank 1
rank 2
  lane
    recv from=1 span=0
rank 3
)";

std::string error_of(std::string_view text) {
  const auto parsed = parse_schedule(text);
  return parsed ? "no error" : parsed.error().what;
}

// A sound schedule of one rank with `line` in place of its only step.
std::string step_error(std::string_view line) {
  return error_of(fmt::format("all_reduce ranks=1\npieces 1 equal\nrank 0\nlane a\n{}\nlane b\n", line));
}

// … with `line` before its rank.
std::string frame_error(std::string_view line) {
  return error_of(fmt::format("all_reduce ranks=4\npieces 4 equal\n{}\nrank 0\nrank 1\nrank 2\nrank 3\n", line));
}

TEST(ScheduleText, PrintsWhatPeopleRead) {
  EXPECT_EQ(print(small()), kSmallText);
}

TEST(ScheduleText, ReadsWhatItPrints) {
  const auto parsed = parse_schedule(kSmallText);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  EXPECT_TRUE(*parsed == small());
}

TEST(ScheduleText, RandomSchedulesSurviveTheRoundTrip) {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const Schedule schedule = testing::random_schedule(seed);
    const std::string text = print(schedule);
    const auto parsed = parse_schedule(text);
    ASSERT_TRUE(parsed.has_value()) << "seed " << seed << ": " << parsed.error().what << "\n" << text;
    ASSERT_TRUE(*parsed == schedule) << "seed " << seed << "\n" << text << "came back as\n" << print(*parsed);
  }
}

TEST(ScheduleText, TheEndOfAnInnerLoopIsKeptAsItWasGiven) {
  for (const std::uint32_t end : {0u, 1u, 2u, 3u, 4u, UINT32_MAX}) {
    for (const std::uint32_t begin : {0u, 1u, 2u, 3u, 4u}) {
      Schedule s = tiny();
      Lane& lane = s.lanes[0].emplace_back();
      lane.inner_begin = begin;
      lane.inner_end = end;
      lane.steps.resize(3);
      EXPECT_TRUE(parse_schedule(print(s)) == s) << print(s);
    }
  }
}

TEST(ScheduleText, BlanksCommentsAndAMissingLastNewlineMeanNothing) {
  const auto parsed = parse_schedule("# made by hand\n\n  all_reduce\tranks=1 # one\r\npieces 1 equal\n   rank   0");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  EXPECT_TRUE(*parsed == tiny());
}

TEST(ScheduleText, CharactersThatNamesCanNotHaveBecomeUnderscores) {
  Schedule s = tiny();
  s.header.algorithm = "a b=c";
  s.lanes[0].emplace_back().name = "x\ny#";
  const auto parsed = parse_schedule(print(s));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  EXPECT_EQ(parsed->header.algorithm, "a_b_c");
  EXPECT_EQ(parsed->lanes[0][0].name, "x_y_");
}

TEST(ScheduleText, AMalformedFirstLineIsRefused) {
  EXPECT_EQ(error_of(""), "line 1: there is no schedule in the text");
  EXPECT_EQ(error_of("\n# only this\n"), "line 2: there is no schedule in the text");
  EXPECT_EQ(error_of("all_reduced ranks=1"), "line 1: 'all_reduced' is not a collective");
  EXPECT_EQ(error_of("all_reduce ring"), "line 1: the first line needs ranks=");
  EXPECT_EQ(error_of("all_reduce ring twice ranks=1"),
            "line 1: 'twice' is neither a name nor ranks=, per_server=, root=, slots= or scratch=");
  EXPECT_EQ(error_of("all_reduce ranks=65537"), "line 1: ranks must be a number from 1 to 65536, not '65537'");
  EXPECT_EQ(error_of("all_reduce ranks=18446744073709551617"),
            "line 1: ranks must be a number from 1 to 65536, not '18446744073709551617'");
  EXPECT_EQ(error_of("all_reduce ranks=4 per_server=3"), "line 1: 4 ranks are not whole servers of 3");
  EXPECT_EQ(error_of("broadcast ranks=4 root=4"), "line 1: root 4 is not one of the 4 ranks");
  EXPECT_EQ(error_of("all_reduce ranks=1 slots=-1"), "line 1: slots must be a number from 0 to 4294967295, not '-1'");
}

std::string pieces_error(std::string_view line) {
  return error_of(fmt::format("all_reduce ranks=1\n{}\nrank 0\n", line));
}

TEST(ScheduleText, MalformedPiecesAreRefused) {
  EXPECT_EQ(pieces_error(""), "line 3: the pieces come before the first rank");
  EXPECT_EQ(pieces_error("span 1 = 0"), "line 2: the pieces come before 'span'");
  EXPECT_EQ(pieces_error("pieces 1 2"), "line 2: pieces end in 'equal', or in '/' and their sum");
  EXPECT_EQ(pieces_error("pieces 1 2 /"), "line 2: pieces end in 'equal', or in '/' and their sum");
  EXPECT_EQ(pieces_error("pieces 1 2 / 4"), "line 2: the pieces add up to 3, not to '4'");
  EXPECT_EQ(pieces_error("pieces 0 0 / 0"), "line 2: at least one piece must not be empty");
  EXPECT_EQ(pieces_error("pieces / 0"), "line 2: at least one piece must not be empty");
  EXPECT_EQ(pieces_error("pieces 1 2 equal"), "line 2: equal pieces need their number, from 1 to 131072");
  EXPECT_EQ(pieces_error("pieces 0 equal"), "line 2: equal pieces need their number, from 1 to 131072");
  EXPECT_EQ(pieces_error("pieces 131073 equal"), "line 2: equal pieces need their number, from 1 to 131072");
  EXPECT_EQ(pieces_error("pieces 18446744073709551615 1 / 0"), "line 2: a piece must be a number from 0 to 0, not '1'");
  EXPECT_EQ(pieces_error("pieces 2 equal outside"), "line 2: 'outside' is neither segments= nor inside");
  EXPECT_EQ(pieces_error("pieces 2 equal segments=0"), "line 2: segments must be a number from 1 to 1048576, not '0'");
  EXPECT_EQ(frame_error("pieces 2 equal"), "line 3: the pieces are given twice");
}

TEST(ScheduleText, MalformedTablesAreRefused) {
  EXPECT_EQ(frame_error("sharks"), "line 3: 'sharks' is neither span, shares, share, nics nor rank");
  EXPECT_EQ(frame_error("span 5 = 0"), "line 3: the next span must be a number from 4 to 4, not '5'");
  EXPECT_EQ(frame_error("span 4 0"), "line 3: = expected, not '0'");
  EXPECT_EQ(frame_error("span 4 = 2..4"),
            "line 3: the end of the range of a span must be a number from 2 to 3, not '4'");
  EXPECT_EQ(frame_error("span 4 = 2..1"),
            "line 3: the end of the range of a span must be a number from 2 to 3, not '1'");
  EXPECT_EQ(frame_error("span 4 = 2 3"), "line 3: the line should end before '3'");
  EXPECT_EQ(frame_error("shares servers=4"), "line 3: shares need servers= and rails=");
  EXPECT_EQ(frame_error("shares servers=4 rail=1"), "line 3: 'rail=1' is neither servers= nor rails=");
  EXPECT_EQ(frame_error("shares servers=65536 rails=64"),
            "line 3: servers x servers x rails is at most 8388608, not 274877906944");
  EXPECT_EQ(frame_error("share 0 1 = 1"), "line 3: a line 'shares servers= rails=' comes before the first share");
  const std::string shares = "shares servers=4 rails=2\n";
  EXPECT_EQ(frame_error(shares + "share 0 4 = 1 1"), "line 4: a server must be a number from 0 to 3, not '4'");
  EXPECT_EQ(frame_error(shares + "share 0 1 = 4097 0"),
            "line 4: the share of a rail must be a number from 0 to 4096, not '4097'");
  EXPECT_EQ(frame_error(shares + "share 0 1 = 1"),
            "line 4: the share of a rail must be a number from 0 to 4096, not ''");
  EXPECT_EQ(frame_error(shares + "share 0 1..2 = 1 1\nshare 0 2 = 1 1"),
            "line 5: pairs of servers rise, each with the smaller first; 0 2 does not");
  EXPECT_EQ(frame_error("nics 1 = 0 1"), "line 3: the NICs of server 0 come next");
  EXPECT_EQ(frame_error("nics 0 = 256"), "line 3: a NIC must be a number from 0 to 255, not '256'");
  EXPECT_EQ(frame_error("nics 0 = 0 1\nnics 1..3 = 0"),
            "line 4: every server names a NIC for each rail; here are 1, before were 2");
  EXPECT_EQ(frame_error("nics 0..2 = 0 1"), "line 4: the NICs of server 3 are missing");
}

TEST(ScheduleText, MalformedRanksAndLanesAreRefused) {
  const std::string start = "all_reduce ranks=2\npieces 1 equal\n";
  EXPECT_EQ(error_of(start + "rank 1"), "line 3: the next rank must be a number from 0 to 0, not '1'");
  EXPECT_EQ(error_of(start + "rank 0\nrank 1\nrank 2"), "line 5: there are only 2 ranks");
  EXPECT_EQ(error_of(start + "rank 0\n"), "line 3: the text ends after 1 of 2 ranks");
  EXPECT_EQ(error_of(start + "lane a"), "line 3: 'lane' is neither span, shares, share, nics nor rank");
  EXPECT_EQ(error_of(start + "rank 0\nsend to=1 span=0"), "line 4: 'send' stands before the first lane of its rank");
  EXPECT_EQ(error_of(start + "rank 0\nlane a b"),
            "line 4: 'b' is neither a name nor outer=, inner=, rail=, inner_begin= or inner_end=");
  EXPECT_EQ(error_of(start + "rank 0\nlane a outer=4294967296"),
            "line 4: outer must be a number from 0 to 4294967295, not '4294967296'");
  EXPECT_EQ(error_of(start + "rank 0\nlane a rail=64"), "line 4: rail must be a number from 0 to 63, not '64'");
}

TEST(ScheduleText, MalformedStepsAreRefused) {
  EXPECT_EQ(step_error("sent to=1"), "line 5: 'sent' is not a kind of step");
  EXPECT_EQ(step_error("once"), "line 5: '' is not a kind of step");
  EXPECT_EQ(step_error("send span=0"), "line 5: send needs to=");
  EXPECT_EQ(step_error("recv_reduce to=1 span=0"), "line 5: recv_reduce needs from=");
  EXPECT_EQ(step_error("copy src=input dst=output"), "line 5: copy needs span=");
  EXPECT_EQ(step_error("send to=1 to=2 span=0"), "line 5: to= is given twice");
  EXPECT_EQ(step_error("send to=1 spam=0"), "line 5: 'spam=0' is not a field of a step");
  EXPECT_EQ(step_error("send to=1 span=0 ch_out=4294967296"),
            "line 5: ch_out must be a number from 0 to 4294967295, not '4294967296'");
  EXPECT_EQ(step_error("send to=1 span=0 src=inputs"), "line 5: 'inputs' is neither none, input, output nor scratch");
  EXPECT_EQ(step_error("send to=1 span=0 src=scratch"), "line 5: scratch needs its slot, as in scratch[o]");
  EXPECT_EQ(step_error("send to=1 span=0 src=scratch[o"), "line 5: 'scratch[o' lacks its ]");
  EXPECT_EQ(step_error("send to=1 span=0 when o>2"), "line 5: 'o>2' is not a condition such as o>=2, o<64 or (o)%2==1");
  EXPECT_EQ(step_error("send to=1 span=0 when o>=-2"), "line 5: o>= must be a number from 0 to 4294967295, not '-2'");
  EXPECT_EQ(step_error("send to=1 span=0 wait when"),
            "line 5: 'when' is not a wait such as rs_in.0@o-2 or rs_in.0@o,i-1");
  EXPECT_EQ(step_error("send to=1 span=0\nonce send to=1 span=0\nsend to=1 span=0"),
            "line 7: a step inside the inner loop follows one that is marked once behind it");
  EXPECT_EQ(step_error("lane c inner_end=0\nsend to=1 span=0"),
            "line 6: step 0 is inside the inner loop by its mark, not by inner_begin and inner_end");
}

TEST(ScheduleText, AnIndexIsASumOrAReducedSum) {
  for (const std::string_view bad : {"",
                                     "-",
                                     "+1",
                                     "1+",
                                     "o+o",
                                     "1+2",
                                     "3*o",
                                     "(o",
                                     "o)",
                                     "(o)%",
                                     "(o)%0",
                                     "(o)%-4",
                                     "(o)*",
                                     "(o)+",
                                     "(o)+-1",
                                     "(o)*2%4",
                                     "j",
                                     "2147483648",
                                     "-2147483649",
                                     "2147483648o",
                                     "99999999999999999999",
                                     "(o)%4294967296",
                                     "(o)*2147483648",
                                     "(o)-2147483649",
                                     "o%4",
                                     "()%4",

                                     "--1"}) {
    EXPECT_EQ(step_error(fmt::format("send span=0 to={}", bad)),
              fmt::format("line 5: '{}' is not an index such as 3, o-2 or (1+i)%4*2+1 with numbers of 32 bits", bad));
  }
  for (const std::string_view good : {"0", "-1", "i-o+3", "-2147483648o", "(i)%4294967295*-2147483648-2147483648"}) {
    EXPECT_EQ(step_error(fmt::format("send span=0 to={}", good)), "no error");
  }
}

TEST(ScheduleText, AWaitNamesALaneOfItsRank) {
  for (const std::string_view bad :
       {"b", "b.0", "b@o", ".0@o", "b.@o", "b.0@", "b.0@i", "b.0@o,", "b.0@o,o", "b.x@o", "b.0@o-", "b.0@o2",
        "b.0@o+2147483648", "4294967296.0@o", "b.4294967296@o", "b.0@o,i+1,"}) {
    EXPECT_EQ(step_error(fmt::format("send to=1 span=0 wait {}", bad)),
              fmt::format("line 5: '{}' is not a wait such as rs_in.0@o-2 or rs_in.0@o,i-1", bad));
  }
  EXPECT_EQ(step_error("send to=1 span=0 wait b.0@o"), "no error");
  EXPECT_EQ(step_error("send to=1 span=0 wait c.0@o"), "line 5: no lane of rank 0 is named 'c'");
  EXPECT_EQ(step_error("send to=1 span=0 wait b.0@o\nlane b"), "line 5: more than one lane of rank 0 is named 'b'");
}

TEST(ScheduleText, BytesFromOutsideAreNotRepeatedInMessages) {
  EXPECT_EQ(error_of("\x1b[2J\xff"), "line 1: '?[2J?' is not a collective");
  EXPECT_EQ(error_of(std::string(100, 'x')), fmt::format("line 1: '{}…' is not a collective", std::string(60, 'x')));
  EXPECT_EQ(error_of(std::string(kScheduleLineBytesMax + 1, ' ')),
            "line 1: a line has at most 4194304 bytes, not 4194305");
}

// Changed text is refused or means something; it never breaks the reader. The fuzzer asks the same for longer.
TEST(ScheduleText, ChangedTextIsRefusedOrSurvivesTheRoundTrip) {
  std::mt19937_64 bits(1);
  static constexpr std::string_view kChars = "0179oi()%*+-=<>.,@[] \n#aw/";
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string text(kSmallText);
    for (std::uint64_t n = 1 + bits() % 3; n > 0; --n) {
      const std::size_t at = bits() % text.size();
      if (bits() % 2 == 0) {
        text[at] = kChars[bits() % kChars.size()];
      } else {
        text.erase(at, 1 + bits() % 4);
      }
    }
    const auto parsed = parse_schedule(text);
    if (!parsed) {
      ASSERT_TRUE(parsed.error().fault == Fault::kMisuse && parsed.error().what.starts_with("line "));
      continue;
    }
    ASSERT_TRUE(parse_schedule(print(*parsed)) == *parsed) << text;
  }
}

TEST(ScheduleText, AThousandRanksSurviveTheRoundTrip) {
  Schedule s;
  s.header.ranks = 1024;
  s.header.layout = Layout::equal(1024, 64);
  Lane lane = small_out();
  lane.steps.insert(lane.steps.end(), lane.steps.begin(), lane.steps.end());
  for (int i = 0; i < 10; ++i) {
    lane.name = fmt::format("lane{}", i);
    s.lanes.resize(1);
    s.lanes[0].push_back(lane);
  }
  s.lanes.resize(1024, s.lanes[0]);
  const std::string text = print(s);
  const auto parsed = parse_schedule(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  EXPECT_TRUE(*parsed == s);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 1024 * (1 + 10 * 5));
}

}  // namespace
}  // namespace r2ccl
