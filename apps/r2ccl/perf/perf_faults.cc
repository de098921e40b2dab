#include "apps/r2ccl/perf/perf_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr double kSkewMs = 20;        // between the starts of two ranks
constexpr double kTogetherMs = 1500;  // fences of one fault: a path that nobody uses is tried every second

template <class Choose>
void take(std::optional<double>& mine, const std::optional<double>& other, const Choose& choose) {
  if (other) mine = mine ? choose(*mine, *other) : *other;
}

const auto kEarlier = [](double a, double b) { return std::min(a, b); };
const auto kLater = [](double a, double b) { return std::max(a, b); };

void add(std::vector<double>& times, double time) {
  if (times.size() < NicFacts::kTimesMax) times.push_back(time);
}

void merge_times(std::vector<double>& mine, const std::vector<double>& other) {
  mine.insert(mine.end(), other.begin(), other.end());
  std::ranges::sort(mine);
}

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> number_at(const Json& object, const char* key) {
  return object.at(key).is_null() ? std::nullopt : std::optional(object.at(key).get<double>());
}

std::string after(const NicFacts& facts, const std::optional<double>& time) {
  if (!time) return "never";
  const double from = facts.at.value_or(0);
  const auto duration = Duration(static_cast<Duration::rep>(std::max(0.0, *time - from) * 1e6));
  return fmt::format("{} {}", duration_text(duration), facts.at ? "later" : "after the start");
}

}  // namespace

void NicFacts::merge(const NicFacts& other) {
  take(at, other.at, kEarlier);
  merge_times(troubles, other.troubles);
  merge_times(fences, other.fences);
  merge_times(idle_fences, other.idle_fences);
  take(trusted, other.trusted, kLater);
  resent_bytes += other.resent_bytes;
  if (verdict.empty() || (other.blamed && !blamed)) verdict = other.verdict;
  blamed |= other.blamed;
}

std::optional<double> NicFacts::noticed() const {
  if (!at) return troubles.empty() ? std::nullopt : std::optional(troubles.front());
  const auto first = std::ranges::lower_bound(troubles, *at - kSkewMs);
  return first == troubles.end() ? std::nullopt : std::optional(std::max(*first, *at));
}

std::optional<double> NicFacts::repaired() const {
  const auto begun = noticed();
  if (!begun) return std::nullopt;
  std::optional<double> last;
  for (const auto* times : {&fences, &idle_fences}) {
    for (auto fence = std::ranges::lower_bound(*times, *begun - kSkewMs); fence != times->end(); ++fence) {
      if (*fence > last.value_or(*begun) + kTogetherMs) break;
      last = std::max(*fence, *begun);
    }
    if (last) break;
  }
  return last;
}

std::optional<double> NicFacts::returned() const {
  const auto begun = noticed();
  return begun && trusted && *trusted > *begun ? trusted : std::nullopt;
}

FaultWatch::FaultWatch(const ProcessInfo& self, const std::vector<ProcessInfo>& roster, Instant start)
    : self_(self.process), server_(self.server), start_(start) {
  for (const ProcessInfo& process : roster) servers_[process.process] = process.server;
}

void FaultWatch::on_event(const Event& event) {
  const double now = ms(event.at);
  switch (event.kind) {
    case EventKind::kFaultInjected:
      take(facts_[{server_, NicId{static_cast<std::uint8_t>(event.extra)}}].at, now, kEarlier);
      return;
    case EventKind::kChunkHedged:
    case EventKind::kChunkReplayed:
    case EventKind::kChunkResent:
      for (const NicName& nic : troubled_) facts_[nic].resent_bytes += event.bytes;
      return;
    case EventKind::kPathSuspect:
    case EventKind::kPathDown:
    case EventKind::kFenceReceived:
    case EventKind::kPathTrusted:
      break;
    default:
      return;
  }
  const auto peer = servers_.find(event.peer);
  if (peer == servers_.end()) return;
  const bool low = self_ < event.peer;
  const std::vector<NicName> ends{{server_, low ? event.path.low : event.path.high},
                                  {peer->second, low ? event.path.high : event.path.low}};
  if (event.kind == EventKind::kPathSuspect || event.kind == EventKind::kPathDown) troubled_ = ends;
  if (event.kind == EventKind::kPathDown && event.bytes > 0) loaded_.insert({event.peer, event.path});
  const bool loaded = event.kind == EventKind::kFenceReceived && loaded_.erase({event.peer, event.path}) > 0;
  for (const NicName& nic : ends) {
    NicFacts& facts = facts_[nic];
    if (event.kind == EventKind::kFenceReceived) {
      add(loaded ? facts.fences : facts.idle_fences, now);
    } else if (event.kind == EventKind::kPathTrusted) {
      if (!facts.troubles.empty()) take(facts.trusted, now, kLater);
    } else {
      add(facts.troubles, now);
    }
  }
}

FactsByNic FaultWatch::facts(const std::vector<Verdict>& verdicts) const {
  FactsByNic all = facts_;
  for (const Verdict& verdict : verdicts) {
    for (const auto& nic : {std::optional(verdict.culprit), verdict.other}) {
      if (!nic) continue;
      NicFacts& facts = all[*nic];
      const bool culprit = verdict.blame == Blame::kNic;
      if (facts.blamed && !culprit) continue;
      facts.verdict = to_text(verdict.blame);
      facts.blamed = culprit;
    }
  }
  return all;
}

std::string facts_text(const FactsByNic& facts) {
  Json list = Json::array();
  for (const auto& [nic, one] : facts) {
    list.push_back({{"server", nic.server.value},
                    {"nic", nic.nic.value},
                    {"at", number(one.at)},
                    {"troubles", one.troubles},
                    {"fences", one.fences},
                    {"idle_fences", one.idle_fences},
                    {"trusted", number(one.trusted)},
                    {"resent", one.resent_bytes},
                    {"verdict", one.verdict},
                    {"blamed", one.blamed}});
  }
  return json_text(list);
}

FactsByNic facts_from(const std::string& text) {
  FactsByNic facts;
  const Json list = parse_json(text);
  if (!list.is_array()) return facts;
  for (const Json& object : list) {
    const NicName nic{ServerId{object.at("server").get<std::uint64_t>()}, NicId{object.at("nic").get<std::uint8_t>()}};
    facts[nic] = {.at = number_at(object, "at"),
                  .troubles = object.at("troubles"),
                  .fences = object.at("fences"),
                  .idle_fences = object.at("idle_fences"),
                  .trusted = number_at(object, "trusted"),
                  .resent_bytes = object.at("resent"),
                  .verdict = object.at("verdict"),
                  .blamed = object.at("blamed")};
  }
  return facts;
}

std::vector<FaultRow> fault_rows(const FactsByNic& facts, const std::vector<FaultSpec>& specs) {
  std::vector<FaultRow> rows;
  for (const auto& [nic, one] : facts) {
    const auto spec = std::ranges::find_if(
        specs, [&](const FaultSpec& fault) { return fault.server == nic.server && fault.nic == nic.nic; });
    const bool ours = spec != specs.end() && one.at;
    if (!ours && !one.blamed) continue;
    rows.push_back({nic, ours ? to_text(spec->kind) : "unknown", one});
  }
  return rows;
}

std::string fault_line(const FaultRow& row) {
  const NicFacts& facts = row.facts;
  std::string text = fmt::format("# fault: server {} nic {}, {}", row.nic.server.value, row.nic.nic.value, row.kind);
  if (facts.at) text += fmt::format(", {:.0f} ms after the start", *facts.at);
  text += fmt::format("; noticed {}, repaired {}, {} resent", after(facts, facts.noticed()),
                      after(facts, facts.repaired()), bytes_text(facts.resent_bytes));
  if (!facts.verdict.empty()) text += fmt::format("; verdict {}", facts.verdict);
  if (facts.returned()) text += fmt::format("; back {}", after(facts, facts.returned()));
  return text + "\n";
}

Json to_json(const FaultRow& row) {
  const NicFacts& facts = row.facts;
  const std::optional<double> begun = facts.at ? facts.at : facts.noticed();
  const std::optional<double> repaired = facts.repaired();
  std::optional<double> stall;
  if (begun && repaired) stall = *repaired - *begun;
  return {{"server", row.nic.server.value},
          {"nic", row.nic.nic.value},
          {"kind", row.kind},
          {"verdict", facts.verdict},
          {"at_ms", number(facts.at)},
          {"noticed_ms", number(facts.noticed())},
          {"repaired_ms", number(repaired)},
          {"stall_ms", number(stall)},
          {"resent_bytes", facts.resent_bytes},
          {"returned_ms", number(facts.returned())}};
}

}  // namespace r2ccl::apps
