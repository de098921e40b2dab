#pragma once
// Rendezvous and out-of-band notices, as a star: every process keeps one control connection to the root, which knows
// who is there and passes notices on. All I/O through link.h, so the simulator runs it too.
//
//   client                               root
//   REGISTER(ProcessInfo, size)  ──▶     waits for all processes; without a number of its own, for as many as they say
//                                ◀──     ROSTER(all ProcessInfos)
//   NOTICE(to, kind, bytes)      ──▶     passed on as NOTICE(from, kind, bytes); best effort, dropped when the receiver
//                                        is away
//                                ◀──     GONE(process): its control connection ended without BYE; BACK(process): it returned
//                                ◀──     REFUSE(sentence): other version, rank taken, job full; the connection ends
//   BYE                          ◀─▶     leaves without alarm
//
// REGISTER is state: sent again on every new connection, answered with ROSTER (and the GONE of those away) again. A
// client that loses its connection retries for ever, 100 ms doubling to 5 s. Heartbeats both ways every second keep
// silence visible: three seconds without a frame end the connection at either end. Frames and their limits are in
// control/control_wire.h.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "control/unique_id.h"
#include "env/env.h"
#include "topology/nic.h"
#include "transport/link.h"

namespace r2ccl {

enum class NoticeKind : std::uint8_t {
  kSession = 1,
  kProbeRequest = 2,
  kProbeResult = 3,
  kApplication = 4,
  kObservation = 5,  // what one end saw of a path's death, for the other end's health
  kVerdict = 6,
};

struct ControlEvent {
  enum class Kind : std::uint8_t { kNotice, kGone, kBack } kind;
  ProcessId process;  // who sent it, who is gone, who is back
  NoticeKind notice{};
  Bytes bytes;
};

inline constexpr std::size_t kNoticeBytesMax = 12 * 1024;
inline constexpr std::size_t kRosterMax = 4096;

struct ControlLimits {
  Duration heartbeat = 1s;
  Duration silence = 3s;  // nothing heard for so long: the connection is given up
  Duration retry_min = 100ms;
  Duration retry_max = 5s;
  Duration register_within = 5s;      // a connection that has not registered by then is closed
  std::size_t unregistered_max = 64;  // the oldest goes first
  std::size_t events_max = 8192;      // events nobody took; further ones are dropped and counted
  std::size_t refusals_logged = 16;   // then silence: strangers must not fill the log
};

// Role       The centre of the star; lives in one process of the job, beside that process's own client.
// Ownership  Owns the links given to accept().
// Failure    Lost members are announced, never waited for. A member whose queue is full misses notices (counted), but
// never
//            GONE and BACK: those are state and are sent when there is room again.
class ControlRoot final {
 public:
  // `expected` 0: the first member says how many; members that say another number are refused.
  ControlRoot(std::size_t expected, Log& log, const ControlLimits& limits = {});
  ~ControlRoot();
  // A link that came in with Purpose::kControl and proved itself. A newer one of the same process replaces the older.
  void accept(std::unique_ptr<Link> link, Instant now);
  Turn step(Instant now);
  bool complete() const;
  void finish();                               // BYE to everybody; members do not come back
  bool everybody_left() const;                 // every registered process said BYE
  const std::vector<ProcessId>& left() const;  // those who said so, in that order, once the job was complete
  std::uint64_t notices_dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class ControlClient final {
 public:
  // Connects from the NICs in `nics` to the root's addresses in `id`: the first to the first, then the next to the next, in the end
  // each to each. `key` names the secret in `id`. `expected`: processes of the job, 0: the root knows.
  ControlClient(const ProcessInfo& self, const UniqueId& id, KeyId key, std::uint32_t expected, std::vector<NicId> nics,
                Provider& provider, Log& log, const ControlLimits& limits = {});
  ~ControlClient();

  // Uses this link (to a root in the same process) instead of connecting; call before the first step().
  void adopt(std::unique_ptr<Link> link);
  Turn step(Instant now);
  // Empty until all processes have registered. By rank, then process id. Never changes once known.
  const std::vector<ProcessInfo>& roster() const;
  bool connected() const;
  // Best effort: dropped when there is no control connection. At most kNoticeBytesMax bytes.
  void send(ProcessId to, NoticeKind kind, ByteView bytes);
  std::vector<ControlEvent> take_events();
  void finish();  // BYE, and no more attempts
  // The root is another process and its connection ended and new ones are refused: kGone names it. Otherwise the root
  // tells. A sentence when the root refuses us (wrong secret, other version, job full); empty otherwise. Attempts go
  // on.
  const std::string& failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
