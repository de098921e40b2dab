#include "apps/r2ccl/perf/perf_collective.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace r2ccl::apps {
namespace {

using enum Extent;

constexpr PerfCollective kCollectives[] = {
    // name, kind, input, output, input and output elsewhere, reduces, has_root, in_place
    {"all_reduce", CallKind::kAllReduce, kOne, kOne, kOne, kOne, true, false, true},
    {"all_gather", CallKind::kAllGather, kOne, kAll, kOne, kAll, false, false, true},
    {"reduce_scatter", CallKind::kReduceScatter, kAll, kOne, kAll, kOne, true, false, true},
    {"broadcast", CallKind::kBroadcast, kOne, kOne, kNone, kOne, false, true, true},
    {"reduce", CallKind::kReduce, kOne, kOne, kOne, kNone, true, true, true},
    {"gather", CallKind::kGather, kOne, kAll, kOne, kNone, false, true, true},
    {"scatter", CallKind::kScatter, kAll, kOne, kNone, kOne, false, true, true},
    {"alltoall", CallKind::kAllToAll, kAll, kAll, kAll, kAll, false, false, true},
    {"sendrecv", CallKind::kSend, kOne, kOne, kOne, kOne, false, false, false},
};

std::uint64_t blocks(const PerfCollective& collective, std::uint32_t ranks) {
  return collective.input == kAll || collective.output == kAll ? ranks : 1;
}

std::uint64_t elements(Extent extent, const PerfCase& one) {
  return extent == kNone ? 0 : extent == kAll ? one.count * one.ranks : one.count;
}

}  // namespace

std::span<const PerfCollective> perf_collectives() {
  return kCollectives;
}

Result<const PerfCollective*> find_collective(std::string_view name) {
  const auto* const found = std::ranges::find(kCollectives, name, &PerfCollective::name);
  if (found != std::end(kCollectives)) return found;
  std::vector<std::string_view> names;
  for (const PerfCollective& one : kCollectives) names.push_back(one.name);
  return fail(Fault::kMisuse, fmt::format("there is no collective '{}'; there are {}", name, fmt::join(names, ", ")));
}

double bus_factor(const PerfCollective& collective, std::uint32_t ranks) {
  const double share = (static_cast<double>(ranks) - 1) / static_cast<double>(ranks);
  if (collective.kind == CallKind::kAllReduce) return 2 * share;
  return blocks(collective, 2) == 2 ? share : 1;
}

std::uint64_t count_for(const PerfCollective& collective, std::uint64_t bytes, std::size_t element,
                        std::uint32_t ranks) {
  return bytes / element / blocks(collective, ranks);
}

std::uint64_t bytes_of(const PerfCollective& collective, std::uint64_t count, std::size_t element,
                       std::uint32_t ranks) {
  return count * element * blocks(collective, ranks);
}

std::uint64_t PerfCase::input_count() const {
  return elements(is_root() ? collective->input : collective->elsewhere_input, *this);
}

std::uint64_t PerfCase::output_count() const {
  return elements(is_root() ? collective->output : collective->elsewhere_output, *this);
}

InPlace in_place_of(const PerfCase& one) {
  InPlace place;
  place.memory = std::max(one.input_count(), one.output_count());
  if (one.input_count() < one.output_count() && one.input_count() > 0) place.input = one.rank * one.count;
  if (one.output_count() < one.input_count() && one.output_count() > 0) place.output = one.rank * one.count;
  return place;
}

std::vector<Call> calls_of(const PerfCase& one, const void* input, void* output) {
  Call call{.kind = one.collective->kind,
            .input = input,
            .output = output,
            .count = one.count,
            .type = one.type,
            .op = one.op,
            .peer = one.root};
  if (one.collective->kind != CallKind::kSend) return {call};
  Call receive = call;
  call.peer = (one.rank + 1) % one.ranks;
  receive.kind = CallKind::kRecv;
  receive.peer = (one.rank + one.ranks - 1) % one.ranks;
  return {call, receive};
}

std::vector<Expected> expected_of(const PerfCase& one) {
  if (one.output_count() == 0) return {};
  const std::uint64_t mine = one.rank * one.count;
  switch (one.collective->kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
      return {{.reduced = true, .count = one.count}};
    case CallKind::kReduceScatter:
      return {{.reduced = true, .from = mine, .count = one.count}};
    case CallKind::kBroadcast:
      return {{.source = one.root, .count = one.count}};
    case CallKind::kScatter:
      return {{.source = one.root, .from = mine, .count = one.count}};
    case CallKind::kAllGather:
    case CallKind::kGather:
    case CallKind::kAllToAll: {
      const bool personal = one.collective->kind == CallKind::kAllToAll;
      std::vector<Expected> all;
      for (std::uint32_t rank = 0; rank < one.ranks; ++rank)
        all.push_back({.source = rank, .from = personal ? mine : 0, .count = one.count});
      return all;
    }
    case CallKind::kSend:
    case CallKind::kRecv:
      return {{.source = (one.rank + one.ranks - 1) % one.ranks, .count = one.count}};
  }
  return {};
}

}  // namespace r2ccl::apps
