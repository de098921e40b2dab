#pragma once
// Two processes with four loopback NICs each, joined by a session, and checked traffic between them. End 0 is the
// test's own process, end 1 a forked one that does what it is told. A test makes its pair first, while its process
// has no threads.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/loopback/support/peer.h"
#include "tests/loopback/support/shared.h"
#include "tests/loopback/support/traffic.h"

namespace r2ccl::loopback {

struct PairPlan {
  TrafficShape shape{};
  bool traffic = true;
  std::size_t root = 0;  // the end that hosts the rendezvous
  Settings settings = quick_settings();
};

// What either end can be told to do.
struct Command {
  enum class Kind : std::uint8_t { kInject, kDrain, kUndrain, kSettle, kWaitState, kCompute, kStatus, kEnd } kind{};
  FaultSpec fault{};
  NicId nic{};
  PathState state{};
  Duration time{};
};

struct Reply {
  bool ok = false;
  Counters counters;
  StreamCounters streams;
  std::array<char, 256> what{};
};

class Pair final {
 public:
  // What both ends and the test share.
  struct Common {
    std::array<EventLog, 2> logs;
    TrafficBoard board;
    std::array<std::byte, UniqueId::kWireSize> ticket;
    Secret group_secret;
    Gate ticket_ready;
    Gate child_ready;
    Gate go;  // for a test's own use
    std::array<char, 256> child_failure;
  };
  // Runs in the forked end instead of traffic and commands.
  using Body = std::function<void(Peer&, Common&)>;

  // Throws with a sentence when the two do not meet.
  explicit Pair(const PairPlan& plan, Body child_body = {});
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  Peer& here() { return *peer_; }
  pid_t child() const { return child_; }
  Common& common() { return *common_; }
  const EventLog& log(std::size_t end) const { return common_->logs[end]; }
  std::uint64_t checked_messages(std::size_t end) const { return common_->board.ends[end].messages_checked; }
  std::uint64_t checked_bytes(std::size_t end) const { return common_->board.ends[end].bytes_checked; }

  Reply tell(std::size_t end, const Command& command);
  // A sentence when it failed, empty otherwise.
  std::string inject(std::size_t end, const FaultSpec& fault);
  // Waits until every rail is up at both ends and no fault is left.
  bool settle(Duration within);
  // Waits until both ends have checked `more` messages. False: not in time, or something failed.
  bool traffic_goes_on(std::uint64_t more, Duration within = 20s);
  // The first thing that went wrong with the traffic so far; empty: nothing.
  std::string traffic_failure() const;

  // Ends the traffic, waits until everything sent has arrived, and says what went wrong; empty: all bytes of all
  // messages were right.
  std::string stop_traffic(Duration within = 30s);
  // Ends both peers in order; empty, or what went wrong.
  std::string end(Duration within = 10s);
  // Waits for the forked end to exit by itself. Its exit status, or -1.
  int wait_for_child(Duration within);

 private:
  [[noreturn]] void run_child(const PairPlan& plan, const Body& body);
  void serve(Peer& peer, const PairPlan& plan);
  void join(Peer& peer, bool hosts);
  static Reply run(Peer& peer, Traffic* traffic, const Command& command);

  Shared<Common> common_;
  int commands_ = -1;
  pid_t child_ = -1;
  int child_status_ = -1;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<Traffic> traffic_;
};

}  // namespace r2ccl::loopback
