#include "tests/loopback/support/stall.h"

#include <algorithm>
#include <set>

namespace r2ccl::loopback {

namespace {

constexpr Duration kLookBack = 50ms;

bool is_copy(EventKind kind) {
  return kind == EventKind::kChunkSent || kind == EventKind::kChunkReplayed || kind == EventKind::kChunkResent;
}

// Chunks that went out on the path before the fault and were not placed by then.
std::set<std::uint64_t> caught_chunks(const std::vector<Event>& sender, const std::vector<Event>& receiver,
                                      const Event& fault, bool end_is_lower) {
  std::set<std::uint64_t> caught;
  for (const Event& event : sender) {
    if (event.at > fault.at) break;
    const NicId nic_at_end = end_is_lower ? event.path.low : event.path.high;
    if (is_copy(event.kind) && nic_at_end.value == fault.extra) caught.insert(event.number);
  }
  for (const Event& event : receiver) {
    if (event.at > fault.at) break;
    if (event.kind == EventKind::kChunkPlaced) caught.erase(event.number);
  }
  return caught;
}

}  // namespace

std::optional<Stall> measure_stall(const std::array<std::vector<Event>, 2>& logs, const Event& fault,
                                   bool end_is_lower) {
  Stall stall;
  for (std::size_t receiver = 0; receiver < 2; ++receiver) {
    std::set<std::uint64_t> missing = caught_chunks(logs[1 - receiver], logs[receiver], fault, end_is_lower);
    stall.chunks_caught += missing.size();
    std::optional<Duration> next;
    Duration repaired{};
    for (const Event& event : logs[receiver]) {
      if (event.at <= fault.at || event.kind != EventKind::kChunkPlaced) continue;
      if (!next) next = event.at - fault.at;
      if (missing.erase(event.number) != 0) repaired = event.at - fault.at;
    }
    if (!next || !missing.empty()) return std::nullopt;
    stall.next_chunk = std::max(stall.next_chunk, *next);
    stall.repaired = std::max(stall.repaired, repaired);
  }
  for (const std::vector<Event>& log : logs) {
    Instant last = fault.at - kLookBack;
    for (const Event& event : log) {
      if (event.kind != EventKind::kMessageDelivered || event.at <= last) continue;
      stall.message_gap = std::max(stall.message_gap, event.at - last);
      last = event.at;
      if (event.at > fault.at + stall.repaired) break;
    }
  }
  return stall;
}

Duration median(std::vector<Duration> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.empty() ? Duration{} : *middle;
}

}  // namespace r2ccl::loopback
