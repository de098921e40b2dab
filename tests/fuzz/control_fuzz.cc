// A member that proved itself may still send anything: the parsers must hold, and a root must survive any sequence
// of frames and keep serving a well-behaved member that had registered before. (Of two that claim one rank the
// first has it, whoever is right.)
//
// Input: frames, each one type byte, a length u16 (little-endian) and that many bytes of body.

#include <cstdlib>

#include "control/control.h"
#include "control/control_wire.h"
#include "control/local_link.h"

namespace {

using namespace r2ccl;

struct Quiet final : Log {
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view) override {}
};

struct CountHeartbeats final : FrameSink {
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
  void on_frame(Link&, const FrameHeader& header, ByteView, Payload) override {
    if (header.type == static_cast<std::uint8_t>(ControlFrame::kHeartbeat)) ++heartbeats;
  }
  int heartbeats = 0;
};

void parse_everything(ByteView body) {
  if (const auto parsed = parse_register(body)) {
    if (parsed->version == kControlVersion && !parse_register(encode_register(parsed->info))) std::abort();
  }
  if (const auto part = parse_roster_part(body)) {
    if (part->members.size() > kRosterMax) std::abort();
  }
  (void)parse_notice(body);
  (void)parse_process(body);
  (void)parse_refusal(body);
  if (const auto addresses = parse_reach(body);
      addresses && encode_reach(*addresses) != Bytes(body.begin(), body.end()))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Quiet log;
  ControlRoot root(2, {Address::v4(127, 0, 0, 1, 1)}, log);
  Instant now{1s};
  const auto member = [&](std::uint64_t process) {
    auto [here, there] = make_local_links({Purpose::kControl, {}, {process}, {}, {}}, {100});
    root.accept(std::move(there), now);
    return std::move(here);
  };
  auto wild = member(1);
  auto good = member(2);
  post_control(*good, ControlFrame::kRegister, encode_register({{2}, {2}, 2, "good", {}}));
  root.step(now);

  CountHeartbeats heard;
  Reader in(std::as_bytes(std::span(data, size)));
  while (in.left() > 0) {
    const auto type = in.get<std::uint8_t>();
    const ByteView body = in.take_sized();
    if (!in.ok()) break;
    parse_everything(body);
    post_control(*wild, static_cast<ControlFrame>(type), body);
    root.step(now);
    wild->step(now, heard);
  }
  heard.heartbeats = 0;
  now += 2s;
  root.step(now);
  good->step(now, heard);
  if (heard.heartbeats != 1) std::abort();
  return 0;
}
