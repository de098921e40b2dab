#include "apps/r2ccl/perf/bare_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <functional>
#include <stdexcept>

namespace r2ccl::apps {
namespace {

constexpr int kPollMs = 10'000;  // without a byte for this long, something is broken

[[noreturn]] void give_up(const char* what, int error) {
  throw std::runtime_error(describe(what, error));
}

void check(const char* what, int result) {
  if (result != 0) give_up(what, errno);
}

void no_delay(const Fd& socket) {
  const int on = 1;
  check("TCP_NODELAY", ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

Fd new_socket() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) give_up("socket", errno);
  return socket;
}

// Moves part of a message; 0 bytes: would block.
using Move = std::function<ssize_t(int fd, std::size_t offset, std::size_t count)>;

// What one socket is busy with.
struct Transfer {
  std::uint64_t next = 0;  // message
  std::size_t offset = 0;  // in the ring
  std::size_t left = 0;
};

class CopyLoop final {
 public:
  CopyLoop(std::span<const Fd> sockets, const CopyPlan& plan, short events, Move move)
      : sockets_(sockets), plan_(plan), move_(std::move(move)), transfers_(sockets.size()) {
    for (const Fd& socket : sockets) {
      check("O_NONBLOCK", ::fcntl(socket.get(), F_SETFL, O_NONBLOCK));
      entries_.push_back({.fd = socket.get(), .events = events, .revents = 0});
    }
  }

  void run() {
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      transfers_[i].next = i;
      take_next(i);
    }
    while (open_ > 0) {
      bool moved = false;
      for (std::size_t i = 0; i < sockets_.size(); ++i) moved |= transfers_[i].left > 0 && step(i);
      if (!moved && open_ > 0) sleep();
    }
  }

 private:
  void take_next(std::size_t i) {
    const std::uint64_t message = transfers_[i].next;
    if (message >= plan_.messages) {
      entries_[i].fd = -1;  // not polled any more
      return;
    }
    transfers_[i] = {message + sockets_.size(), plan_.slot_offset(message), plan_.message_bytes};
    ++open_;
  }

  bool step(std::size_t i) {
    Transfer& transfer = transfers_[i];
    const ssize_t count = move_(sockets_[i].get(), transfer.offset, transfer.left);
    if (count <= 0) return false;
    transfer.offset += static_cast<std::size_t>(count);
    transfer.left -= static_cast<std::size_t>(count);
    if (transfer.left == 0) {
      --open_;
      take_next(i);
    }
    return true;
  }

  void sleep() {
    if (::poll(entries_.data(), entries_.size(), kPollMs) == 0) give_up("bare copy", ETIMEDOUT);
  }

  const std::span<const Fd> sockets_;
  const CopyPlan plan_;
  const Move move_;
  std::vector<Transfer> transfers_;
  std::vector<pollfd> entries_;
  std::size_t open_ = 0;  // messages under way
};

ssize_t moved_or_throw(const char* what, ssize_t count) {
  if (count > 0) return count;
  if (count == 0) give_up(what, ECONNRESET);
  if (errno == EAGAIN || errno == EINTR) return 0;
  give_up(what, errno);
}

void send_ping(const Fd& socket, ByteView bytes) {
  if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    give_up("bare ping", errno);
}

void receive_ping(const Fd& socket, std::span<std::byte> bytes) {
  if (::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size()))
    give_up("bare ping", errno);
}

}  // namespace

Address bench_address(std::size_t nic) {
  return Address::v4(127, 0, 0, static_cast<std::uint8_t>(nic + 1));
}

std::pair<Fd, Fd> connect_bare(const Address& address) {
  const SocketAddress here = to_socket_address(address, "");
  const Fd listener = new_socket();
  check("bind", ::bind(listener.get(), here.get(), here.length));
  check("listen", ::listen(listener.get(), 1));
  const SocketAddress there = to_socket_address(local_address(listener.get()), "");
  Fd connected = new_socket();
  check("bind", ::bind(connected.get(), here.get(), here.length));
  check("connect", ::connect(connected.get(), there.get(), there.length));
  Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted) give_up("accept", errno);
  no_delay(connected);
  no_delay(accepted);
  return {std::move(connected), std::move(accepted)};
}

void bare_send(std::span<const Fd> sockets, const CopyPlan& plan, ByteView ring) {
  CopyLoop(sockets, plan, POLLOUT, [ring](int fd, std::size_t offset, std::size_t count) {
    return moved_or_throw("bare send", ::send(fd, ring.data() + offset, count, MSG_NOSIGNAL));
  }).run();
}

void bare_receive(std::span<const Fd> sockets, const CopyPlan& plan, std::span<std::byte> ring) {
  CopyLoop(sockets, plan, POLLIN, [ring](int fd, std::size_t offset, std::size_t count) {
    return moved_or_throw("bare receive", ::recv(fd, ring.data() + offset, count, 0));
  }).run();
}

void bare_ping(const Fd& socket, std::uint64_t roundtrips) {
  std::array<std::byte, kPingBytes> bytes{};
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    send_ping(socket, bytes);
    receive_ping(socket, bytes);
  }
}

void bare_pong(const Fd& socket, std::uint64_t roundtrips) {
  std::array<std::byte, kPingBytes> bytes{};
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    receive_ping(socket, bytes);
    send_ping(socket, bytes);
  }
}

}  // namespace r2ccl::apps
