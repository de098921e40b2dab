#include "transport/tcp/tcp_stream.h"

#include <gtest/gtest.h>

#include "testing/tcp_test_bench.h"

namespace r2ccl {
namespace {

TEST(TcpStream, ConnectsFromTheNicItWasAskedFor) {
  TcpBench bench;
  auto ends = bench.connect();
  ASSERT_TRUE(ends.server);
  EXPECT_EQ(ends.client->state(), LinkState::kUp);
  EXPECT_EQ(ends.client->nic(), TcpBench::kA);
  EXPECT_EQ(ends.server->nic(), TcpBench::kB);
}

TEST(TcpStream, NothingIsReadableBeforeSomethingArrives) {
  TcpBench bench;
  auto ends = bench.connect();
  EXPECT_FALSE(ends.server->readable());
  std::size_t total = 0;
  EXPECT_TRUE(TcpBench::drain(*ends.server, total).would_block);
  TcpBench::write_text(*ends.client, "x");
  EXPECT_TRUE(bench.until([&] { return ends.server->readable(); }));
}

TEST(TcpStream, BulkDataArrivesWholeAndInOrderThroughVectoredParts) {
  TcpBench bench;
  auto ends = bench.connect();
  constexpr std::size_t kBytes = 32 * 1024 * 1024;
  std::vector<std::byte> out(kBytes), in(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) out[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  std::size_t sent = 0, got = 0;
  const auto pump = [&] {
    const std::size_t half = (kBytes - sent) / 2;
    const std::array<ByteView, 2> parts{ByteView(out).subspan(sent, half), ByteView(out).subspan(sent + half)};
    sent += ends.client->write(parts).bytes;
    const std::size_t head = std::min<std::size_t>(1000, kBytes - got);
    const std::array<ReadPart, 2> into{ReadPart{in.data() + got, head},
                                       ReadPart{in.data() + got + head, kBytes - got - head}};
    got += ends.server->read(into).bytes;
    return got == kBytes;
  };
  ASSERT_TRUE(bench.until([&] {
    for (int i = 0; i < 100; ++i) {
      if (pump()) return true;
    }
    return false;
  }));
  EXPECT_EQ(in, out);
}

TEST(TcpStream, EndOfStreamComesAfterTheLastByte) {
  TcpBench bench;
  auto ends = bench.connect();
  TcpBench::write_text(*ends.client, "last words");
  ends.client->close(false);
  std::size_t total = 0;
  ASSERT_TRUE(bench.until([&] { return TcpBench::drain(*ends.server, total).cause != Cause::kNone; }));
  EXPECT_EQ(total, 10u);
  EXPECT_EQ(ends.server->cause(), Cause::kClosed);
  EXPECT_EQ(ends.server->state(), LinkState::kDown);
}

TEST(TcpStream, EndOfStreamIsNotMissedByAShortRead) {
  TcpBench bench;
  auto ends = bench.connect();
  TcpBench::write_text(*ends.client, "abc");
  ends.client->close(false);
  ASSERT_TRUE(bench.until([&] { return ends.server->readable(); }));
  for (int i = 0; i < 3; ++i)
    bench.dialer->step({});  // data and end are both announced by now; no further edge will come
  std::array<std::byte, 64> buffer;
  const ReadPart part{buffer.data(), buffer.size()};
  EXPECT_EQ(ends.server->read({&part, 1}).bytes, 3u);
  EXPECT_TRUE(bench.until([&] { return ends.server->read({&part, 1}).cause == Cause::kClosed; }));
}

TEST(TcpStream, AbortiveCloseIsAResetAtTheOtherEnd) {
  TcpBench bench;
  auto ends = bench.connect();
  ends.client->close(true);
  std::size_t total = 0;
  ASSERT_TRUE(bench.until([&] { return TcpBench::drain(*ends.server, total).cause != Cause::kNone; }));
  EXPECT_EQ(ends.server->cause(), Cause::kReset);
  EXPECT_FALSE(ends.server->error().empty());
}

TEST(TcpStream, WhatArrivedCanBeReadAfterAFailedWrite) {
  TcpBench bench;
  auto ends = bench.connect();
  TcpBench::write_text(*ends.client, "arrived");
  ASSERT_TRUE(bench.until([&] { return ends.server->readable(); }));
  ends.client->close(true);
  ASSERT_TRUE(bench.until([&] { return TcpBench::write_text(*ends.server, "x").cause != Cause::kNone; }));
  EXPECT_EQ(ends.server->state(), LinkState::kDown);
  EXPECT_EQ(ends.server->cause(), Cause::kReset);
  std::size_t total = 0;
  EXPECT_EQ(TcpBench::drain(*ends.server, total).cause, Cause::kReset);
  EXPECT_EQ(total, 7u);
}

TEST(TcpStream, ConnectToAPortWithoutListenerIsRefused) {
  TcpBench bench;
  Address nobody = bench.address;
  {
    TcpBench other;  // its port is free again when it is gone
    nobody = other.address;
  }
  auto stream = bench.dialer->connect(TcpBench::kA, nobody);
  ASSERT_TRUE(stream);
  ASSERT_TRUE(bench.until([&] { return (*stream)->state() != LinkState::kOpening; }));
  EXPECT_EQ((*stream)->cause(), Cause::kRefused);
}

TEST(TcpStream, ClosedStreamAnswersWithoutTouchingTheSocket) {
  TcpBench bench;
  auto ends = bench.connect();
  ends.client->close(true);
  EXPECT_EQ(TcpBench::write_text(*ends.client, "x").cause, Cause::kClosed);
  EXPECT_FALSE(ends.client->readable());
  EXPECT_FALSE(ends.client->writable());
  ends.client->progress({});
  EXPECT_TRUE(ends.client->deafen(true));
}

// The difference health/silence.h rests on: a peer that does not read leaves nothing unacknowledged, only unsent.
TEST(TcpStream, ZeroWindowLeavesNothingUnacknowledged) {
  TcpBench bench({.send_buffer_bytes = 0, .receive_buffer_bytes = 16 * 1024});
  auto ends = bench.connect();
  TcpBench::fill(*ends.client);
  Progress progress;
  const auto stopped = [&] {
    TcpBench::fill(*ends.client);
    progress = ends.client->progress({});
    return progress.unacked_bytes == 0 && progress.queued_bytes > 0;
  };
  ASSERT_TRUE(bench.until(stopped));
  // Through several window probes (the first comes after about 200 ms) it stays that way whenever the answer is in.
  const std::uint64_t acked = progress.acked_bytes;
  int unacknowledged = 0;
  ASSERT_TRUE(bench.until([&] {
    progress = ends.client->progress({});
    unacknowledged += progress.unacked_bytes > 0 ? 1 : 0;
    return progress.last_ack_age > 300ms;
  }));
  EXPECT_LE(unacknowledged, 10);  // a probe in flight at the moment of looking, never a state
  EXPECT_EQ(progress.unacked_bytes, 0u);
  EXPECT_GE(progress.acked_bytes, acked);
  std::size_t total = 0;
  TcpBench::drain(*ends.server, total);
  EXPECT_TRUE(bench.until([&] { return ends.client->progress({}).acked_bytes > acked; }));
}

TEST(TcpStream, DeafReaderLeavesBytesUnacknowledgedAndTheAgeGrowing) {
  TcpBench bench;
  auto ends = bench.connect();
  ASSERT_TRUE(ends.server->deafen(true));
  const std::uint64_t acked = ends.client->progress({}).acked_bytes;
  TcpBench::write_text(*ends.client, "into the void");
  ASSERT_TRUE(bench.until([&] { return ends.client->progress({}).last_ack_age > 60ms; }));
  Progress progress = ends.client->progress({});
  EXPECT_EQ(progress.unacked_bytes, 13u);
  EXPECT_EQ(progress.acked_bytes, acked);
  EXPECT_FALSE(ends.server->readable());

  ASSERT_TRUE(ends.server->deafen(false));
  EXPECT_TRUE(bench.until([&] { return ends.server->readable(); }));
  EXPECT_TRUE(bench.until([&] { return ends.client->progress({}).unacked_bytes == 0; }));
}

TEST(TcpStream, DeafStreamSaysNothingNotEvenThatItCloses) {
  TcpBench bench;
  auto ends = bench.connect();
  ends.server->deafen(true);
  EXPECT_FALSE(ends.server->writable());
  EXPECT_TRUE(TcpBench::write_text(*ends.server, "unheard").would_block);
  ends.server->close(true);
  TcpBench::write_text(*ends.client, "anybody?");
  EXPECT_TRUE(bench.until([&] { return ends.client->progress({}).last_ack_age > 60ms; }));
  EXPECT_FALSE(ends.client->readable());
  EXPECT_EQ(ends.client->state(), LinkState::kUp);
  EXPECT_GT(ends.client->progress({}).unacked_bytes, 0u);

  bench.dialer->deafen_nic(TcpBench::kB, false);  // the cable is in again: now the reset goes out
  std::size_t total = 0;
  ASSERT_TRUE(bench.until([&] { return TcpBench::drain(*ends.client, total).cause != Cause::kNone; }));
  EXPECT_EQ(ends.client->cause(), Cause::kReset);
}

TEST(TcpStream, ErrnosNameTheirCause) {
  EXPECT_EQ(cause_of(ECONNREFUSED), Cause::kRefused);
  EXPECT_EQ(cause_of(ECONNRESET), Cause::kReset);
  EXPECT_EQ(cause_of(EPIPE), Cause::kReset);
  EXPECT_EQ(cause_of(ETIMEDOUT), Cause::kTimeout);
  EXPECT_EQ(cause_of(EHOSTUNREACH), Cause::kTimeout);
  for (const int error : {ENETDOWN, ENETUNREACH, EADDRNOTAVAIL, ENODEV}) EXPECT_EQ(cause_of(error), Cause::kLocal);
}

}  // namespace
}  // namespace r2ccl
