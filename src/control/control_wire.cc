#include "control/control_wire.h"

#include <algorithm>

namespace r2ccl {
namespace {

constexpr std::size_t kProcessInfoMin = 8 + 8 + 4 + 2 + 1;  // without names and ports

void put_text(Writer& out, const std::string& text, std::size_t max) {
  const std::size_t size = std::min(text.size(), max);
  out.put_sized(std::as_bytes(std::span(text.data(), size)));
}

std::optional<std::string> get_text(Reader& in, std::size_t max) {
  const ByteView raw = in.take_sized();
  if (!in.ok() || raw.size() > max) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

void put_info(Writer& out, const ProcessInfo& info) {
  out.put(info.process.value);
  out.put(info.server.value);
  out.put(info.rank);
  put_text(out, info.host, kHostMax);
  const std::size_t ports = std::min(info.ports.size(), kPortsMax);
  out.put(static_cast<std::uint8_t>(ports));
  for (std::size_t i = 0; i < ports; ++i) {
    const ProcessInfo::Port& port = info.ports[i];
    out.put(port.nic.value);
    put_text(out, port.name, kNicNameMax);
    port.listen.write(out);
    out.put(port.speed_bytes_s);
  }
}

std::optional<ProcessInfo> get_info(Reader& in) {
  ProcessInfo info;
  info.process = {in.get<std::uint64_t>()};
  info.server = {in.get<std::uint64_t>()};
  info.rank = in.get<std::uint32_t>();
  auto host = get_text(in, kHostMax);
  if (!host) return std::nullopt;
  info.host = std::move(*host);
  const std::size_t ports = in.get<std::uint8_t>();
  if (!in.ok() || ports > kPortsMax) return std::nullopt;
  for (std::size_t i = 0; i < ports; ++i) {
    ProcessInfo::Port port;
    port.nic = {in.get<std::uint8_t>()};
    auto name = get_text(in, kNicNameMax);
    if (!name) return std::nullopt;
    port.name = std::move(*name);
    port.listen = Address::read(in);
    port.speed_bytes_s = in.get<std::uint64_t>();
    const auto same_nic = [&](const ProcessInfo::Port& other) { return other.nic == port.nic; };
    if (!in.ok() || std::ranges::any_of(info.ports, same_nic)) return std::nullopt;
    info.ports.push_back(std::move(port));
  }
  if (info.process.value == 0) return std::nullopt;
  return info;
}

}  // namespace

Bytes encode_register(const ProcessInfo& info, std::uint32_t expected) {
  Bytes body;
  Writer out(body);
  out.put(kControlVersion);
  out.put(expected);
  put_info(out, info);
  return body;
}

std::optional<RegisterBody> parse_register(ByteView body) {
  Reader in(body);
  RegisterBody parsed;
  parsed.version = in.get<std::uint16_t>();
  if (!in.ok()) return std::nullopt;
  if (parsed.version != kControlVersion) return parsed;
  parsed.expected = in.get<std::uint32_t>();
  auto info = get_info(in);
  if (!info || !in.done()) return std::nullopt;
  parsed.info = std::move(*info);
  return parsed;
}

Bytes encode_roster_part(const std::vector<ProcessInfo>& roster, std::size_t first, std::size_t& next) {
  Bytes body;
  Writer out(body);
  out.put(static_cast<std::uint32_t>(roster.size()));
  out.put(static_cast<std::uint32_t>(first));
  for (next = first; next < roster.size(); ++next) {
    const std::size_t before = body.size();
    put_info(out, roster[next]);
    if (body.size() > kBodyBytesMax) {
      body.resize(before);
      break;
    }
  }
  return body;
}

std::optional<RosterPart> parse_roster_part(ByteView body) {
  Reader in(body);
  RosterPart part;
  part.total = in.get<std::uint32_t>();
  part.first = in.get<std::uint32_t>();
  if (!in.ok() || part.total == 0 || part.total > kRosterMax || part.first >= part.total) return std::nullopt;
  while (in.left() >= kProcessInfoMin) {
    auto info = get_info(in);
    if (!info || part.members.size() >= part.total - part.first) return std::nullopt;
    part.members.push_back(std::move(*info));
  }
  if (!in.done() || part.members.empty()) return std::nullopt;
  return part;
}

Bytes encode_notice(ProcessId process, NoticeKind kind, ByteView bytes) {
  Bytes body;
  Writer out(body);
  out.put(process.value);
  out.put(static_cast<std::uint8_t>(kind));
  out.put(bytes);
  return body;
}

std::optional<NoticeBody> parse_notice(ByteView body) {
  Reader in(body);
  NoticeBody notice;
  notice.process = {in.get<std::uint64_t>()};
  const auto kind = in.get<std::uint8_t>();
  if (!in.ok() || in.left() > kNoticeBytesMax) return std::nullopt;
  if (kind < static_cast<std::uint8_t>(NoticeKind::kSession) ||
      kind > static_cast<std::uint8_t>(NoticeKind::kVerdict)) {
    return std::nullopt;
  }
  notice.kind = static_cast<NoticeKind>(kind);
  notice.bytes = in.take(in.left());
  return notice;
}

Bytes encode_process(ProcessId process) {
  Bytes body;
  Writer(body).put(process.value);
  return body;
}

std::optional<ProcessId> parse_process(ByteView body) {
  Reader in(body);
  const ProcessId process{in.get<std::uint64_t>()};
  if (!in.done()) return std::nullopt;
  return process;
}

Bytes encode_refusal(const std::string& sentence) {
  Bytes body;
  Writer out(body);
  put_text(out, sentence, kRefusalMax);
  return body;
}

std::optional<std::string> parse_refusal(ByteView body) {
  Reader in(body);
  auto sentence = get_text(in, kRefusalMax);
  if (!sentence || !in.done()) return std::nullopt;
  std::ranges::replace_if(*sentence, [](char c) { return c < ' ' || c > '~'; }, '?');
  return sentence;
}

Bytes encode_reach(const std::vector<Address>& addresses) {
  Bytes body;
  Writer out(body);
  const std::size_t count = std::min(addresses.size(), kPortsMax);
  out.put(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) addresses[i].write(out);
  return body;
}

std::optional<std::vector<Address>> parse_reach(ByteView body) {
  Reader in(body);
  const std::size_t count = in.get<std::uint8_t>();
  if (!in.ok() || count > kPortsMax || in.left() != count * Address::kWireSize) return std::nullopt;
  std::vector<Address> addresses;
  for (std::size_t i = 0; i < count; ++i) addresses.push_back(Address::read(in));
  return addresses;
}

bool post_control(Link& link, ControlFrame type, ByteView body) {
  OutFrame frame;
  frame.header.type = static_cast<std::uint8_t>(type);
  frame.body = body;
  return link.post(frame).has_value();
}

}  // namespace r2ccl
