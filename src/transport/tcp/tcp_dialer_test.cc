#include "transport/tcp/tcp_dialer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "testing/tcp_test_bench.h"
#include "transport/tcp/socket.h"

namespace r2ccl {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(TcpDialer, UnknownNicsAndMixedFamiliesAreMisuse) {
  TcpBench bench;
  EXPECT_EQ(bench.dialer->listen({9}, 0).error().fault, Fault::kMisuse);
  EXPECT_EQ(bench.dialer->connect({9}, bench.address).error().fault, Fault::kMisuse);
  Address v6;
  v6.ip[15] = 1;
  v6.port = 1;
  EXPECT_EQ(bench.dialer->connect(TcpBench::kA, v6).error().fault, Fault::kMisuse);
}

TEST(TcpDialer, AddressThatIsNotOursIsLocalEvidence) {
  // 192.0.2.0/24 is reserved for documentation: no machine has it, so nothing is ever sent.
  std::vector<Nic> nics{{.id = {0}, .name = "gone", .address = Address::v4(192, 0, 2, 1)}};
  auto dialer = TcpDialer::open(nics, {});
  ASSERT_TRUE(dialer);
  EXPECT_EQ((*dialer)->listen({0}, 0).error().fault, Fault::kPathDown);
  auto stream = (*dialer)->connect({0}, Address::v4(127, 0, 0, 1, 9));
  ASSERT_TRUE(stream);
  EXPECT_EQ((*stream)->state(), LinkState::kDown);
  EXPECT_EQ((*stream)->cause(), Cause::kLocal);
}

TEST(TcpDialer, ANicThatIsNoneInParticularListensEverywhereAndIsDialledByRoute) {
  auto dialer = TcpDialer::open({{.id = {0}, .name = "(any NIC)", .address = {}}}, {});
  ASSERT_TRUE(dialer);
  const auto listening = (*dialer)->listen({0}, 0);
  ASSERT_TRUE(listening) << listening.error().what;
  for (const char* text : {"127.0.0.1", "127.44.0.9", "::1"}) {
    Address address = Address::parse(text).value();
    address.port = listening->port;
    if (!source_towards(address)) continue;  // no IPv6 here
    auto client = (*dialer)->connect({0}, address);
    ASSERT_TRUE(client) << text;
    std::unique_ptr<Stream> server;
    for (int i = 0; i < 1000 && (!server || (*client)->state() == LinkState::kOpening); ++i) {
      if (!(*dialer)->step({})) (*dialer)->wait({}, Instant{} + 5ms);
      if (!server) server = (*dialer)->accept();
    }
    EXPECT_TRUE(server) << text;
    EXPECT_EQ((*client)->state(), LinkState::kUp) << text;
  }
}

TEST(TcpDialer, AnUnknownZoneIsNoInterface) {
  auto dialer = TcpDialer::open({{.id = {0}, .name = "(any NIC)", .address = {}}}, {});
  ASSERT_TRUE(dialer);
  const auto stream = (*dialer)->connect({0}, Address::parse("[fe80::1%nosuch]:5").value());
  ASSERT_TRUE(stream);
  EXPECT_EQ((*stream)->state(), LinkState::kDown);
  EXPECT_FALSE(source_towards(Address::parse("[fe80::1%nosuch]:5").value()));
}

TEST(TcpDialer, Ipv6WorksAlike) {
  Address loopback;
  loopback.ip[15] = 1;
  auto dialer = TcpDialer::open({{.id = {0}, .name = "::1", .address = loopback}}, {});
  ASSERT_TRUE(dialer);
  const auto address = (*dialer)->listen({0}, 0);
  if (!address) GTEST_SKIP() << "no IPv6 here: " << address.error().what;
  auto client = (*dialer)->connect({0}, *address);
  ASSERT_TRUE(client);
  std::unique_ptr<Stream> server;
  for (int i = 0; i < 1000 && (!server || (*client)->state() == LinkState::kOpening); ++i) {
    if (!(*dialer)->step({})) (*dialer)->wait({}, Instant{} + 5ms);
    if (!server) server = (*dialer)->accept();
  }
  EXPECT_TRUE(server);
  EXPECT_EQ((*client)->state(), LinkState::kUp);
}

TEST(TcpDialer, TenThousandConnectionsLeakNeitherDescriptorsNorPorts) {
  TcpBench bench;
  bench.connect();
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 100; ++round) {
    std::vector<std::unique_ptr<Stream>> clients, servers;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(bench.dial());
      ASSERT_TRUE(clients.back());
    }
    ASSERT_TRUE(bench.until([&] {
      while (auto server = bench.dialer->accept()) servers.push_back(std::move(server));
      return servers.size() == 100;
    }));
    for (auto& client : clients) client->close(true);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(bench.dialer->counters().accepts, 10'001u);
}

TEST(TcpDialer, RunningOutOfDescriptorsShedsNewConnectionsAndSparesRunningOnes) {
  TcpBench bench;
  auto running = bench.connect();
  std::vector<std::unique_ptr<Stream>> late;
  for (int i = 0; i < 8; ++i) late.push_back(bench.dial());

  // The undefined-behaviour sanitizer looks at an object's type by way of a descriptor, once: now, while there are
  // some.
  EXPECT_NE(describe("no", EMFILE), "");
  rlimit normal{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &normal), 0);
  rlimit tight = normal;
  tight.rlim_cur = 3;  // below what is open already: nothing new fits
  const auto refill_spare_fails = [&] { return bench.dialer->counters().out_of_descriptors; };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (int i = 0; i < 50; ++i) bench.dialer->step({});
  const bool sleeps = !bench.dialer->step({});
  const auto dial_error = bench.dialer->connect(TcpBench::kA, bench.address);
  TcpBench::write_text(*running.client, "still here");
  const bool heard = bench.until([&] { return running.server->readable(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &normal), 0);

  EXPECT_TRUE(sleeps) << "a connection that can not be taken keeps the driver busy";
  EXPECT_EQ(dial_error.error().fault, Fault::kBusy);
  EXPECT_TRUE(heard);
  EXPECT_EQ(refill_spare_fails(), 0u) << "with the limit below the spare itself not even shedding is possible";
  // With descriptors again, those that waited are taken.
  int accepted = 0;
  EXPECT_TRUE(bench.until([&] {
    while (bench.dialer->accept()) ++accepted;
    return accepted == 8;
  }));
}

TEST(TcpDialer, WithOnlyTheSpareLeftConnectionsAreClosedAndCounted) {
  TcpBench bench;
  const auto seen_before = bench.connect();  // the sanitizer needs a descriptor when it first meets a type
  std::vector<std::unique_ptr<Stream>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(bench.dial());
  rlimit normal{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &normal), 0);
  // Descriptors are given lowest first, so with this limit exactly those in use fit.
  rlimit tight = normal;
  int highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    highest = std::max(highest, std::stoi(entry.path().filename().string()));
  }
  std::vector<Fd> plugs;
  for (;;) {
    Fd plug(::dup(0));
    if (plug.get() > highest) break;
    plugs.push_back(std::move(plug));
  }
  tight.rlim_cur = static_cast<rlim_t>(highest) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const bool shed = bench.until([&] { return bench.dialer->counters().out_of_descriptors == 8; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &normal), 0);
  EXPECT_TRUE(shed);
  EXPECT_FALSE(bench.dialer->accept());
  std::size_t total = 0;
  EXPECT_TRUE(bench.until([&] { return TcpBench::drain(*clients[7], total).cause == Cause::kReset; }));
}

TEST(TcpDialer, DeafNicAnswersNobodyAndReachesNobody) {
  TcpBench bench;
  bench.dialer->deafen_nic(TcpBench::kB, true);
  auto inbound = bench.dial();  // to NIC b
  const auto a_address = bench.dialer->listen(TcpBench::kA, 0);
  ASSERT_TRUE(a_address);
  auto outbound = bench.dialer->connect(TcpBench::kB, *a_address);
  ASSERT_TRUE(outbound);
  for (int i = 0; i < 10; ++i) {
    bench.dialer->step({});
    bench.dialer->wait({}, Instant{} + 5ms);
  }
  EXPECT_EQ(inbound->state(), LinkState::kOpening);
  EXPECT_EQ((*outbound)->state(), LinkState::kOpening);

  bench.dialer->deafen_nic(TcpBench::kB, false);
  auto later = bench.connect();  // at once; the old ones only when TCP tries again
  EXPECT_EQ(later.client->state(), LinkState::kUp);
}

TEST(TcpDialer, DeafNicSilencesConnectionsThatStandAlready) {
  TcpBench bench;
  auto ends = bench.connect();
  bench.dialer->deafen_nic(TcpBench::kB, true);
  TcpBench::write_text(*ends.client, "hello?");
  EXPECT_TRUE(bench.until([&] { return ends.client->progress({}).last_ack_age > 30ms; }));
  EXPECT_FALSE(ends.server->readable());
  bench.dialer->deafen_nic(TcpBench::kB, false);
  EXPECT_TRUE(bench.until([&] { return ends.server->readable(); }));
}

TEST(TcpDialer, WakeFromAnotherThreadEndsTheWait) {
  TcpBench bench;
  while (bench.dialer->step({})) {
  }
  const auto begin = std::chrono::steady_clock::now();
  std::thread waker([&] { bench.dialer->wake(); });
  bench.dialer->wait({}, kNever);
  waker.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(TcpDialer, WakeBeforeTheWaitIsNotLost) {
  TcpBench bench;
  bench.dialer->wake();
  bench.dialer->wait({}, kNever);  // returns, or the test times out
  bench.dialer->step({});
  const auto begin = std::chrono::steady_clock::now();
  bench.dialer->wait({}, Instant{} + 2ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms) << "a wake ends one wait, not every later one";
}

TEST(TcpDialer, WhatEndedAWaitIsThereForTheNextStep) {
  TcpBench bench;
  auto ends = bench.connect();
  while (bench.dialer->step({})) {
  }
  TcpBench::write_text(*ends.client, "x");
  bench.dialer->wait({}, kNever);
  bench.dialer->wait({}, kNever);  // still ready
  EXPECT_TRUE(bench.dialer->step({}));
  EXPECT_TRUE(ends.server->readable());
}

}  // namespace
}  // namespace r2ccl
