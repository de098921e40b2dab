#pragma once
// How the processes of a job meet, and how they send notices when data paths can not. A star: every process keeps one
// control connection to the root, which knows who is there and passes notices on. All I/O goes through link.h, so the
// simulator runs it too.
//
//   client                               root
//   REGISTER(ProcessInfo, size)  ──▶     waits for all processes: for its own number, else for as many as they say
//                                ◀──     REACH(addresses), at once: where else the root listens
//                                ◀──     ROSTER(every ProcessInfo)
//   NOTICE(to, kind, bytes)      ──▶     passes on NOTICE(from, kind, bytes), or drops it if the receiver is away
//                                ◀──     GONE(process): its control connection ended without BYE
//                                ◀──     BACK(process): it returned
//                                ◀──     REFUSE(sentence): other version, rank taken, job full; the connection ends
//   BYE                          ◀─▶     leaves without alarm
//
// REGISTER is state: a client sends it again on every new connection, and the root answers again with REACH and ROSTER
// (and GONE for those away). A client that loses its connection retries for ever, 100 ms doubling to 5 s. Heartbeats
// both ways every second keep silence visible: three seconds without a frame end the connection at either end. Frames
// and their limits are in control/control_wire.h.
//
// Ways. A client that was told a place to meet goes there first. It then knows one address of the root; REACH names
// those of the root's data NICs, so that control goes on over these when the network of the place dies. Control goes
// back to the place when that network lives again: the new connection is up and registered before the old one is
// closed, so nobody is told GONE.
//
// Threads    One driver at a time, for root and client alike; part of an engine (runtime/rendezvous.h).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "control/unique_id.h"
#include "env/env.h"
#include "topology/nic.h"
#include "topology/notice.h"
#include "transport/link.h"

namespace r2ccl {

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
  Duration register_within = 5s;            // a connection that has not registered by then is closed
  std::size_t unregistered_max = 64;        // the oldest goes first
  std::size_t events_max = 8192;            // events nobody took; further ones are dropped and counted
  std::size_t roster_parts_per_step = 128;  // of 16 KiB, to all members together: 1 or 2 ms of a processor
  std::size_t refusals_logged = 16;         // then silence: strangers must not fill the log
  // How often a client that had to leave the management network tries it again; doubles each time that network is lost
  // within `return_max` of its return.
  Duration return_min = 2s;
  Duration return_max = 60s;
};

// How a client reaches the root: from a NIC here to an address of the root.
struct ControlWay {
  NicId nic;
  Address root;
  friend bool operator==(const ControlWay&, const ControlWay&) = default;
};

// The NICs a client goes from.
struct ControlNics {
  std::vector<NicId> data;
  NicId place;  // leads to UniqueId::place; one of `data`, or a management NIC, to which control goes back
};

// All ways, in the order in which they are tried. Each round begins with the place; then every NIC goes to one address,
// the first NIC to the first address, the next to the next. Each round shifts the addresses by one, so in the end every
// NIC has tried every address. `reach`: what the root's REACH said; empty: nothing yet. Ways between IPv4 and IPv6 are
// left out, and so are ways from data NICs to a place that has a network of its own: they only cost time.
std::vector<ControlWay> control_ways(const UniqueId& id, const ControlNics& from, const std::vector<Address>& reach,
                                     std::span<const Nic> nics);

// Role       The centre of the star; lives in one process of the job, beside that process's own client.
// Ownership  Owns the links given to accept().
// Failure    Lost members are announced, never waited for. A member whose queue is full misses notices, which are then
//            counted, but never GONE and BACK: those are state and are sent when there is room again.
class ControlRoot final {
 public:
  // `expected` 0: the first member that names a number decides; members that name another one are refused. `reach`:
  // the addresses for REACH.
  ControlRoot(std::size_t expected, std::vector<Address> reach, Log& log, const ControlLimits& limits = {});
  ~ControlRoot();
  // A link that came in with Purpose::kControl and proved itself. A newer one of the same process replaces the older.
  void accept(std::unique_ptr<Link> link, Instant now);
  Turn step(Instant now);
  bool complete() const;
  void finish();                               // BYE to everybody; members do not come back
  bool everybody_left() const;                 // every registered process said BYE
  const std::vector<ProcessId>& left() const;  // who said BYE since the job was complete, in that order
  std::uint64_t notices_dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Role       A process's end of the star; the root's own process has one too.
// Ownership  Owns its links. Provider and log are borrowed and outlive it.
// Failure    It never gives up: a lost connection is made again by the next way.
class ControlClient final {
 public:
  // `key` names the secret in `id`. `expected`: processes of the job, 0: the root knows.
  ControlClient(const ProcessInfo& self, const UniqueId& id, KeyId key, std::uint32_t expected, ControlNics nics,
                Provider& provider, Log& log, const ControlLimits& limits = {});
  ~ControlClient();

  // Uses this link (to a root in the same process) instead of connecting; call before the first step().
  void adopt(std::unique_ptr<Link> link);
  Turn step(Instant now);
  // Empty until all processes have registered. By rank, then process id. Never changes once known.
  const std::vector<ProcessInfo>& roster() const;
  bool connected() const;
  // The way in use; nullopt: not connected, or the root is in this process.
  std::optional<ControlWay> way() const;
  // Best effort: dropped when there is no control connection. At most kNoticeBytesMax bytes.
  void send(ProcessId to, NoticeKind kind, ByteView bytes);
  // kGone names a process that the root says is gone, or the root itself: if it is another process, its connection
  // ended, and new ones are refused.
  std::vector<ControlEvent> take_events();
  void finish();  // BYE, and no more attempts
  // One sentence when the root refuses us (wrong secret, other version, job full), empty otherwise. Attempts go on.
  const std::string& failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
