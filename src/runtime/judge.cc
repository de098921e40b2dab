#include "runtime/judge.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/units.h"

namespace r2ccl {
namespace {

bool covers(const Verdict& verdict, NicName a, NicName b) {
  if (!verdict.other) return verdict.culprit == a || verdict.culprit == b;
  return std::minmax(verdict.culprit, *verdict.other) == std::minmax(a, b);
}

bool same(const Verdict& a, const Verdict& b) {
  return a.blame == b.blame && a.culprit == b.culprit && a.other == b.other;
}

const ProcessInfo::Port* find_port(const ProcessInfo& process, NicId nic) {
  const auto port = std::ranges::find(process.ports, nic, &ProcessInfo::Port::nic);
  return port == process.ports.end() ? nullptr : &*port;
}

// The NIC of `process` to reach `target` from: of the same rail, or any other on a routed fabric. Never `avoid`.
std::optional<NicId> third_nic(const ProcessInfo& process, NicId target, Fabric fabric, std::optional<NicId> avoid) {
  if (find_port(process, target) != nullptr && target != avoid) return target;
  if (fabric == Fabric::kRails) return std::nullopt;
  for (const ProcessInfo::Port& port : process.ports) {
    if (port.nic != avoid) return port.nic;
  }
  return std::nullopt;
}

bool says_nothing(Cause cause) {
  return cause == Cause::kNone || cause == Cause::kDrained || cause == Cause::kReplaced;
}

}  // namespace

Judge::Judge(const ProcessInfo& self, const std::vector<ProcessInfo>& roster, Provider& provider, NoticeSender& sender,
             const ProcessKeys& keys, Log& log, Telemetry& telemetry, const JudgeConfig& config)
    : self_(self),
      roster_(roster),
      sender_(sender),
      keys_(keys),
      log_(log),
      telemetry_(telemetry),
      config_(config),
      prober_(provider, config.probe_timeout) {}

// ---- what comes in ----------------------------------------------------------------------------------------------

void Judge::on_observation(ProcessId peer, const Observation& seen, Instant now) {
  if (says_nothing(seen.cause)) return;
  remember(seen, now);
  if (seen.cause != Cause::kTold) sender_.send_notice(peer, NoticeKind::kObservation, encode_observation(seen));
  open_case(peer, seen.here, seen.there, now);
}

void Judge::on_notice(ProcessId from, NoticeKind kind, ByteView bytes, Instant now) {
  const ProcessInfo* sender = find(from);
  if (sender == nullptr) return;
  if (kind == NoticeKind::kObservation) {
    const auto seen = parse_observation(bytes);
    // A process speaks for its own server's NICs only.
    if (!seen || seen->here.server != sender->server || seen->there.server != self_.server || says_nothing(seen->cause))
      return;
    remember(*seen, now);
    open_case(from, seen->there, seen->here, now);
  } else if (kind == NoticeKind::kProbeRequest) {
    if (const auto request = parse_probe_request(bytes)) on_probe_request(from, *request);
  } else if (kind == NoticeKind::kProbeResult) {
    if (const auto answer = parse_probe_answer(bytes)) on_answer(answer->token, answer->result, false);
  } else if (kind == NoticeKind::kVerdict) {
    if (const auto verdict = parse_verdict(bytes)) conclude(*verdict, false, now);
  }
}

void Judge::excuse(ProcessId peer) {
  std::erase_if(cases_, [&](const auto& entry) { return entry.second.peer == peer; });
  forget_questions();
}

void Judge::on_gone(ProcessId process) {
  absent_.insert(process);
  excuse(process);
}

void Judge::forget_questions() {
  std::erase_if(asked_, [&](const auto& entry) { return !cases_.contains(entry.second.case_number); });
}

void Judge::remember(const Observation& seen, Instant now) {
  if (observations_.size() >= kObservationsMax) observations_.pop_front();
  observations_.push_back(seen);
  observations_.back().at = now;
  news_ = true;
}

void Judge::open_case(ProcessId peer, NicName here, NicName there, Instant now) {
  const auto same_path = [&](const auto& entry) {
    const Case& item = entry.second;
    return item.peer == peer && item.here == here && item.there == there;
  };
  if (cases_.size() >= kCasesMax || std::ranges::any_of(cases_, same_path)) return;
  Case item{peer, here, there, now};
  item.deadline = now + kGather;
  item.resent_before = telemetry_.counters.replayed_bytes;
  if (!explained(here, there, now)) cases_.emplace(next_case_++, item);
}

// True: a verdict of the last moments accounts for a dead path between these two.
bool Judge::explained(NicName a, NicName b, Instant now) const {
  return std::ranges::any_of(
      judged_, [&](const Judged& judged) { return now < judged.at + kSameFault && covers(judged.verdict, a, b); });
}

// ---- cases ------------------------------------------------------------------------------------------------------

Turn Judge::step(Instant now) {
  Turn turn = prober_.step(now);
  take_probe_answers();
  if (std::exchange(news_, false)) look_again(now);
  // Concluding a case closes others too, so the numbers are taken first.
  std::vector<std::uint64_t> due;
  for (const auto& [number, item] : cases_) {
    if (now >= item.deadline || (item.phase == Phase::kProbing && item.unanswered == 0)) due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    const auto entry = cases_.find(number);
    if (entry == cases_.end()) continue;
    turn.moved = true;
    Case& item = entry->second;
    if (item.phase == Phase::kGathering) {
      after_gathering(number, item, now);
    } else if (item.phase == Phase::kProbing) {
      conclude(decide(item.here, item.there, item.probes), true, now);
      cases_.erase(number);
    } else {
      cases_.erase(entry);
    }
  }
  for (const auto& [number, item] : cases_) turn.merge({false, item.deadline});
  return turn;
}

// New observations may settle cases that are being probed or wait for the peer's verdict.
void Judge::look_again(Instant now) {
  std::erase_if(observations_, [&](const Observation& seen) { return now >= seen.at + kMemory; });
  const std::vector<Observation> all(observations_.begin(), observations_.end());
  std::vector<Verdict> settled;
  for (const auto& [number, item] : cases_) {
    if (item.phase == Phase::kGathering) continue;
    const Verdict verdict = merge(item.here, item.there, all);
    if (verdict.blame != Blame::kUnknown) settled.push_back(verdict);
  }
  for (const Verdict& verdict : settled) conclude(verdict, true, now);
}

void Judge::after_gathering(std::uint64_t number, Case& item, Instant now) {
  const std::vector<Observation> all(observations_.begin(), observations_.end());
  const Verdict verdict = merge(item.here, item.there, all);
  if (verdict.blame != Blame::kUnknown) return conclude(verdict, true, now);
  if (self_.process > item.peer) {
    item.phase = Phase::kListening;
    item.deadline = now + kListen;
  } else if (probing() < kProbingMax) {
    probe(number, item, now);
  } else {
    item.deadline = now + kGather;  // a running probe may explain this path too
  }
}

std::size_t Judge::probing() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(cases_, [](const auto& entry) { return entry.second.phase == Phase::kProbing; }));
}

// ---- probes -----------------------------------------------------------------------------------------------------

void Judge::probe(std::uint64_t number, Case& item, Instant now) {
  item.phase = Phase::kProbing;
  item.deadline = now + 2 * config_.probe_timeout;  // the probe, and the time of question and answer
  ask(number, Question::kAtoB, self_.process, item.here.nic, item.peer, item.there.nic);
  ask(number, Question::kBtoA, item.peer, item.there.nic, self_.process, item.here.nic);
  ask_third(number, item);
}

// Asks a process on a third server to probe both ends. If there is none, each end probes the other end's NIC from
// another NIC of its own.
void Judge::ask_third(std::uint64_t number, Case& item) {
  const auto is_third = [&](const ProcessInfo& process) {
    return process.server != item.here.server && process.server != item.there.server &&
           !absent_.contains(process.process);
  };
  const auto third = std::ranges::find_if(roster_, is_third);
  const bool stranger = third != roster_.end();
  const ProcessInfo* peer = find(item.peer);
  R2CCL_ASSERT(peer != nullptr, "cases are opened for processes of the roster");
  const ProcessInfo& asks_a = stranger ? *third : *peer;
  const ProcessInfo& asks_b = stranger ? *third : self_;
  const auto avoid = [&](NicName own) { return stranger ? std::nullopt : std::optional(own.nic); };
  if (const auto from = third_nic(asks_a, item.here.nic, config_.fabric, avoid(item.there))) {
    ask(number, Question::kZtoA, asks_a.process, *from, self_.process, item.here.nic);
  }
  if (const auto from = third_nic(asks_b, item.there.nic, config_.fabric, avoid(item.here))) {
    ask(number, Question::kZtoB, asks_b.process, *from, item.peer, item.there.nic);
  }
}

void Judge::ask(std::uint64_t number, Question question, ProcessId asked, NicId from, ProcessId target, NicId nic) {
  const std::uint64_t token = next_token_++;
  asked_.emplace(token, Asked{number, question});
  ++cases_.at(number).unanswered;
  if (asked == self_.process) {
    connect(token, from, target, nic);
  } else {
    sender_.send_notice(asked, NoticeKind::kProbeRequest, encode_probe_request({token, from, target, nic}));
  }
}

void Judge::connect(std::uint64_t token, NicId from, ProcessId target, NicId nic) {
  const ProcessInfo* process = find(target);
  const ProcessInfo::Port* port = process == nullptr ? nullptr : find_port(*process, nic);
  const Hello hello{Purpose::kProbe, keys_.key_for(target), self_.process, target, {}};
  const bool started =
      port != nullptr && find_port(self_, from) != nullptr && prober_.start(token, from, port->listen, hello);
  if (!started) on_answer(token, ProbeResult::kUnasked, false);
}

void Judge::on_probe_request(ProcessId from, const ProbeRequest& request) {
  const std::uint64_t token = next_token_++;
  for_others_.emplace(token, std::pair(from, request.token));
  connect(token, request.from, request.target, request.nic);
}

void Judge::take_probe_answers() {
  for (const Prober::Answer& answer : prober_.take_answers()) on_answer(answer.token, answer.result, answer.refused);
}

void Judge::on_answer(std::uint64_t token, ProbeResult result, bool refused) {
  if (const auto other = for_others_.find(token); other != for_others_.end()) {
    const auto [process, their_token] = other->second;
    for_others_.erase(other);
    return sender_.send_notice(process, NoticeKind::kProbeResult, encode_probe_answer({their_token, result}));
  }
  const auto asked = asked_.find(token);
  if (asked == asked_.end()) return;
  const Asked about = asked->second;
  asked_.erase(asked);
  const auto entry = cases_.find(about.case_number);
  if (entry == cases_.end()) return;
  Case& item = entry->second;
  --item.unanswered;
  switch (about.question) {
    case Question::kAtoB:
      item.probes.a_to_b = result;
      break;
    case Question::kBtoA:
      item.probes.b_to_a = result;
      break;
    case Question::kZtoA:
      item.probes.z_to_a = result;
      break;
    case Question::kZtoB:
      item.probes.z_to_b = result;
      break;
  }
  // Nobody listens where the peer listened: its process is dead, and that is no NIC's fault.
  if (refused && about.question == Question::kAtoB) excuse(item.peer);
}

// ---- verdicts ---------------------------------------------------------------------------------------------------

void Judge::conclude(const Verdict& verdict, bool tell_peers, Instant now) {
  std::vector<Case> covered;
  std::erase_if(cases_, [&](const auto& entry) {
    if (!covers(verdict, entry.second.here, entry.second.there)) return false;
    covered.push_back(entry.second);
    return true;
  });
  forget_questions();
  std::erase_if(judged_, [&](const Judged& judged) { return now >= judged.at + kSameFault; });
  if (verdict.blame == Blame::kUnknown) return;
  if (std::ranges::any_of(judged_, [&](const Judged& judged) { return same(judged.verdict, verdict); })) return;
  if (verdict.other && explained(verdict.culprit, *verdict.other, now)) return;
  judged_.push_back({verdict, now});
  if (verdicts_.size() >= kVerdictsMax) verdicts_.erase(verdicts_.begin());
  verdicts_.push_back(verdict);
  say(verdict, covered, now);
  if (!tell_peers) return;
  std::vector<ProcessId> told;
  for (const Case& item : covered) {
    if (std::ranges::find(told, item.peer) != told.end()) continue;
    told.push_back(item.peer);
    sender_.send_notice(item.peer, NoticeKind::kVerdict, encode_verdict(verdict));
  }
}

void Judge::say(const Verdict& verdict, const std::vector<Case>& covered, Instant now) {
  Event event;
  event.at = now;
  event.kind = EventKind::kVerdict;
  event.extra = static_cast<std::uint64_t>(verdict.blame);
  if (!covered.empty()) {
    const Case& first = covered.front();
    event.peer = first.peer;
    const bool low = self_.process < first.peer;
    event.path = {low ? first.here.nic : first.there.nic, low ? first.there.nic : first.here.nic};
  }
  telemetry_.record(event);
  const LogLevel level = verdict.blame == Blame::kTransient ? LogLevel::kInfo : LogLevel::kWarn;
  if (log_.enabled(level)) log_.write(level, describe(verdict, covered));
}

std::string Judge::describe(const Verdict& verdict, const std::vector<Case>& covered) const {
  std::string line;
  if (verdict.other) {
    line = fmt::format("{} between {} and {}: {}", verdict.blame == Blame::kTransient ? "Transient fault" : "Fault",
                       name_of(verdict.culprit), name_of(*verdict.other), verdict.why);
    if (verdict.blame == Blame::kRail) line = fmt::format("Rail of {}: {}", name_of(verdict.culprit), verdict.why);
  } else {
    line = fmt::format("{}: {}", name_of(verdict.culprit), verdict.why);
  }
  if (covered.empty()) return line;
  line += fmt::format("; {} path{} down", covered.size(), covered.size() == 1 ? "" : "s");
  const std::uint64_t before = std::ranges::min(covered, {}, &Case::resent_before).resent_before;
  const std::uint64_t resent = telemetry_.counters.replayed_bytes - before;
  if (resent > 0) line += fmt::format("; {} resent", bytes_text(resent));
  return line;
}

std::string Judge::name_of(NicName nic) const {
  // Small numbers were given by people, large ones are derived from the host's identity.
  constexpr std::uint64_t kSmall = 1 << 16;
  for (const ProcessInfo& process : roster_) {
    if (process.server != nic.server) continue;
    const std::string server = nic.server.value < kSmall ? fmt::format("{}", nic.server.value) : process.host;
    if (const ProcessInfo::Port* port = find_port(process, nic.nic))
      return fmt::format("NIC {} (server {})", port->name, server);
  }
  return fmt::format("NIC {} (server {})", nic.nic.value, nic.server.value);
}

const ProcessInfo* Judge::find(ProcessId process) const {
  const auto info = std::ranges::find(roster_, process, &ProcessInfo::process);
  return info == roster_.end() ? nullptr : &*info;
}

}  // namespace r2ccl
