// Goal: what one rank gives its mailbox another rank's gives out, of the same purpose and with the tokens of either
// end.
// Method: ranks are processes in memory; a task at each end keeps what its mailbox sorts.

#include "comm/mailbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "testing/engine_net.h"

namespace r2ccl {
namespace {

constexpr GroupId kGroup{77};
constexpr std::size_t kLetterMax = 100;

struct Buffer {
  explicit Buffer(std::size_t size, int fill = 0) : bytes(size, static_cast<std::byte>(fill)) {}
  MemoryRef all() { return {&region, 0, bytes.size()}; }
  Bytes bytes;
  HostRegion region{bytes.data(), bytes.size()};
};

Bytes letter_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

// What a communicator would do with its mailbox, without its decisions.
class MailboxEnd final : public EngineTask {
 public:
  struct Sorted {
    Mailbox::Kind kind;
    std::uint64_t token;
    std::uint32_t rank;
    std::uint64_t tag;
    std::size_t bytes;
    Status status;
  };
  MailboxEnd(Engine& engine, std::uint32_t rank) : engine_(engine), mailbox(engine, kGroup, Secret{}, rank) {
    engine_.attach(kGroup, *this);
  }
  ~MailboxEnd() override {
    mailbox.abort();
    engine_.detach(kGroup);
  }
  void on_completion(ProcessId peer, const Completion& completion) override {
    const auto one = mailbox.sort(peer, completion);
    if (!one) return;
    if (one->kind == Mailbox::Kind::kLetterIn && one->status) {
      const auto letter = mailbox.take_letter(*one);
      letters.emplace_back(letter.from,
                           std::string(reinterpret_cast<const char*>(letter.bytes.data()), letter.bytes.size()));
      EXPECT_TRUE(letter.next);
    }
    done.push_back({one->kind, one->token, one->rank, one->tag, one->bytes, one->status});
  }
  void on_notice(ProcessId from, ByteView bytes) override {
    notices.emplace_back(mailbox.rank_of(from), Bytes(bytes.begin(), bytes.end()));
  }
  Turn step(Instant) override { return {}; }
  std::optional<Sorted> find(Mailbox::Kind kind, std::uint64_t token) const {
    const auto found =
        std::ranges::find_if(done, [&](const Sorted& one) { return one.kind == kind && one.token == token; });
    return found == done.end() ? std::nullopt : std::optional(*found);
  }

 private:
  Engine& engine_;

 public:
  Mailbox mailbox;
  std::vector<Sorted> done;
  std::vector<std::pair<std::uint32_t, std::string>> letters;
  std::vector<std::pair<std::uint32_t, Bytes>> notices;
};

class MailboxTest : public testing::Test {
 protected:
  MailboxTest() {
    const UniqueId id = net_.make_id();
    std::vector<KeyId> keys;
    for (std::uint32_t rank = 0; rank < 3; ++rank) keys.push_back(net_.engine(rank).join(id, rank, 3));
    EXPECT_TRUE(net_.run([&] { return net_.engine(0).ready() && net_.engine(1).ready() && net_.engine(2).ready(); }));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ends_.push_back(std::make_unique<MailboxEnd>(net_.engine(rank), rank));
      box(rank).open(net_.engine(rank).roster(keys[rank]), kLetterMax);
      EXPECT_TRUE(box(rank).listen());
    }
  }
  Mailbox& box(std::uint32_t rank) { return ends_[rank]->mailbox; }
  MailboxEnd& at(std::uint32_t rank) { return *ends_[rank]; }

  test::EngineNet net_{3};
  std::vector<std::unique_ptr<MailboxEnd>> ends_;
};

TEST_F(MailboxTest, LettersGoBetweenRankZeroAndEachInOrder) {
  for (const char* text : {"one", "two", "three"}) {
    ASSERT_TRUE(box(1).send_letter(0, letter_of(text)));
    ASSERT_TRUE(box(0).send_letter(2, letter_of(text)));
  }
  ASSERT_TRUE(net_.run([&] { return at(0).letters.size() == 3 && at(2).letters.size() == 3; }, 1s));
  using Letters = std::vector<std::pair<std::uint32_t, std::string>>;
  EXPECT_EQ(at(0).letters, (Letters{{1, "one"}, {1, "two"}, {1, "three"}}));
  EXPECT_EQ(at(2).letters, (Letters{{0, "one"}, {0, "two"}, {0, "three"}}));
  EXPECT_TRUE(at(1).letters.empty());
}

TEST_F(MailboxTest, EachEndGetsItsOwnTokenAndTheSendersTag) {
  box(1).begin(4711, false);
  box(2).begin(1174, false);
  Buffer from(1000, 5), to(1000);
  ASSERT_TRUE(box(2).receive(1, 0, to.all(), 22));
  ASSERT_TRUE(box(1).send(2, 0, std::nullopt, from.all(), 11));
  ASSERT_TRUE(net_.run([&] { return at(1).done.size() == 1 && at(2).done.size() == 1; }, 1s));
  const auto sent = at(1).find(Mailbox::Kind::kCollective, 11);
  const auto received = at(2).find(Mailbox::Kind::kCollective, 22);
  ASSERT_TRUE(sent && received);
  EXPECT_EQ(sent->rank, 2u);
  EXPECT_EQ(received->rank, 1u);
  EXPECT_EQ(received->tag, 4711u) << "so that a message of another collective is found out";
  EXPECT_EQ(received->bytes, 1000u);
  EXPECT_EQ(from.bytes, to.bytes);
}

TEST_F(MailboxTest, PurposesAndChannelsDoNotMix) {
  Buffer point(10, 1), one(10, 2), other(10, 3), point_in(10), one_in(10), other_in(10);
  ASSERT_TRUE(box(1).send_point(2, point.all(), 1));
  ASSERT_TRUE(box(1).send(2, 0, std::nullopt, one.all(), 2));
  ASSERT_TRUE(box(1).send(2, 7, std::nullopt, other.all(), 3));
  ASSERT_TRUE(box(2).receive(1, 7, other_in.all(), 3));
  ASSERT_TRUE(box(2).receive(1, 0, one_in.all(), 2));
  ASSERT_TRUE(box(2).receive_point(1, point_in.all(), 1));
  ASSERT_TRUE(net_.run([&] { return at(2).done.size() == 3; }, 1s));
  EXPECT_TRUE(at(2).find(Mailbox::Kind::kPoint, 1));
  EXPECT_EQ(point_in.bytes, point.bytes);
  EXPECT_EQ(one_in.bytes, one.bytes);
  EXPECT_EQ(other_in.bytes, other.bytes);
}

TEST_F(MailboxTest, AMessageKeepsToItsNicOnlyWhereRailsAreKept) {
  for (const bool keeps : {true, false}) {
    Buffer from(500'000, 5), to(500'000);
    box(1).begin(1, keeps);
    const std::size_t before = net_.node(1).telemetry.events().size();
    ASSERT_TRUE(box(2).receive(1, 0, to.all(), 1));
    ASSERT_TRUE(box(1).send(2, 0, NicId{1}, from.all(), 1));
    at(2).done.clear();
    ASSERT_TRUE(net_.run([&] { return !at(2).done.empty(); }, 1s));
    std::set<NicId> used;
    const auto events = net_.node(1).telemetry.events();
    for (std::size_t i = before; i < events.size(); ++i) {
      if (events[i].kind == EventKind::kChunkSent && events[i].bytes > 1000) used.insert(events[i].path.low);
    }
    EXPECT_EQ(used, keeps ? std::set<NicId>{{1}} : (std::set<NicId>{{0}, {1}}));
  }
}

TEST_F(MailboxTest, RanksAreFoundByTheirProcessAndCalledByTheirHost) {
  EXPECT_EQ(box(0).rank_of({3}), 2u);
  EXPECT_EQ(box(0).rank_of({9}), UINT32_MAX);
  EXPECT_EQ(box(0).name_of(2), "rank 2 (host2)");
  EXPECT_EQ(box(0).name_of(9), "rank 9");
  EXPECT_EQ(box(0).name_in("it is gone", 2), "rank 2 (host2): it is gone");
  EXPECT_EQ(box(0).name_in("rank 2 (host2) is gone", 2), "rank 2 (host2) is gone") << "once is enough";
  Completion strange;
  strange.token = 1;
  EXPECT_FALSE(box(0).sort({9}, strange));
}

TEST_F(MailboxTest, ANoticeReachesEveryOtherRank) {
  box(1).notify_all(letter_of("hear"));
  ASSERT_TRUE(net_.run([&] { return !at(0).notices.empty() && !at(2).notices.empty(); }, 1s));
  EXPECT_EQ(at(0).notices[0], std::pair(1u, letter_of("hear")));
  EXPECT_TRUE(at(1).notices.empty());
}

TEST_F(MailboxTest, WhatWaitsForARankThatEndedIsAbortedAndMoreIsRefusedByName) {
  Buffer to(10);
  ASSERT_TRUE(box(1).receive(0, 0, to.all(), 5));
  net_.pass(10ms);
  box(0).abort();
  ASSERT_TRUE(net_.run([&] { return at(1).find(Mailbox::Kind::kCollective, 5).has_value(); }, 1s));
  const auto ended = at(1).find(Mailbox::Kind::kCollective, 5);
  ASSERT_FALSE(ended->status);
  EXPECT_EQ(ended->status.error().fault, Fault::kAborted);
  const Status more = box(1).receive(0, 0, to.all(), 6);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().fault, Fault::kAborted);
  EXPECT_EQ(more.error().what, "rank 0 (host0) has ended the communicator.");
  EXPECT_TRUE(box(1).receive(2, 0, to.all(), 6)) << "rank 2 has not";
}

TEST_F(MailboxTest, AbortedNothingIsWrittenAnyMore) {
  Buffer from(200'000, 5), to(200'000);
  ASSERT_TRUE(box(2).receive(1, 0, to.all(), 1));
  net_.pass(5ms);
  ASSERT_TRUE(box(1).send(2, 0, std::nullopt, from.all(), 1));
  box(2).abort();
  const Bytes before = to.bytes;
  net_.pass(100ms);
  EXPECT_EQ(to.bytes, before);
}

TEST_F(MailboxTest, PathsAreThoseOfSessionsThatWereUsedAndLive) {
  EXPECT_EQ(box(0).paths().size(), 2u) << "letters are awaited from both";
  EXPECT_EQ(box(1).paths().size(), 1u);
  Buffer to(10);
  ASSERT_TRUE(box(1).receive(2, 0, to.all(), 1));
  EXPECT_EQ(box(1).paths().size(), 2u);
  EXPECT_EQ(box(1).paths()[0].size(), 2u) << "one of each NIC";
}

// Ranks 1 and 2 as if they were of one server: their memory is in this process.
TEST_F(MailboxTest, DataOfNeighboursIsCopiedAndLettersStayOnTheSessions) {
  Bytes shared(PeerCopy::bytes_for(2) + 64);
  void* start = shared.data();
  std::size_t space = shared.size();
  auto* const memory = static_cast<std::byte*>(std::align(64, PeerCopy::bytes_for(2), start, space));
  const auto self = static_cast<std::uint32_t>(::getpid());
  PeerCopy one(memory, {1, 2}, 1, self), two(memory, {1, 2}, 2, self);
  box(1).share(one);
  box(2).share(two);
  box(1).begin(4711, false);
  Buffer from(1000, 5), to(1000);
  ASSERT_TRUE(box(2).receive(1, 0, to.all(), 22));
  ASSERT_TRUE(box(1).send(2, 0, std::nullopt, from.all(), 11));
  EXPECT_TRUE(box(2).waits_for_neighbours());
  std::vector<std::uint64_t> tokens;
  for (int i = 0; i < 4; ++i) {
    for (const std::uint32_t rank : {1u, 2u}) {
      box(rank).step_neighbours([&](const Mailbox::Done& done) {
        EXPECT_EQ(done.kind, Mailbox::Kind::kCollective);
        EXPECT_EQ(done.rank, 3 - rank);
        if (rank == 2) {
          EXPECT_EQ(done.tag, 4711u);
        }
        tokens.push_back(done.token);
      });
    }
  }
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{22, 11}));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_TRUE(at(2).done.empty()) << "no session was used";
  ASSERT_TRUE(box(1).send_letter(0, letter_of("letter")));
  EXPECT_TRUE(net_.run([&] { return at(0).letters.size() == 1; }, 1s));
  ends_.clear();  // before what they share
}

}  // namespace
}  // namespace r2ccl
