#include "apps/r2ccl/perf/bare_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <functional>
#include <utility>

namespace r2ccl::apps {
namespace {

constexpr int kPollMs = 10'000;  // without a byte for this long, something is broken

std::unexpected<Error> failed(const char* what, int error) {
  return fail(Fault::kBusy, describe(what, error));
}

// Of a call of the kernel, right after it.
Status done(const char* what, int result) {
  if (result != 0) return failed(what, errno);
  return {};
}

Status no_delay(const Fd& socket) {
  const int on = 1;
  return done("TCP_NODELAY", ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

Result<Fd> new_socket() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return failed("socket", errno);
  return socket;
}

Result<Fd> listen_at(const SocketAddress& here) {
  auto listener = new_socket();
  if (!listener) return listener;
  if (const Status bound = done("bind", ::bind(listener->get(), here.get(), here.length)); !bound)
    return std::unexpected(bound.error());
  if (const Status listening = done("listen", ::listen(listener->get(), 1)); !listening)
    return std::unexpected(listening.error());
  return listener;
}

Result<Fd> connect_from(const SocketAddress& here, const SocketAddress& there) {
  auto connected = new_socket();
  if (!connected) return connected;
  if (const Status bound = done("bind", ::bind(connected->get(), here.get(), here.length)); !bound)
    return std::unexpected(bound.error());
  if (const Status met = done("connect", ::connect(connected->get(), there.get(), there.length)); !met)
    return std::unexpected(met.error());
  return connected;
}

// Moves part of a message, and answers as send() and recv() do.
using Move = std::function<ssize_t(int fd, std::size_t offset, std::size_t count)>;

// What one socket is busy with.
struct Transfer {
  std::uint64_t next = 0;  // message
  std::size_t offset = 0;  // in the ring
  std::size_t left = 0;
};

class CopyLoop final {
 public:
  // `what` names the move in a complaint.
  CopyLoop(std::span<const Fd> sockets, const CopyPlan& plan, const char* what, short events, Move move)
      : sockets_(sockets), plan_(plan), what_(what), move_(std::move(move)), transfers_(sockets.size()) {
    for (const Fd& socket : sockets) entries_.push_back({.fd = socket.get(), .events = events, .revents = 0});
  }

  Status run() {
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      if (const Status set = done("O_NONBLOCK", ::fcntl(sockets_[i].get(), F_SETFL, O_NONBLOCK)); !set) return set;
      transfers_[i].next = i;
      take_next(i);
    }
    while (open_ > 0) {
      const Result<bool> moved = step_all();
      if (!moved) return std::unexpected(moved.error());
      if (*moved || open_ == 0) continue;
      if (const Status slept = sleep(); !slept) return slept;
    }
    return {};
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

  // True when anything moved.
  Result<bool> step_all() {
    bool moved = false;
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      if (transfers_[i].left == 0) continue;
      const Result<bool> stepped = step(i);
      if (!stepped) return stepped;
      moved |= *stepped;
    }
    return moved;
  }

  Result<bool> step(std::size_t i) {
    Transfer& transfer = transfers_[i];
    const ssize_t count = move_(sockets_[i].get(), transfer.offset, transfer.left);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) return failed(what_, count == 0 ? ECONNRESET : errno);
    transfer.offset += static_cast<std::size_t>(count);
    transfer.left -= static_cast<std::size_t>(count);
    if (transfer.left == 0) {
      --open_;
      take_next(i);
    }
    return true;
  }

  Status sleep() {
    if (::poll(entries_.data(), entries_.size(), kPollMs) == 0) return failed("bare copy", ETIMEDOUT);
    return {};
  }

  const std::span<const Fd> sockets_;
  const CopyPlan plan_;
  const char* const what_;
  const Move move_;
  std::vector<Transfer> transfers_;
  std::vector<pollfd> entries_;
  std::size_t open_ = 0;  // messages under way
};

Status send_ping(const Fd& socket, ByteView bytes) {
  if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    return failed("bare ping", errno);
  return {};
}

Status receive_ping(const Fd& socket, std::span<std::byte> bytes) {
  if (::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size()))
    return failed("bare ping", errno);
  return {};
}

}  // namespace

Address bench_address(std::size_t nic) {
  return Address::v4(127, 0, 0, static_cast<std::uint8_t>(nic + 1));
}

Result<std::pair<Fd, Fd>> connect_bare(const Address& address) {
  const SocketAddress here = to_socket_address(address, "");
  const auto listener = listen_at(here);
  if (!listener) return std::unexpected(listener.error());
  auto connected = connect_from(here, to_socket_address(local_address(listener->get()), ""));
  if (!connected) return std::unexpected(connected.error());
  Fd accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted) return failed("accept", errno);
  for (const Fd* end : {&*connected, &accepted}) {
    if (const Status set = no_delay(*end); !set) return std::unexpected(set.error());
  }
  return std::pair(std::move(*connected), std::move(accepted));
}

Status bare_send(std::span<const Fd> sockets, const CopyPlan& plan, ByteView ring) {
  const auto move = [ring](int fd, std::size_t offset, std::size_t count) {
    return ::send(fd, ring.data() + offset, count, MSG_NOSIGNAL);
  };
  return CopyLoop(sockets, plan, "bare send", POLLOUT, move).run();
}

Status bare_receive(std::span<const Fd> sockets, const CopyPlan& plan, std::span<std::byte> ring) {
  const auto move = [ring](int fd, std::size_t offset, std::size_t count) {
    return ::recv(fd, ring.data() + offset, count, 0);
  };
  return CopyLoop(sockets, plan, "bare receive", POLLIN, move).run();
}

Status bare_ping(const Fd& socket, std::uint64_t roundtrips) {
  std::array<std::byte, kPingBytes> bytes{};
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    if (const Status sent = send_ping(socket, bytes); !sent) return sent;
    if (const Status received = receive_ping(socket, bytes); !received) return received;
  }
  return {};
}

Status bare_pong(const Fd& socket, std::uint64_t roundtrips) {
  std::array<std::byte, kPingBytes> bytes{};
  for (std::uint64_t i = 0; i < roundtrips; ++i) {
    if (const Status received = receive_ping(socket, bytes); !received) return received;
    if (const Status sent = send_ping(socket, bytes); !sent) return sent;
  }
  return {};
}

}  // namespace r2ccl::apps
