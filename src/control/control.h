#pragma once
// Rendezvous and out-of-band notices, as a star: every process keeps one control connection to the root, which knows
// who is there and passes notices on. All I/O through link.h, so the simulator runs it too.
//
//   client                               root
//   REGISTER(ProcessInfo, size)  ──▶     waits for all processes; without a number of its own, for as many as they say
//                                ◀──     REACH(addresses): where else the root listens, at once
//                                ◀──     ROSTER(all ProcessInfos)
//   NOTICE(to, kind, bytes)      ──▶     passed on as NOTICE(from, kind, bytes); best effort, dropped when the receiver
//                                        is away
//                                ◀──     GONE(process): its control connection ended without BYE; BACK(process): it returned
//                                ◀──     REFUSE(sentence): other version, rank taken, job full; the connection ends
//   BYE                          ◀─▶     leaves without alarm
//
// REGISTER is state: sent again on every new connection, answered with REACH and ROSTER (and the GONE of those away)
// again. A client that loses its connection retries for ever, 100 ms doubling to 5 s. Heartbeats both ways every second
// keep silence visible: three seconds without a frame end the connection at either end. Frames and their limits are in
// control/control_wire.h.
//
// Ways. A client that was told a place to meet goes there first. Who is told only a place knows one address of the
// root; REACH names those of its data NICs, so control goes on over these when the network of the place dies, and goes
// back when that lives again: the new connection is up and registered before the old one is closed, so nobody is told
// GONE.

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

// Where a client goes: from a NIC here to an address of the root.
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

// All ways in the order they are tried: to the place; then rail by rail, the first NIC to the first address, the next
// to the next, and each time all NICs had their turn shifted by one; in the end each to each. `reach`: what the root
// said; empty: not yet. Left out are ways between IPv4 and IPv6, and from data NICs to a place that has a network of
// its own: they only cost time.
std::vector<ControlWay> control_ways(const UniqueId& id, const ControlNics& from, const std::vector<Address>& reach,
                                     std::span<const Nic> nics);

// Role       The centre of the star; lives in one process of the job, beside that process's own client.
// Ownership  Owns the links given to accept().
// Failure    Lost members are announced, never waited for. A member whose queue is full misses notices (counted), but
// never
//            GONE and BACK: those are state and are sent when there is room again.
class ControlRoot final {
 public:
  // `expected` 0: the first member says how many; members that say another number are refused. `reach`: what REACH
  // says.
  ControlRoot(std::size_t expected, std::vector<Address> reach, Log& log, const ControlLimits& limits = {});
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
