#include "comm/call.h"

#include <fmt/format.h>

#include <limits>

namespace r2ccl {
namespace {

// Whether the call reads an input at this rank.
bool needs_input(const Call& call, std::uint32_t rank) {
  switch (call.kind) {
    case CallKind::kRecv:
      return false;
    case CallKind::kBroadcast:
    case CallKind::kScatter:
      return rank == call.peer;
    default:
      return true;
  }
}
bool needs_output(const Call& call, std::uint32_t rank) {
  switch (call.kind) {
    case CallKind::kSend:
      return false;
    case CallKind::kReduce:
    case CallKind::kGather:
      return rank == call.peer;
    default:
      return true;
  }
}

// Neighbouring inputs give unrelated outputs.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

}  // namespace

std::string_view to_text(CallKind kind) {
  constexpr std::string_view kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce",
                                         "Gather",    "Scatter",       "AlltoAll",  "Send",      "Recv"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t signature_of(const Call& call) {
  std::uint64_t hash = mix(1, static_cast<std::uint64_t>(call.kind));
  hash = mix(hash, call.count);
  hash = mix(hash, static_cast<std::uint64_t>(call.type));
  if (reduces(call.kind)) hash = mix(hash, static_cast<std::uint64_t>(call.op.name));
  if (has_root(call.kind)) hash = mix(hash, call.peer);
  return hash | 1;
}

std::string describe(const Call& call) {
  std::string text = fmt::format("{} of {} {}", to_text(call.kind), call.count, to_text(call.type));
  if (reduces(call.kind)) text += fmt::format(", {}", to_text(call.op.name));
  if (has_root(call.kind)) text += fmt::format(", root {}", call.peer);
  if (is_point_to_point(call.kind))
    text += fmt::format(" {} rank {}", call.kind == CallKind::kSend ? "to" : "from", call.peer);
  return text;
}

Status validate(const Call& call, std::uint32_t rank, std::uint32_t size) {
  if (static_cast<std::size_t>(call.type) >= kDataTypes) {
    return fail(Fault::kMisuse,
                fmt::format("{}: there is no data type {}.", to_text(call.kind), static_cast<unsigned>(call.type)));
  }
  if ((has_root(call.kind) || is_point_to_point(call.kind)) && call.peer >= size) {
    return fail(Fault::kMisuse, fmt::format("{}: {} {} is not one of the {} ranks.", to_text(call.kind),
                                            is_point_to_point(call.kind) ? "peer" : "root", call.peer, size));
  }
  __extension__ using Wide = unsigned __int128;
  if (Wide{call.count} * size_of(call.type) * size > std::numeric_limits<std::uint64_t>::max() / 2) {
    return fail(Fault::kMisuse, fmt::format("{}: {} elements do not fit into memory.", to_text(call.kind), call.count));
  }
  if (call.count == 0) return {};
  if (needs_input(call, rank) && call.input == nullptr)
    return fail(Fault::kMisuse, fmt::format("{}: the send buffer is null.", to_text(call.kind)));
  if (needs_output(call, rank) && call.output == nullptr)
    return fail(Fault::kMisuse, fmt::format("{}: the receive buffer is null.", to_text(call.kind)));
  return {};
}

}  // namespace r2ccl
