#pragma once
// Reliable message passing between two processes over all their NICs. A session cuts messages into numbered chunks,
// sends each over the path that will finish it first, and keeps it until the other end has said that it is in. When a
// path dies, both ends fence it and send again what the other lacks. docs/protocol.md is the specification.
//
// Role       Decides; links move the bytes, and time is a parameter.
// Ownership  Owns its links. Buffers belong to the caller, who keeps them valid until the completion.
// Threads    One driver at a time (runtime/); no locks inside.
// Failure    A path's death is repaired here and never shown to the caller. When the peer is gone, every pending and
//            every later operation ends with kPeerDown and one sentence.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "env/env.h"
#include "env/secret.h"
#include "health/verdict.h"
#include "session/session_config.h"
#include "session/session_path.h"
#include "session/streams/inbox.h"
#include "session/streams/outbox.h"
#include "session/streams/stripe.h"
#include "session/wire/wire.h"
#include "telemetry/telemetry.h"
#include "topology/nic.h"
#include "topology/notice.h"
#include "transport/link.h"

namespace r2ccl {

// kFinished: both said goodbye. kPeerDown: its process died, or no path and no sign of life for the peer time-out.
enum class SessionState : std::uint8_t { kActive, kFinishing, kFinished, kPeerDown };

// What others may know of a path.
struct PathView {
  PathId path;
  NicId nic_here;
  NicId nic_there;
  PathState state;
  Epoch epoch;
  double rate_bytes_s;
  std::optional<Instant> measured_at;  // when the rate was measured last; none: it is a guess
  std::uint64_t in_flight_bytes;
  Cause last_cause;
  bool there_dark = false;  // the other end has said that its NIC has no carrier
};

class Session final : private FrameSink {
 public:
  // `self` and `peer` describe both ends; provider, notices, log and telemetry are borrowed and outlive the session.
  Session(const ProcessInfo& self, const ProcessInfo& peer, KeyId key, Provider& provider, NoticeSender& notices,
          Log& log, Telemetry& telemetry, const SessionConfig& config);
  ~Session() override;

  // ---- streams and messages ----
  // A group (communicator, plugin connection) joins with its own secret; its streams carry data once both ends have
  // proven it.
  void join(GroupId group, const Secret& secret);
  // Messages of a stream are matched in order: the n-th receive takes the n-th send. Completions may come in any
  // order. kBusy: too many operations are pending on the stream. kGroupEnded: the group has not joined, or finish() was
  // called. `nic`: the message leaves by this NIC alone, or by the next usable one in the order of their numbers;
  // chunks that have to be sent again go anywhere.
  Result<std::uint64_t> send(GroupId group, StreamId stream, MemoryRef memory, std::uint64_t tag, std::uint64_t token,
                             std::optional<NicId> nic = {});
  Result<std::uint64_t> receive(GroupId group, StreamId stream, MemoryRef memory, std::uint64_t tag,
                                std::uint64_t token);
  // Ends all streams of a group at both ends: pending operations complete with kAborted before this returns, and no
  // user memory of theirs is read or written afterwards. Other groups do not notice.
  void abort(GroupId group);
  // Completions since the last call, oldest first.
  std::vector<Completion> take_completions();
  void take_completions(std::vector<Completion>& into);  // replaces what `into` had and uses its memory again
  // With limits.hand_over_early: messages that came before their receive, since the last call, in the order of each
  // stream. The caller gives each of them back, also after its group has ended.
  std::vector<EarlyMessage> take_early();
  bool has_early() { return !inbox_.early().empty(); }
  void give_back(EarlyMessage message) {
    dirty_ = true;
    inbox_.give_back(std::move(message));
  }
  bool has_completions() {
    return !completions_.empty() || !outbox_.completions().empty() || !inbox_.completions().empty();
  }

  // ---- driving ----
  Turn step(Instant now);
  // True: a step would find nothing to do before next_timer(), unless something has come for one of its links. Cheap.
  bool idle(Instant now) const { return !dirty_ && !busy_ && now < next_timer_; }
  Instant next_timer() const { return next_timer_; }
  // A connection that came in for this session and proved itself.
  void accept(std::unique_ptr<Link> link, Instant now);
  void on_notice(ByteView bytes, Instant now);  // from the control network
  void on_control_gone();                       // the peer's control connection ended without a farewell
  void on_control_back();
  void on_nic_event(const NicEvent& event, Instant now);
  // Another session lost a path of this NIC. Idle paths send a heartbeat now: if they are dead too, their silence then
  // shows as soon as it can.
  void doubt(NicId nic, Instant now);

  // ---- notices for the other process ----
  // Sends a notice over a path that is alive, for when the control network may not carry it. Best effort. False: no
  // path is open.
  bool tell(std::uint8_t kind, ByteView bytes);
  struct Notice {
    std::uint8_t kind = 0;
    Bytes bytes;
  };
  // Notices that the other end sent by tell() since the last call, oldest first; at most limits.notices_max wait.
  std::vector<Notice> take_notices() { return std::exchange(heard_, {}); }

  // Small messages stay on the path with this number; numbers past the last path count round.
  void set_home(std::size_t home) { home_ = home; }

  // ---- maintenance ----
  void drain(NicId nic, Instant now);
  void undrain(NicId nic, Instant now);
  void finish(Instant now);  // sends everything, then BYE, and waits at most one second for the answer

  SessionState state() const { return state_; }
  const std::string& why_down() const { return end_.what; }
  ProcessId peer() const { return peer_.process; }
  std::vector<PathView> paths() const;
  // True: since the last call the other end has told that one of its NICs lost its carrier or has it again.
  bool take_carrier_news() { return std::exchange(carrier_news_, false); }
  // Deaths of paths since the last call. The judge of NICs (runtime/judge.h) puts them together with those of others.
  std::vector<Observation> take_observations() { return std::exchange(observations_, {}); }

 private:
  // Inputs that fence paths wait until no link is inside its own step().
  struct Deferred {
    enum class Kind : std::uint8_t { kFence, kPathDown, kFenced, kOpen } kind;
    PathId path;
    Epoch epoch;
    Cause cause = Cause::kNone;
    IntervalSet have;
    std::uint64_t eager_bytes = 0;
  };
  struct Group {
    Secret secret;
    bool joined = false;  // the peer has proven it
  };
  struct NicView {
    bool carrier = true;
    bool drained = false;
    std::uint32_t version = 0;
  };

  // frames (session_frames.cc)
  Landing on_header(Link& link, const FrameHeader& header, ByteView body) override;
  void on_frame(Link& link, const FrameHeader& header, ByteView body, Payload payload) override;
  void on_data(Path& path, const FrameHeader& header, const DataBody& body, Payload payload);
  void copy_failed(EventKind why, const Path& path, const DataBody& body);
  bool on_control(FrameType type, ByteView body);
  bool on_state(FrameType type, ByteView body);
  void on_open_ack(Path& path, const OpenBody& body);
  void on_join(const JoinBody& body);
  void on_nic_state(const std::vector<NicStateEntry>& nics);
  void refuse(Path& path);
  bool apply_receipt(const IntervalSet& have);

  // paths and repair (session_repair.cc)
  void make_rail_paths();
  void make_cross_paths();
  Path* find_path(PathId id);
  Path* add_path(PathId id);
  void run_deferred();
  void run_one(Deferred& input);
  void fence(Path& path, Cause cause, Cause peer_cause = Cause::kNone);
  void apply_fenced(Path& path, Epoch epoch, const IntervalSet& have);
  void send_fence_notices(Path& path);
  void answer_fenced(Path& path, Epoch epoch);
  void on_open(Path& path, const Deferred& input);
  void path_opened(Path& path);
  void trust(Path& path);
  void try_open(Path& path);
  void drop_opening(Path& path);
  void step_opening(Path& path);
  void probe_for_death(Path& path);
  bool wanted(const Path& path) const;
  void observe(const Path& path, Cause cause, bool at_peer);

  // time (session_time.cc)
  void run_timers();
  void judge_silence(Path& path);
  void send_heartbeat(Path& path);
  void run_drain(Path& path);
  bool peer_gone() const;
  void judge_peer();
  void run_finish();
  Instant next_deadline() const;

  // sending (session_send.cc)
  void pump();
  const std::vector<Path*>& usable_paths();
  std::optional<std::size_t> next_path(std::uint32_t bytes);  // an index into usable_; none: better to wait
  bool transmit(Path& path, OutChunk& chunk, SendReason reason);
  void hedge(Path& path);
  void flush_state();
  void send_receipt(Path& path);
  void send_full_state(Path& path);
  bool nic_news_waits() const;
  void send_nic_notice();
  std::vector<NicStateEntry> nic_state() const;
  void send_list_state(Path& path, std::vector<CreditEntry> credits, std::vector<CopyName> failures);
  void send_join(Path& path, GroupId group, const Group& state);
  bool post(Path& path, FrameType type, ByteView body);
  Path* control_path();
  bool any_opening() const;
  bool any_live() const;
  bool any_healthy() const;  // open and not suspect

  void harvest();
  void end(SessionState state, Error error);
  void note(EventKind kind, const Path& path, std::uint64_t number = 0, std::uint64_t bytes = 0,
            std::uint64_t extra = 0);

  const ProcessInfo self_, peer_;
  const KeyId key_;
  Provider& provider_;
  NoticeSender& notices_;
  Log& log_;
  Telemetry& telemetry_;
  const SessionConfig config_;
  const bool connector_;

  SessionState state_ = SessionState::kActive;
  Error end_{Fault::kBug, ""};
  Instant now_{};
  bool started_ = false;
  bool dirty_ = true;                         // something was asked for since the last turn
  bool busy_ = true;                          // the last turn moved something or a link opens, so the next may too
  Instant next_timer_{};                      // when the next turn has work even if nothing arrives
  std::vector<std::unique_ptr<Path>> paths_;  // by id
  bool cross_paths_made_ = false;
  bool rail_missing_ = false;  // a rail did not come up although another did
  Path* reading_ = nullptr;    // its link is inside step() or drain_and_close()
  bool reading_opening_ = false;
  std::vector<Deferred> deferred_;

  Outbox outbox_;
  Inbox inbox_;
  std::map<GroupId, Group> groups_;
  std::map<GroupId, Proof> early_joins_;  // the peer joined before join() was called here
  std::deque<GroupId> ended_groups_;
  std::map<NicId, NicView> nics_here_, nics_there_;
  std::size_t drained_ = 0;  // drained NICs of both ends
  std::vector<Completion> completions_;
  std::vector<Observation> observations_;
  std::vector<Notice> heard_;
  std::vector<Outbox::Receipted> receipted_;
  std::vector<Path*> usable_;  // as usable_paths() found them last
  std::vector<StripeCandidate> candidates_;
  std::size_t home_ = 0;  // set_home()
  Bytes body_;

  bool full_state_due_ = false;
  bool state_waits_ = false;      // put off by one step, see flush_state()
  Instant nic_news_at_ = kNever;  // a NIC here was drained, undrained, or changed its carrier
  bool carrier_news_ = false;     // see take_carrier_news()
  Instant next_nic_notice_{};
  bool group_joined_ = false;  // the peer proved a group since the last full state
  Instant state_due_ = kNever;
  Instant last_heard_{};
  bool control_gone_ = false;
  bool peer_bye_ = false;
  bool bye_sent_ = false;
  bool bye_acked_ = false;
  Instant bye_deadline_ = kNever;
};

}  // namespace r2ccl
