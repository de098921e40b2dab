// Frames of any type, body and payload, and notices, from a peer that has proven itself and then lost its mind. The
// session may drop paths; it must not crash, assert, grow without bound, or touch memory that is not posted.

#include <cstdlib>

#include "session/session.h"
#include "testing/session_net.h"

namespace {

using namespace r2ccl;
using r2ccl::testing::TestLink;
using r2ccl::testing::TestNet;

class Quiet final : public NoticeSender, public Log {
 public:
  void send_notice(ProcessId, NoticeKind, ByteView) override {}
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view) override {}
};

ProcessInfo process(std::uint64_t id) {
  ProcessInfo info{
      .process = {id}, .server = {id}, .rank = static_cast<std::uint32_t>(id), .host = "host", .ports = {}};
  for (std::uint8_t nic : {0, 1}) info.ports.push_back({.nic = {nic}, .name = "eth", .listen = {}, .speed_bytes_s = 0});
  return info;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Reader in(std::as_bytes(std::span(data, size)));
  TestNet net(2);
  Quiet quiet;
  Telemetry telemetry(64);
  SessionConfig config;
  config.limits.chunk_bytes = 64;
  config.limits.copy_bytes_max = 64;
  config.limits.eager_bytes = 4096;
  Session session(process(2), process(1), KeyId{1}, net.providers[1], quiet, quiet, telemetry, config);
  Bytes source(300), target(300);
  HostRegion source_region(source.data(), source.size()), target_region(target.data(), target.size());
  session.join({1}, Secret{});
  Instant now{1s};
  TestLink* links[2] = {};

  for (int turn = 0; turn < 200 && in.left() >= 6; ++turn) {
    const auto command = in.get<std::uint8_t>();
    const PathId path{{static_cast<std::uint8_t>(command & 1)}, {static_cast<std::uint8_t>(command >> 1 & 1)}};
    TestLink*& link = links[command & 1];
    if (link == nullptr || link->state() == LinkState::kDown) {
      Hello hello;
      hello.path = path;
      auto fresh = std::make_unique<TestLink>(net, path.high, hello, ProcessId{1});
      net.links[fresh.get()] = path;
      link = fresh.get();
      session.accept(std::move(fresh), now);
    }
    if ((command & 0xc0) == 0xc0) session.send({1}, {command & 3u}, {&source_region, 0, command * 1u}, 0, 0);
    if ((command & 0xc0) == 0x80) session.receive({1}, {command & 3u}, {&target_region, 0, 300}, 0, 0);
    FrameHeader header{.type = in.get<std::uint8_t>(), .path = path, .epoch = {in.get<std::uint8_t>()}};
    const ByteView body = in.take(std::min<std::size_t>(in.get<std::uint8_t>(), in.left()));
    const ByteView payload = in.take(std::min<std::size_t>(in.get<std::uint8_t>(), in.left()));
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    if ((command & 0x20) != 0)
      session.on_notice(body, now);
    else if (net.links.contains(link))
      TestNet::inject(*link, header, body, payload);
    now += std::chrono::milliseconds(command & 0x1c);
    session.step(now);
    session.take_completions();
    for (TestLink*& known : links)
      if (!net.links.contains(known)) known = nullptr;
  }
  return 0;
}
