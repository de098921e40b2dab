#pragma once
// Checked traffic between the two ends of a session: streams of messages whose every byte depends on its sender,
// stream, message and position, so anything lost, repeated, mixed up or damaged shows.
//
// Threads    An application thread of its own posts, waits and checks. Everything may be called from any thread.
// Failure    The first wrong thing is written to the board, where both processes and the test see it; the traffic
//            then ends.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/id.h"
#include "runtime/threads/driver.h"
#include "session/session.h"
#include "tests/loopback/support/shared.h"

namespace r2ccl::loopback {

inline constexpr std::size_t kStreamsMax = 16;

struct TrafficShape {
  std::size_t streams = 4;                         // in each direction
  std::size_t window = 4;                          // messages under way on each
  std::vector<std::size_t> sizes = {1024 * 1024};  // each message takes one of them
};

// What both ends know about each other's traffic, in shared memory.
struct TrafficBoard {
  struct End {
    std::array<std::atomic<std::uint64_t>, kStreamsMax> sent;  // messages it has sent; valid once `closed` is up
    Gate closed;                                               // it sends nothing more
    Gate done;  // all its messages are released, and all of the other end's have arrived
    std::atomic<std::uint64_t> messages_checked;
    std::atomic<std::uint64_t> bytes_checked;
    std::array<char, 256> failure;
    Gate failed;
  };
  std::array<End, 2> ends;
  Gate stop;  // the test wants no more

  void fail(std::size_t end, std::string_view sentence);
};

void fill_pattern(std::span<std::byte> out, std::uint64_t key);
// The position of the first wrong byte, or the size.
std::size_t check_pattern(std::span<const std::byte> in, std::uint64_t key);

class Traffic final {
 public:
  static constexpr Duration kStuckAfter = 60s;  // nothing completed for so long: the test has failed

  Traffic(Driver& driver, ProcessId peer, GroupId group, std::size_t end, const TrafficShape& shape,
          TrafficBoard& board);
  ~Traffic();

  void start();
  // The application thread computes for so long without calling in; sends and receives that are posted stay so.
  void compute(Duration how_long);
  bool computing() const { return compute_ns_ != 0; }
  void join();  // returns when the board says stop and all is done, or something failed

 private:
  struct Message {
    std::vector<std::byte> bytes;
    HostRegion region{nullptr, 0};
    std::uint64_t sequence = 0;
  };
  struct Stream {
    std::deque<std::unique_ptr<Message>> slots;
    std::uint64_t next = 0;  // sequence of the next operation posted
    std::uint64_t done = 0;
    std::vector<Message*> idle;
  };

  void run();
  void run_checked();
  std::vector<Completion> wait_for_completions();
  void take(const Completion& completion);
  void check(Message& message, const Completion& completion);
  void post_receives();
  void post_sends();
  void close_if_stopped();
  bool all_done() const;
  std::uint64_t key_of(std::size_t from_end, std::size_t stream, std::uint64_t sequence) const;
  std::size_t size_of(std::uint64_t key) const;
  void busy_for(Duration how_long);

  Driver& driver_;
  const ProcessId peer_;
  const GroupId group_;
  const std::size_t end_;
  const TrafficShape shape_;
  TrafficBoard& board_;
  std::array<Stream, kStreamsMax> sends_, receives_;
  bool closed_ = false;
  std::atomic<std::int64_t> compute_ns_ = 0;
  std::atomic<std::uint64_t> computed_ = 0;  // keeps the computing from being optimised away
  std::thread thread_;
};

}  // namespace r2ccl::loopback
