#pragma once
// The application of a simulated run: posts the planned sends and receives of every process, owns the buffers, checks
// completions.

#include <map>
#include <memory>
#include <vector>

#include "session/session.h"
#include "sim/net/referee.h"
#include "sim/net/scenario.h"
#include "sim/net/user_memory.h"

namespace r2ccl::sim {

inline GroupId sim_group(std::uint8_t group) {
  return {0x510u + group};
}

class Workload final {
 public:
  Workload(const Scenario& scenario, Referee& referee);

  // Posts what is due at process `self`; sessions by peer. Says when the next operation is due.
  Turn post_due(std::size_t self, Instant start, Instant now, const std::vector<Session*>& sessions);
  void on_completion(std::size_t self, std::size_t peer, const Completion& completion);

  void on_abort(std::size_t self, std::uint8_t group);  // done: every operation of the group has completed
  void on_process_dead(std::size_t process);            // its operations never end
  bool settled() const { return unsettled_ == 0; }
  void check_end();  // nobody touched memory after completion; says what never completed
  std::size_t unsettled() const { return unsettled_; }

 private:
  struct Side {
    std::unique_ptr<UserMemory> memory;
    Duration due{};
    std::uint64_t sequence = 0;
    bool posted = false;
    bool settled = false;
    bool ok = false;
  };
  struct Message {
    Side send, receive;
  };
  struct Operation {
    Duration due;
    std::uint32_t message;
    bool receive;
  };

  Side& side(std::uint32_t message, bool receive) {
    return receive ? messages_[message].receive : messages_[message].send;
  }
  void fill(std::uint32_t message, std::span<std::byte> out) const;
  bool matches(std::uint32_t message, ByteView bytes) const;
  // False: the stream takes no more now.
  bool post(const Operation& operation, Session& session);
  void settle(Side& side, bool ok);
  void complain(std::uint32_t message, bool receive, const std::string& what);
  void check_sent(std::uint32_t message);
  void check_received(std::uint32_t message, const Completion& completion);

  const Scenario& scenario_;
  Referee& referee_;
  std::vector<Message> messages_;
  std::vector<std::vector<Operation>> waiting_;  // by process, due last to first
  std::size_t unsettled_ = 0;
};

}  // namespace r2ccl::sim
