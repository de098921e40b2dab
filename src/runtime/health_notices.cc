#include "runtime/health_notices.h"

#include <algorithm>

namespace r2ccl {
namespace {

void put_name(Writer& out, NicName name) {
  out.put(name.server.value);
  out.put(name.nic.value);
}

NicName get_name(Reader& in) {
  NicName name;
  name.server = {in.get<std::uint64_t>()};
  name.nic = {in.get<std::uint8_t>()};
  return name;
}

// A byte that must be one of 0..last; with any other the notice is refused.
template <class Enum>
std::optional<Enum> get_enum(Reader& in, Enum last) {
  const auto value = in.get<std::uint8_t>();
  if (!in.ok() || value > static_cast<std::uint8_t>(last)) return std::nullopt;
  return static_cast<Enum>(value);
}

}  // namespace

Bytes encode_observation(const Observation& seen) {
  Bytes bytes;
  Writer out(bytes);
  put_name(out, seen.here);
  put_name(out, seen.there);
  out.put(static_cast<std::uint8_t>(seen.cause));
  return bytes;
}

std::optional<Observation> parse_observation(ByteView bytes) {
  Reader in(bytes);
  Observation seen;
  seen.here = get_name(in);
  seen.there = get_name(in);
  const auto cause = get_enum(in, Cause::kReplaced);
  if (!cause || !in.done()) return std::nullopt;
  seen.cause = *cause;
  return seen;
}

Bytes encode_probe_request(const ProbeRequest& request) {
  Bytes bytes;
  Writer out(bytes);
  out.put(request.token);
  out.put(request.from.value);
  out.put(request.target.value);
  out.put(request.nic.value);
  return bytes;
}

std::optional<ProbeRequest> parse_probe_request(ByteView bytes) {
  Reader in(bytes);
  ProbeRequest request;
  request.token = in.get<std::uint64_t>();
  request.from = {in.get<std::uint8_t>()};
  request.target = {in.get<std::uint64_t>()};
  request.nic = {in.get<std::uint8_t>()};
  if (!in.done()) return std::nullopt;
  return request;
}

Bytes encode_probe_answer(const ProbeAnswer& answer) {
  Bytes bytes;
  Writer out(bytes);
  out.put(answer.token);
  out.put(static_cast<std::uint8_t>(answer.result));
  return bytes;
}

std::optional<ProbeAnswer> parse_probe_answer(ByteView bytes) {
  Reader in(bytes);
  ProbeAnswer answer;
  answer.token = in.get<std::uint64_t>();
  const auto result = get_enum(in, ProbeResult::kUnasked);
  if (!result || !in.done()) return std::nullopt;
  answer.result = *result;
  return answer;
}

Bytes encode_verdict(const Verdict& verdict) {
  Bytes bytes;
  Writer out(bytes);
  out.put(static_cast<std::uint8_t>(verdict.blame));
  put_name(out, verdict.culprit);
  out.put(static_cast<std::uint8_t>(verdict.other.has_value()));
  if (verdict.other) put_name(out, *verdict.other);
  const std::size_t size = std::min(verdict.why.size(), kVerdictWhyMax);
  out.put_sized(std::as_bytes(std::span(verdict.why.data(), size)));
  return bytes;
}

std::optional<Verdict> parse_verdict(ByteView bytes) {
  Reader in(bytes);
  Verdict verdict;
  const auto blame = get_enum(in, Blame::kTransient);
  verdict.culprit = get_name(in);
  const auto has_other = in.get<std::uint8_t>();
  if (has_other == 1) verdict.other = get_name(in);
  const ByteView why = in.take_sized();
  if (!blame || !in.done() || has_other > 1 || why.size() > kVerdictWhyMax) return std::nullopt;
  verdict.blame = *blame;
  verdict.why.assign(reinterpret_cast<const char*>(why.data()), why.size());
  std::ranges::replace_if(verdict.why, [](char c) { return c < ' ' || c > '~'; }, '?');
  return verdict;
}

}  // namespace r2ccl
