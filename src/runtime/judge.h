#pragma once
// Finds out what broke when paths die, and says it once. A dead path opens a case: the judge gathers what both ends
// saw, asks health/verdict.h, and has probes made if that does not settle it.
//
//   case        what happens                                               next
//   kGathering  kGather is over, merge() knows                             concluded
//   kGathering  it does not; this process has the lower id                 kProbing: both ends and a third NIC connect
//   kGathering  the same, but kProbingMax cases are being probed           kGathering once more
//   kGathering  it does not; the peer has the lower id                     kListening: the peer probes and tells
//   kProbing    all probes are answered, or their time is over             concluded by decide()
//   kListening  nothing was heard for kListen                              closed
//   later ones  an observation arrives, and now merge() knows              concluded
//   any         a verdict, made here or told, covers the path              closed
//   any         the peer process is gone, leaving or dead                  closed: no NIC is to blame
//
// ("Later ones" are kProbing and kListening.) A verdict explains every path of its NIC: deaths within kSameFault of it
// open no case.
//
// Threads    Part of an engine, whose driver calls it.
// Ownership  Borrows everything it is given.
// Failure    Without a verdict the case is closed and nothing is said; the session repairs the path in any case.

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "control/control.h"
#include "env/env.h"
#include "health/verdict.h"
#include "runtime/health_notices.h"
#include "runtime/prober.h"
#include "telemetry/telemetry.h"
#include "topology/nic.h"
#include "topology/notice.h"
#include "transport/link.h"

namespace r2ccl {

class ProcessKeys {
 public:
  virtual ~ProcessKeys() = default;
  virtual KeyId key_for(ProcessId process) const = 0;  // names a secret that both processes know
};

struct JudgeConfig {
  Fabric fabric = Fabric::kRouted;
  Duration probe_timeout = 250ms;
};

class Judge final {
 public:
  static constexpr Duration kGather = 20ms;
  static constexpr Duration kListen = 2s;
  static constexpr Duration kSameFault = 3s;
  static constexpr Duration kMemory = 3s;  // observations older than this say nothing about now
  static constexpr std::size_t kObservationsMax = 512;
  static constexpr std::size_t kCasesMax = 256;
  static constexpr std::size_t kProbingMax = 4;
  static constexpr std::size_t kVerdictsMax = 256;

  // `roster` may grow.
  Judge(const ProcessInfo& self, const std::vector<ProcessInfo>& roster, Provider& provider, NoticeSender& sender,
        const ProcessKeys& keys, Log& log, Telemetry& telemetry, const JudgeConfig& config);

  // A session of this process saw a path die.
  void on_observation(ProcessId peer, const Observation& seen, Instant now);
  // kObservation, kProbeRequest, kProbeResult and kVerdict of another process.
  void on_notice(ProcessId from, NoticeKind kind, ByteView bytes, Instant now);
  // The peer is leaving or dead, so its paths end without any NIC's fault: closes its cases.
  void excuse(ProcessId peer);
  // Its control connection ended; it is excused, and not asked to probe until it is back.
  void on_gone(ProcessId process);
  void on_back(ProcessId process) { absent_.erase(process); }

  Turn step(Instant now);
  const std::vector<Verdict>& verdicts() const { return verdicts_; }  // oldest first, at most kVerdictsMax

 private:
  enum class Phase : std::uint8_t { kGathering, kListening, kProbing };
  enum class Question : std::uint8_t { kAtoB, kBtoA, kZtoA, kZtoB };
  struct Case {
    ProcessId peer;
    NicName here, there;
    Instant opened{};
    Phase phase = Phase::kGathering;
    Instant deadline{};
    std::uint64_t resent_before = 0;
    Probes probes{};
    int unanswered = 0;
  };
  struct Asked {
    std::uint64_t case_number;
    Question question;
  };
  struct Judged {
    Verdict verdict;
    Instant at;
  };

  void remember(const Observation& seen, Instant now);
  void open_case(ProcessId peer, NicName here, NicName there, Instant now);
  bool explained(NicName a, NicName b, Instant now) const;
  void look_again(Instant now);
  void after_gathering(std::uint64_t number, Case& item, Instant now);
  std::size_t probing() const;

  void probe(std::uint64_t number, Case& item, Instant now);
  void ask_third(std::uint64_t number, Case& item);
  void ask(std::uint64_t number, Question question, ProcessId asked, NicId from, ProcessId target, NicId nic);
  void connect(std::uint64_t token, NicId from, ProcessId target, NicId nic);
  void on_probe_request(ProcessId from, const ProbeRequest& request);
  void on_answer(std::uint64_t token, ProbeResult result, bool refused);
  void take_probe_answers();

  void forget_questions();
  void conclude(const Verdict& verdict, bool tell_peers, Instant now);
  void say(const Verdict& verdict, const std::vector<Case>& covered, Instant now);
  std::string describe(const Verdict& verdict, const std::vector<Case>& covered) const;
  std::string name_of(NicName nic) const;
  const ProcessInfo* find(ProcessId process) const;

  const ProcessInfo& self_;
  const std::vector<ProcessInfo>& roster_;
  NoticeSender& sender_;
  const ProcessKeys& keys_;
  Log& log_;
  Telemetry& telemetry_;
  const JudgeConfig config_;
  Prober prober_;

  std::deque<Observation> observations_;
  bool news_ = false;                    // observations came since the last look
  std::map<std::uint64_t, Case> cases_;  // by number, oldest first
  std::uint64_t next_case_ = 1;
  std::map<std::uint64_t, Asked> asked_;  // probes for our own cases, by token
  // Probes for other processes: who asked, and their token.
  std::map<std::uint64_t, std::pair<ProcessId, std::uint64_t>> for_others_;
  std::uint64_t next_token_ = 1;
  std::set<ProcessId> absent_;
  std::deque<Judged> judged_;  // verdicts of the last kSameFault
  std::vector<Verdict> verdicts_;
};

}  // namespace r2ccl
