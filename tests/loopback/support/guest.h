#pragma once
// Does what a stranger on the network can do to a listener: plain sockets, any bytes, and no manners.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/time.h"
#include "transport/tcp/socket.h"

namespace r2ccl::loopback {

// One connection. Everything is bounded by `patience`.
class Guest final {
 public:
  static constexpr Duration kPatience = 2s;

  // Begins a connection from some loopback address and does not wait for it.
  static Guest knock(const Address& at);
  // The same, and waits until the connection stands. If no answer comes, the guest is not in().
  static Guest enter(const Address& at);

  bool in() const { return in_; }
  // False: the other end has closed.
  bool say(ByteView bytes);
  // As much as goes without waiting, if the connection stands.
  void say_if_in(ByteView bytes);
  // Exactly so many bytes, or fewer if the other end closes or says nothing more in time.
  Bytes hear(std::size_t bytes);
  // Reads until the other end closes. False: it did not in time.
  bool hear_end(Duration patience = kPatience);
  void leave(bool abruptly);

 private:
  explicit Guest(Fd fd) : fd_(std::move(fd)) {}
  bool ready(short what, Instant deadline) const;

  Fd fd_;
  bool in_ = false;
};

// How many descriptors and threads a process has.
std::size_t count_descriptors(pid_t process);
std::size_t count_threads(pid_t process);

}  // namespace r2ccl::loopback
