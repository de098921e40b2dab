#pragma once
// How ranks of a communicator hear of the id of another one, also when theirs has failed and its letters no longer
// travel: they ask the first of them, with notices, again and again; it answers whoever asks.
//
//   first    opens the sessions with the others and answers, for as long as it lives
//   others   ask every 10 ms, later every 100 ms, until the id is there or the session with the first is down
//
// Role       An EngineTask under a group of its own. Ownership: borrows the engine.
// Threads    The engine's driver.
// Failure    failure() has one sentence with the first rank's name. How long to wait is up to whoever waits.

#include <optional>
#include <string>
#include <vector>

#include "control/unique_id.h"
#include "runtime/engine.h"

namespace r2ccl {

class Invitation final : public EngineTask {
 public:
  static constexpr Duration kAskFirst = 10ms;
  static constexpr Duration kAskLater = 100ms;

  // `guests`: all of them, the first included, as their roster has them. `id`: of the new communicator, at the first
  // only.
  Invitation(Engine& engine, GroupId group, std::vector<ProcessInfo> guests, std::optional<UniqueId> id);
  ~Invitation() override;

  bool over() const { return id_ || !failure_.empty(); }
  const std::optional<UniqueId>& id() const { return id_; }
  const std::string& failure() const { return failure_; }

  void on_completion(ProcessId, const Completion&) override {}
  void on_notice(ProcessId from, ByteView bytes) override;
  Turn step(Instant now) override;

 private:
  bool is_first() const { return engine_.self().process == guests_.front().process; }

  Engine& engine_;
  const GroupId group_;
  const std::vector<ProcessInfo> guests_;
  std::optional<UniqueId> id_;
  std::string failure_;
  Instant next_ask_{};
  Duration ask_after_ = kAskFirst;
};

}  // namespace r2ccl
