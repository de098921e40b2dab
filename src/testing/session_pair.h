#pragma once
// Two sessions and what connects them, for tests: both ends in one thread over frames in memory (session_net.h). The
// test moves the clock and breaks paths by name.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "session/session.h"
#include "testing/session_net.h"

namespace r2ccl::testing {

inline constexpr GroupId kGroup{7};
inline constexpr StreamId kStream{1};
inline constexpr PathId kRail0{{0}, {0}}, kRail1{{1}, {1}};

class CountNotices final : public NoticeSender {
 public:
  void send_notice(ProcessId to, NoticeKind, ByteView bytes) override {
    if (!bytes.empty()) ++sent[{to, static_cast<FrameType>(bytes[0])}];
  }
  std::map<std::pair<ProcessId, FrameType>, int> sent;
};
class NoLog final : public Log {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view) override {}
};

inline ProcessInfo process(std::uint64_t id, std::uint32_t rank, int nics) {
  ProcessInfo info{.process = {id}, .server = {rank}, .rank = rank, .host = "host" + std::to_string(rank), .ports = {}};
  for (int i = 0; i < nics; ++i) {
    info.ports.push_back(
        {.nic = {static_cast<std::uint8_t>(i)}, .name = "eth" + std::to_string(i), .listen = {}, .speed_bytes_s = 0});
  }
  return info;
}

inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed) & 0xff);
  return bytes;
}

struct Pair {
  explicit Pair(int nics = 4, SessionConfig config = small_chunks())
      : net(nics), telemetry{Telemetry(1 << 16), Telemetry(1 << 16)} {
    const ProcessInfo low = process(1, 0, nics), high = process(2, 1, nics);
    ends[0] = std::make_unique<Session>(low, high, KeyId{1}, net.providers[0], notices, log, telemetry[0], config);
    ends[1] = std::make_unique<Session>(high, low, KeyId{1}, net.providers[1], notices, log, telemetry[1], config);
    for (auto& end : ends) end->join(kGroup, Secret{});
  }
  static SessionConfig small_chunks() {
    SessionConfig config;
    config.limits.chunk_bytes = 1024;
    config.limits.peer_timeout = 5s;
    return config;
  }

  void turn(Duration by = 100us) {
    now += by;
    for (int side : {0, 1}) {
      while (auto link = net.providers[side].accept()) ends[side]->accept(std::move(link), now);
      ends[side]->step(now);
      for (Completion& done : ends[side]->take_completions()) completions[side].push_back(std::move(done));
    }
  }
  template <class Done>
  bool run(Done done, Duration limit = 10s, Duration by = 100us) {
    for (const Instant end = now + limit; now < end; turn(by))
      if (done()) return true;
    return done();
  }
  bool run_until_completions(std::size_t low, std::size_t high) {
    return run([&] { return completions[0].size() >= low && completions[1].size() >= high; });
  }
  std::uint64_t count(EventKind kind, int side) const {
    std::uint64_t n = 0;
    for (const Event& event : telemetry[side].events()) n += event.kind == kind;
    return n;
  }
  bool all_up() const {
    for (const auto& end : ends) {
      for (const PathView& path : end->paths())
        if (path.nic_here == path.nic_there && path.state != PathState::kUp) return false;
    }
    return true;
  }

  TestNet net;
  CountNotices notices;
  NoLog log;
  Telemetry telemetry[2];
  std::unique_ptr<Session> ends[2];
  std::vector<Completion> completions[2];
  Instant now{1s};
};

struct TestBuffer {
  explicit TestBuffer(Bytes content) : bytes(std::move(content)), region(bytes.data(), bytes.size()) {}
  explicit TestBuffer(std::size_t size) : TestBuffer(Bytes(size)) {}
  MemoryRef all() { return {&region, 0, bytes.size()}; }
  Bytes bytes;
  HostRegion region;
};

}  // namespace r2ccl::testing
