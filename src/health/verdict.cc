#include "health/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace r2ccl {
namespace {

constexpr std::size_t kAccusersNeeded = 2;

bool is_hard_evidence(Cause cause) {
  return cause == Cause::kLocal || cause == Cause::kCarrier;
}

bool is_accusation(const Observation& seen) {
  return (seen.cause == Cause::kSilent || seen.cause == Cause::kTimeout) && seen.here.server != seen.there.server;
}

// Who accuses whom. Only NICs of other servers accuse, and not those with hard evidence against themselves.
class VerdictCase {
 public:
  explicit VerdictCase(std::span<const Observation> observations) {
    for (const Observation& seen : observations) {
      if (is_hard_evidence(seen.cause)) hard_.try_emplace(seen.here, seen.cause);
    }
    for (const Observation& seen : observations) {
      if (is_accusation(seen) && !hard_.contains(seen.here)) accusers_[seen.there].insert(seen.here);
    }
  }

  std::optional<Cause> hard_evidence(NicName nic) const {
    const auto it = hard_.find(nic);
    return it == hard_.end() ? std::nullopt : std::optional(it->second);
  }
  // How many servers find this NIC silent, each through a NIC that fewer servers find silent.
  std::size_t credible_accusers(NicName nic) const {
    const auto it = accusers_.find(nic);
    if (it == accusers_.end()) return 0;
    const std::size_t all = servers(nic);
    std::set<ServerId> credible;
    for (const NicName accuser : it->second) {
      if (servers(accuser) < all) credible.insert(accuser.server);
    }
    return credible.size();
  }
  bool accuses(NicName accuser, NicName nic) const {
    const auto it = accusers_.find(nic);
    return it != accusers_.end() && it->second.contains(accuser);
  }

 private:
  std::size_t servers(NicName nic) const {
    const auto it = accusers_.find(nic);
    if (it == accusers_.end()) return 0;
    std::set<ServerId> distinct;
    for (const NicName accuser : it->second) distinct.insert(accuser.server);
    return distinct.size();
  }

  std::map<NicName, Cause> hard_;
  std::map<NicName, std::set<NicName>> accusers_;
};

Verdict about_path(Blame blame, NicName a, NicName b, std::string why) {
  return {blame, std::min(a, b), std::max(a, b), std::move(why)};
}

Verdict about_nic(NicName nic, std::string why) {
  return {Blame::kNic, nic, std::nullopt, std::move(why)};
}

// What the probes say about one end, the other being `far`.
struct End {
  bool local_error;  // it could not even send, and no third NIC reached it
  bool unreachable;  // a third NIC asked in vain
  bool reachable;    // a third NIC shook hands with it
};

End end_of(ProbeResult own, ProbeResult from_third) {
  const bool reachable = from_third == ProbeResult::kOk;
  return {own == ProbeResult::kLocalError && !reachable, from_third == ProbeResult::kTimeout, reachable};
}

Verdict decide_dead_path(NicName a, NicName b, const Probes& probes) {
  const End at_a = end_of(probes.a_to_b, probes.z_to_a);
  const End at_b = end_of(probes.b_to_a, probes.z_to_b);
  if (probes.whole_rail_fails && (at_a.local_error || at_a.unreachable) && (at_b.local_error || at_b.unreachable))
    return about_path(Blame::kRail, a, b, "every pair of the rail fails");
  if (at_a.local_error && at_b.local_error) return about_path(Blame::kNic, a, b, "local errors at both ends");
  // A local error is certain and explains the dead path. That a third NIC did not reach the other end is then not
  // enough to blame that end too.
  if (at_a.local_error) return about_nic(a, "local error at its own end");
  if (at_b.local_error) return about_nic(b, "local error at its own end");
  if (at_a.unreachable && at_b.unreachable) return about_path(Blame::kNic, a, b, "neither end answers a third NIC");
  const char* const why_one = "answers neither the other end nor a third NIC";
  if (at_a.unreachable) return about_nic(a, why_one);
  if (at_b.unreachable) return about_nic(b, why_one);
  if (at_a.reachable && at_b.reachable)
    return about_path(Blame::kLink, a, b, "a third NIC reaches both ends, they do not reach each other");
  return about_path(Blame::kLink, a, b, "the ends do not reach each other, no third NIC could tell which one fails");
}

std::string nic_text(NicName name) {
  // Small numbers were given by people, large ones are derived from the host's identity.
  constexpr std::uint64_t kSmall = 1 << 16;
  const std::uint64_t server = name.server.value;
  return fmt::format("NIC {} of server {}", name.nic.value,
                     server < kSmall ? fmt::format("{}", server) : fmt::format("{:016x}", server));
}

}  // namespace

const char* to_text(Blame blame) {
  switch (blame) {
    case Blame::kUnknown:
      return "unknown";
    case Blame::kNic:
      return "NIC";
    case Blame::kLink:
      return "link";
    case Blame::kRail:
      return "rail";
    case Blame::kTransient:
      return "transient";
  }
  return "unknown blame";
}

Verdict merge(NicName a, NicName b, std::span<const Observation> observations) {
  const VerdictCase all(observations);
  const auto hard_a = all.hard_evidence(a);
  const auto hard_b = all.hard_evidence(b);
  if (hard_a && hard_b) return about_path(Blame::kNic, a, b, "hard evidence at both ends");
  if (hard_a) return about_nic(a, to_text(*hard_a));
  if (hard_b) return about_nic(b, to_text(*hard_b));

  const std::size_t against_a = all.credible_accusers(a);
  const std::size_t against_b = all.credible_accusers(b);
  const bool proven_a = against_a >= kAccusersNeeded;
  const bool proven_b = against_b >= kAccusersNeeded;
  if (proven_a && proven_b) return about_path(Blame::kNic, a, b, "both silent from several servers");
  if (proven_a) return about_nic(a, fmt::format("silent from {} servers", against_a));
  if (proven_b) return about_nic(b, fmt::format("silent from {} servers", against_b));
  const bool silent = all.accuses(a, b) || all.accuses(b, a);
  return about_path(Blame::kUnknown, a, b,
                    silent ? "silent, seen by too few servers to tell" : "no evidence but the loss");
}

Verdict decide(NicName a, NicName b, const Probes& probes) {
  const std::array all = {probes.a_to_b, probes.b_to_a, probes.z_to_a, probes.z_to_b};
  if (std::ranges::all_of(all, [](ProbeResult result) { return result == ProbeResult::kUnasked; }))
    return about_path(Blame::kUnknown, a, b, "nobody probed");
  const auto answers = [](ProbeResult result) { return result == ProbeResult::kOk; };
  const auto fails = [](ProbeResult result) {
    return result == ProbeResult::kTimeout || result == ProbeResult::kLocalError;
  };
  if (!answers(probes.a_to_b) && !answers(probes.b_to_a)) return decide_dead_path(a, b, probes);
  if (fails(probes.a_to_b) || fails(probes.b_to_a))
    return about_path(Blame::kLink, a, b, "answers in one direction only");
  return about_path(Blame::kTransient, a, b, "both ends answer again");
}

std::string to_text(const Verdict& verdict) {
  std::string names = nic_text(verdict.culprit);
  if (verdict.other) names = fmt::format("{} and {}", names, nic_text(*verdict.other));
  switch (verdict.blame) {
    case Blame::kNic:
      return fmt::format("{} down: {}", names, verdict.why);
    case Blame::kLink:
      return fmt::format("link between {} down: {}", names, verdict.why);
    case Blame::kRail:
      return fmt::format("rail of {} down: {}", names, verdict.why);
    case Blame::kTransient:
      return fmt::format("transient fault between {}: {}", names, verdict.why);
    case Blame::kUnknown:
      break;
  }
  return fmt::format("cause between {} not known: {}", names, verdict.why);
}

}  // namespace r2ccl
