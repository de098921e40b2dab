// Whole processes over real TCP on loopback addresses, several of them in this one.

#include "runtime/threads/process.h"

#include <thread>

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr GroupId kGroup{5};
constexpr StreamId kStream{9};

Settings settings_of(unsigned server, int nics) {
  Settings settings;
  settings.server = server;
  settings.debug = "VERSION";
  for (int nic = 0; nic < nics; ++nic)
    settings.nics.push_back("127." + std::to_string(40 + server) + ".0." + std::to_string(nic + 1));
  return settings;
}

struct Job {
  explicit Job(unsigned count, int nics = 2, const std::string& fault = "") {
    for (unsigned rank = 0; rank < count; ++rank) {
      Settings settings = settings_of(rank, nics);
      settings.fault = fault;
      auto made = Process::create(settings, {.rank = rank, .host = "", .progress_thread = true});
      EXPECT_TRUE(made.has_value()) << made.error().what;
      processes.push_back(std::move(*made));
    }
    const auto id = processes[0]->host(count);
    EXPECT_TRUE(id.has_value());
    std::vector<std::thread> threads;
    for (auto& process : processes) {
      threads.emplace_back([&] {
        const Status joined = process->join(*id, 20s);
        EXPECT_TRUE(joined.has_value()) << joined.error().what;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ProcessId id_of(unsigned rank) { return processes[rank]->self().process; }

  // Sends `bytes` from one rank and returns what the other received.
  Bytes transfer(unsigned from, unsigned to, Bytes bytes) {
    Bytes received(bytes.size());
    HostRegion source(bytes.data(), bytes.size()), target(received.data(), received.size());
    post(from, to, [&](Session& session) { return session.send(kGroup, kStream, {&source, 0, bytes.size()}, 1, 1); });
    post(to, from,
         [&](Session& session) { return session.receive(kGroup, kStream, {&target, 0, received.size()}, 1, 2); });
    std::thread sender([&] { await_completion(from, to); });
    await_completion(to, from);
    sender.join();
    return received;
  }
  template <class Post>
  void post(unsigned here, unsigned there, Post call) {
    processes[here]->driver().with_engine([&](Engine& engine) {
      Session& session = engine.session(id_of(there));
      session.join(kGroup, Secret{});
      const auto posted = call(session);
      EXPECT_TRUE(posted.has_value()) << posted.error().what;
    });
  }
  void await_completion(unsigned here, unsigned there) {
    const auto done = [&](Engine& engine) { return !engine.session(id_of(there)).take_completions().empty(); };
    EXPECT_TRUE(processes[here]->driver().wait_until(done, processes[here]->clock().now() + 20s));
  }

  std::vector<std::unique_ptr<Process>> processes;
};

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 255);
  return bytes;
}

TEST(Process, MessagesCrossAndEverybodyFinishes) {
  Job job(3);
  EXPECT_EQ(job.transfer(0, 1, pattern(100)), pattern(100));
  EXPECT_EQ(job.transfer(2, 0, pattern(3'000'000)), pattern(3'000'000));
  std::vector<std::thread> threads;
  for (auto& process : job.processes) threads.emplace_back([&] { EXPECT_TRUE(process->finish()); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Process, TransferSurvivesADeadNicAndBothEndsNameIt) {
  for (const std::string kind : {"down", "cable", "blackhole"}) {
    Job job(2, 3, "at=1h server=1 nic=0 kind=reset");  // never; it makes NICs breakable
    ASSERT_EQ(job.transfer(0, 1, pattern(1000)), pattern(1000));
    job.processes[1]->driver().with_engine([&](Engine&) {
      const auto spec = parse_fault("at=0s server=1 nic=1 kind=" + kind);
      EXPECT_TRUE(job.processes[1]->faults()->inject(*spec, job.processes[1]->clock().now()).has_value());
    });
    EXPECT_EQ(job.transfer(0, 1, pattern(20'000'000)), pattern(20'000'000));
    for (auto& process : job.processes) {
      const auto judged = [](Engine& engine) { return !engine.verdicts().empty(); };
      ASSERT_TRUE(process->driver().wait_until(judged, process->clock().now() + 20s)) << kind;
      process->driver().with_engine([&](Engine& engine) {
        EXPECT_EQ(engine.verdicts()[0].blame, Blame::kNic) << kind << ": " << to_text(engine.verdicts()[0]);
        EXPECT_EQ(engine.verdicts()[0].culprit, (NicName{{1}, {1}})) << kind << ": " << to_text(engine.verdicts()[0]);
      });
    }
  }
}

TEST(Process, WrongSecretIsNamed) {
  Job job(1);
  auto made = Process::create(settings_of(7, 1), {.rank = 1, .host = "", .progress_thread = true});
  ASSERT_TRUE(made.has_value());
  auto other = UniqueId::make((*made)->random(), {job.processes[0]->self().ports[0].listen});
  const Status joined = (*made)->join(other, 300ms);
  ASSERT_FALSE(joined.has_value());
  EXPECT_NE(joined.error().what.find("do not share a secret"), std::string::npos) << joined.error().what;
}

TEST(Process, BadSettingsComeBackAsASentence) {
  Settings settings = settings_of(0, 1);
  settings.fault = "nonsense";
  EXPECT_FALSE(Process::create(settings, {}).has_value());
  settings = settings_of(0, 1);
  settings.nics = {"no-such-nic"};
  EXPECT_FALSE(Process::create(settings, {}).has_value());
}

TEST(Process, ServerComesFromTheSettingsOrTheHost) {
  Settings settings;
  settings.host_id = "a";
  const ServerId a = server_of(settings);
  settings.host_id = "b";
  EXPECT_NE(server_of(settings), a);
  settings.server = 3;
  EXPECT_EQ(server_of(settings), ServerId{3});
  EXPECT_EQ(server_of(Settings{}), server_of(Settings{}));
}

MeetingPlace place_at(const std::string& host, const Address& address, bool named) {
  return {host, {address}, named};
}

// A port that was free a moment ago.
Address free_address(std::uint8_t a, std::uint8_t b) {
  std::vector<Nic> nics{{.id = {0}, .name = "", .address = Address::v4(127, a, b, 9)}};
  return TcpDialer::open(nics, {}).value()->listen({0}, 0).value();
}

// At no data NIC's address; by name it is listened for everywhere.
TEST(Process, APlaceThatIsNoDataNicIsMetThereAndGivesTheDataNicsAway) {
  for (const bool named : {false, true}) {
    const Address address = free_address(49, named ? 2 : 1);
    std::vector<std::unique_ptr<Process>> processes;
    for (unsigned rank = 0; rank < 2; ++rank) {
      ProcessOptions options{.rank = rank, .place = place_at("node", address, named)};
      auto made = Process::create(settings_of(rank, 2), options);
      ASSERT_TRUE(made) << made.error().what;
      EXPECT_EQ((*made)->self().ports.size(), 2u) << "it carries no data";
      processes.push_back(std::move(*made));
    }
    const auto hosted = processes[0]->host_at_place(Secret{});
    ASSERT_TRUE(hosted) << hosted.error().what;
    UniqueId id = *hosted;
    id.root = id.place = {address};  // as a launcher says it
    std::vector<std::thread> threads;
    std::vector<KeyId> jobs(2);
    for (unsigned rank = 0; rank < 2; ++rank) {
      Process& process = *processes[rank];
      process.driver().with_engine([&](Engine& engine) { jobs[rank] = engine.join(id, rank, 2); });
      const auto ready = [](Engine& engine) { return engine.ready(); };
      ASSERT_TRUE(rank == 0 || process.driver().wait_until(ready, process.clock().now() + 20s));
    }
    processes[1]->driver().with_engine([&](Engine& engine) {
      const auto way = engine.control_way(jobs[1]);
      ASSERT_TRUE(way);
      EXPECT_EQ(way->root, address);
    });
    for (auto& process : processes) threads.emplace_back([&] { EXPECT_TRUE(process->finish()); });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Process, APlaceOfAnotherServerIsNotHosted) {
  const ProcessOptions options{.place = place_at("node7", Address::v4(192, 0, 2, 1, 5), true)};
  auto made = Process::create(settings_of(0, 1), options);
  ASSERT_TRUE(made) << made.error().what;
  const auto hosted = (*made)->host_at_place(Secret{});
  ASSERT_FALSE(hosted);
  EXPECT_NE(hosted.error().what.find("to meet at node7, port 5, but no interface"), std::string::npos)
      << hosted.error().what;
}

TEST(Process, PayloadsAreCheckedWhereAWireMayDamageThem) {
  const std::vector<Nic> inside = {{.id = {0}, .name = "127.40.0.1", .address = Address::v4(127, 40, 0, 1)}};
  const std::vector<Nic> mixed = {inside[0], {.id = {1}, .name = "eth0", .address = Address::v4(10, 0, 0, 1)}};
  Settings settings;
  EXPECT_FALSE(checks_payloads(settings, inside));
  EXPECT_TRUE(checks_payloads(settings, mixed));
  settings.checksum = "on";
  EXPECT_TRUE(checks_payloads(settings, inside));
  settings.checksum = "off";
  EXPECT_FALSE(checks_payloads(settings, mixed));
}

}  // namespace
}  // namespace r2ccl
