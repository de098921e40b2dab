// Strangers at the listeners of a running transfer: whatever they say, no path goes down and no byte is wrong.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "env/seeded_random.h"
#include "tests/loopback/support/guest.h"
#include "tests/loopback/support/pair.h"
#include "transport/stream/frame.h"
#include "transport/stream/handshake.h"

namespace r2ccl::loopback {
namespace {

constexpr std::uint8_t kProofKind = 3, kRefuseKind = 5;
constexpr std::size_t kKindAt = 6;

class HostileTest : public testing::Test {
 protected:
  HostileTest() { EXPECT_TRUE(pair_.traffic_goes_on(20)) << pair_.traffic_failure(); }

  // ---- the house ----
  Address door(std::size_t nic) { return pair_.here().other_info().ports.at(nic).listen; }
  StreamCounters counters() { return pair_.tell(1, {.kind = Command::Kind::kStatus}).streams; }
  Secret secret() { return UniqueId::unpack(pair_.common().ticket)->secret; }
  // A hello as the transfer's own connections say it.
  Hello hello(KeyId key, std::size_t nic) {
    const NicId id{static_cast<std::uint8_t>(nic)};
    return {.purpose = Purpose::kData,
            .key = key,
            .from = pair_.here().self(),
            .to = pair_.here().other(),
            .path = {id, id}};
  }
  // Waits until so many more unproven guests than before have been turned away.
  bool turned_away(const StreamCounters& before, std::uint64_t guests) {
    const auto sum = [](const StreamCounters& c) { return c.unproven + c.rate_limited + c.half_open_dropped; };
    const Instant deadline = clock_now() + 10s;
    while (sum(counters()) < sum(before) + guests)
      if (!pair_.common().go.wait_for(1, std::min(deadline, clock_now() + 20ms)) && clock_now() >= deadline)
        return false;
    return true;
  }
  // Guests beyond the limit of a second are closed unread; a test that wants to be heard stays below it.
  void pace(std::size_t guest) {
    if (guest % 80 == 79) pair_.common().go.wait_for(1, clock_now() + 1050ms);
  }
  void expect_untouched() {
    EXPECT_TRUE(pair_.traffic_goes_on(20)) << pair_.traffic_failure();
    EXPECT_EQ(pair_.stop_traffic(), "");
    for (std::size_t end = 0; end < 2; ++end) {
      EXPECT_EQ(pair_.log(end).count_of(EventKind::kPathDown), 0u) << "at end " << end;
      const Counters counted = pair_.tell(end, {.kind = Command::Kind::kStatus}).counters;
      EXPECT_EQ(counted.refused_frames + counted.stale_frames + counted.corrupt_payloads, 0u) << "at end " << end;
    }
    EXPECT_EQ(pair_.end(), "");
  }

  SeededRandom random_{7};
  Nonce fresh_nonce() {
    Nonce nonce;
    random_.fill(nonce);
    return nonce;
  }
  Secret wrong_secret() {
    Secret secret;
    random_.fill(secret);
    return secret;
  }
  Bytes garbage(std::size_t size) {
    Bytes bytes(size);
    random_.fill(bytes);
    return bytes;
  }

  Pair pair_{{.shape = {.streams = 3, .window = 3, .sizes = {8, 50'000, 400'000}}}};
};

void expect_refused(Guest& guest, const char* who) {
  const Bytes answer = guest.hear(kRefuseBytes);
  ASSERT_EQ(answer.size(), kRefuseBytes) << who << " gets no refusal";
  EXPECT_EQ(static_cast<std::uint8_t>(answer[kKindAt]), kRefuseKind) << who;
  EXPECT_TRUE(guest.hear_end()) << who << " stays connected";
}

Bytes to_bytes(ByteView view) {
  return {view.begin(), view.end()};
}

// PROOF with a MAC of the guest's choice.
Bytes forged_proof(ByteView hello, ByteView mac) {
  Bytes proof = to_bytes(hello.first(kHandshakePrefixBytes));
  proof[kKindAt] = std::byte{kProofKind};
  proof.insert(proof.end(), mac.begin(), mac.end());
  return proof;
}

TEST_F(HostileTest, StrangerWithoutTheSecretIsRefused) {
  const StreamCounters before = counters();
  std::size_t guests = 0;
  for (std::size_t nic = 0; nic < kNics; ++nic) {
    const Secret wrong = wrong_secret();
    Handshake other_key(hello(key_id(wrong), nic), wrong, fresh_nonce());
    Guest guest = Guest::enter(door(nic));
    ASSERT_TRUE(guest.in() && guest.say(other_key.output()));
    expect_refused(guest, "a stranger with a key of his own");
    ++guests;

    // The key's name is no secret: anybody who saw one connection can say it.
    Handshake named(hello(key_id(secret()), nic), wrong, fresh_nonce());
    const Bytes hello_bytes = to_bytes(named.output());
    for (const bool reflect : {false, true}) {
      Guest liar = Guest::enter(door(nic));
      ASSERT_TRUE(liar.in() && liar.say(hello_bytes));
      const Bytes challenge = liar.hear(kChallengeBytes);
      ASSERT_EQ(challenge.size(), kChallengeBytes);
      const Bytes mac = reflect ? to_bytes(ByteView(challenge).last(32)) : garbage(32);
      ASSERT_TRUE(liar.say(forged_proof(hello_bytes, mac)));
      expect_refused(liar, reflect ? "a stranger who reflects the challenge" : "a stranger who guesses the proof");
      ++guests;
    }
  }
  EXPECT_TRUE(turned_away(before, guests));
  EXPECT_EQ(counters().proven, before.proven);
  expect_untouched();
}

TEST_F(HostileTest, HandshakesCutAtEveryByteAreForgotten) {
  const StreamCounters before = counters();
  std::size_t guests = 0;
  for (std::size_t cut = 0; cut < kHelloBytes; ++cut, ++guests) {
    pace(guests);
    Handshake handshake(hello(key_id(secret()), cut % kNics), secret(), fresh_nonce());
    Guest guest = Guest::enter(door(cut % kNics));
    ASSERT_TRUE(guest.in() && guest.say(handshake.output().first(cut))) << "cut at byte " << cut;
    guest.leave(cut % 2 == 0);
  }
  for (std::size_t cut = 0; cut < kProofBytes; ++cut, ++guests) {
    pace(guests);
    Handshake handshake(hello(key_id(secret()), cut % kNics), secret(), fresh_nonce());
    Guest guest = Guest::enter(door(cut % kNics));
    ASSERT_TRUE(guest.in() && guest.say(handshake.output()));
    handshake.sent(kHelloBytes);
    handshake.take(guest.hear(kChallengeBytes));
    ASSERT_EQ(handshake.output().size(), kProofBytes) << "no challenge came; proof cut at byte " << cut;
    ASSERT_TRUE(guest.say(handshake.output().first(cut)));
    guest.leave(cut % 2 == 0);
  }
  EXPECT_TRUE(turned_away(before, guests));
  EXPECT_EQ(counters().proven, before.proven);
  expect_untouched();
}

TEST_F(HostileTest, TenThousandHalfOpenConnectionsAreBoundedAndTheHouseStillOpensToItsOwn) {
  constexpr std::size_t kGuests = 10'000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before_limit = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t wave =
      limit.rlim_cur == RLIM_INFINITY ? kGuests : std::clamp<std::size_t>(limit.rlim_cur - 200, 200, kGuests);

  const StreamCounters before = counters();
  const std::size_t descriptors = count_descriptors(pair_.child());
  std::size_t most_descriptors = 0;
  Handshake handshake(hello(key_id(secret()), 0), wrong_secret(), fresh_nonce());
  for (std::size_t begun = 0; begun < kGuests;) {
    std::vector<Guest> guests;
    for (; guests.size() < wave && begun < kGuests; ++begun) {
      guests.push_back(Guest::knock(door(begun % kNics)));
      if (begun % 3 == 0) guests.back().say_if_in(handshake.output().first(begun % kHelloBytes));
      if (begun % 500 == 0) most_descriptors = std::max(most_descriptors, count_descriptors(pair_.child()));
    }
    EXPECT_TRUE(turned_away(before, std::min<std::size_t>(begun / 10, 500)))
        << "half-open connections are not turned away";
    most_descriptors = std::max(most_descriptors, count_descriptors(pair_.child()));
  }
  ::setrlimit(RLIMIT_NOFILE, &before_limit);
  const StreamCounters after = counters();
  fmt::print(
      "{} half-open connections: {} handshakes begun, {} timed out, {} dropped for room, {} closed unread; {} "
      "descriptors at most\n",
      kGuests, after.accepted - before.accepted, after.unproven - before.unproven,
      after.half_open_dropped - before.half_open_dropped, after.rate_limited - before.rate_limited, most_descriptors);
  EXPECT_LE(most_descriptors, descriptors + TcpDialer::kAcceptQueueMax + StreamLimits{}.half_open_max + 16);
  EXPECT_EQ(after.proven, before.proven);
  for (std::size_t end = 0; end < 2; ++end) EXPECT_EQ(pair_.log(end).count_of(EventKind::kPathDown), 0u);

  // Its own connections are let in again.
  FaultSpec fault;
  fault.kind = FaultKind::kReset;
  fault.nic = NicId{1};
  EXPECT_TRUE(pair_.traffic_goes_on(20)) << pair_.traffic_failure();
  EXPECT_EQ(pair_.stop_traffic(), "");
  ASSERT_EQ(pair_.inject(0, fault), "");
  EXPECT_TRUE(pair_.settle(20s));
  EXPECT_EQ(pair_.end(), "");
}

TEST_F(HostileTest, GarbageAndOversizedLengthsEndOnlyTheirOwnConnection) {
  const StreamCounters before = counters();
  Handshake handshake(hello(key_id(secret()), 0), wrong_secret(), fresh_nonce());
  const Bytes hello_bytes = to_bytes(handshake.output());
  const auto with = [](Bytes head, ByteView tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  };
  // A frame that promises four gigabytes, right checksum included, before any proof.
  Bytes oversized(kHeaderBytes);
  encode_header({.type = 1, .path = {}, .epoch = {}, .payload_bytes = 0xffffffff}, {}, nullptr, 0, oversized.data());
  std::vector<Bytes> speeches{garbage(1),
                              garbage(1000),
                              garbage(1 << 20),
                              Bytes(1 << 20, std::byte{0xff}),
                              Bytes(1 << 20),
                              with(hello_bytes, oversized),
                              with(hello_bytes, garbage(1 << 20)),
                              with(hello_bytes, hello_bytes),
                              oversized,
                              with(garbage(7), oversized)};
  for (const int kind : {0, 2, 3, 4, 5, 6, 255}) {  // every message but HELLO, with garbage after its head
    Bytes wrong = with(to_bytes(ByteView(hello_bytes).first(kHandshakePrefixBytes)), garbage(200));
    wrong[kKindAt] = static_cast<std::byte>(kind);
    speeches.push_back(wrong);
  }
  for (std::size_t bit = 0; bit < 48; ++bit) {  // version and magic, one bit off
    Bytes wrong = hello_bytes;
    wrong[bit / 8] ^= std::byte{static_cast<std::uint8_t>(1 << bit % 8)};
    speeches.push_back(wrong);
  }
  std::size_t number = 0;
  for (const Bytes& speech : speeches) {
    pace(number);
    Guest guest = Guest::enter(door(number++ % kNics));
    ASSERT_TRUE(guest.in());
    guest.say(speech);
    EXPECT_TRUE(guest.hear_end()) << "speech " << number - 1 << " of " << speech.size()
                                  << " bytes is still listened to";
  }
  EXPECT_TRUE(turned_away(before, speeches.size()));
  EXPECT_EQ(counters().proven, before.proven);
  expect_untouched();
}

}  // namespace
}  // namespace r2ccl::loopback
