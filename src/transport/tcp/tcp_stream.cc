#include "transport/tcp/tcp_stream.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace r2ccl {

Limbo::~Limbo() {
  while (!buried_.empty()) {
    close_with_reset(std::move(buried_.front().fd));
    buried_.pop_front();
  }
}

void Limbo::bury(NicId nic, Fd fd) {
  if (buried_.size() == kSizeMax) {
    close_with_reset(std::move(buried_.front().fd));
    buried_.pop_front();
  }
  buried_.push_back({nic, std::move(fd)});
}

void Limbo::release(NicId nic) {
  std::erase_if(buried_, [nic](Grave& grave) {
    if (grave.nic != nic) return false;
    close_with_reset(std::move(grave.fd));
    return true;
  });
}

TcpStream::TcpStream(TcpShared& shared, Fd fd, NicId nic, LinkState state, std::string name)
    : shared_(shared), fd_(std::move(fd)), nic_(nic), state_(state), name_(std::move(name)) {
  shared_.streams.insert(this);
  const int error = shared_.poller.add(fd_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, *this, token_);
  if (error != 0) fall(Cause::kLocal, describe(fmt::format("can not watch the connection with {}", name_), error));
}

TcpStream::TcpStream(TcpShared& shared, NicId nic, Cause cause, std::string error)
    : shared_(shared), nic_(nic), state_(LinkState::kDown), cause_(cause), error_(std::move(error)) {}

TcpStream::~TcpStream() {
  close(false);
}

void TcpStream::on_ready(std::uint32_t events) {
  if (state_ == LinkState::kOpening && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) finish_connect();
  if (state_ != LinkState::kUp) return;
  const std::uint32_t over = events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP);
  if (over != 0) hung_up_ = true;
  if (over != 0 || (events & EPOLLIN) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) writable_ = true;
}

void TcpStream::finish_connect() {
  if (const int error = pending_error(fd_.get())) {
    read_over_ = true;
    fall(cause_of(error), describe(fmt::format("connect to {}", name_), error));
    return;
  }
  // A port of the system's choice can happen to be the one dialled: TCP then connects the socket to itself.
  if (local_address(fd_.get()) == remote_address(fd_.get())) {
    read_over_ = true;
    fall(Cause::kRefused, fmt::format("connect to {}: nobody listens there", name_));
    return;
  }
  state_ = LinkState::kUp;
}

void TcpStream::fall(Cause cause, std::string error) {
  if (state_ == LinkState::kDown) return;
  state_ = LinkState::kDown;
  cause_ = cause;
  error_ = std::move(error);
  writable_ = false;
}

Io TcpStream::fall_with_errno(const char* doing, int error_number) {
  fall(cause_of(error_number), describe(fmt::format("{} {}", doing, name_), error_number));
  return {.cause = cause_};
}

Io TcpStream::write(std::span<const ByteView> parts) {
  if (state_ == LinkState::kDown) return {.cause = cause_};
  if (!writable()) return {.would_block = true};
  std::array<iovec, kPartsMax> vector;
  std::size_t count = 0;
  std::size_t asked = 0;
  for (const ByteView& part : parts.first(std::min(parts.size(), kPartsMax))) {
    vector[count++] = {const_cast<std::byte*>(part.data()), part.size()};
    asked += part.size();
  }
  if (asked == 0) return {};
  msghdr message{};
  message.msg_iov = vector.data();
  message.msg_iovlen = count;
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  for (;;) {
    // One part takes the shorter way through the kernel.
    const ssize_t sent =
        count == 1 ? ::send(fd_.get(), vector[0].iov_base, asked, kFlags) : ::sendmsg(fd_.get(), &message, kFlags);
    if (sent >= 0) {
      if (conversation_.wrote()) {
        readable_ = true;
        shared_.poller.skip_once();
      }
      // A short write leaves the stream writable: only EAGAIN promises that another edge will come.
      return {.bytes = static_cast<std::size_t>(sent), .would_block = static_cast<std::size_t>(sent) < asked};
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      writable_ = false;
      return {.would_block = true};
    }
    return fall_with_errno("write to", errno);
  }
}

Io TcpStream::read(std::span<const ReadPart> parts) {
  if (!fd_ || read_over_) return {.cause = cause_};
  if (state_ == LinkState::kOpening) return {.would_block = true};
  // Asks the kernel even if no readiness was announced, because a fence wants what has arrived since.
  std::array<iovec, kPartsMax> vector;
  std::size_t count = 0;
  std::size_t asked = 0;
  for (const ReadPart& part : parts.first(std::min(parts.size(), kPartsMax))) {
    vector[count++] = {part.data, part.size};
    asked += part.size;
  }
  if (asked == 0) return {};
  for (;;) {
    const ssize_t got = count == 1 ? ::recv(fd_.get(), vector[0].iov_base, asked, MSG_DONTWAIT)
                                   : ::readv(fd_.get(), vector.data(), static_cast<int>(count));
    conversation_.read(got > 0);
    if (got > 0) {
      const bool all = static_cast<std::size_t>(got) == asked;
      // Fewer than asked: the queue was empty, and whatever arrives later is a new edge. But an end or error announced
      // before has no further edge, so it must be fetched by another read.
      if (!all) readable_ = hung_up_;
      return {.bytes = static_cast<std::size_t>(got), .would_block = !all};
    }
    if (got == 0) {
      read_over_ = true;
      fall(Cause::kClosed, fmt::format("{} closed the connection", name_));
      return {.cause = cause_};  // kClosed, or why it had fallen before
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      readable_ = false;
      return {.would_block = true, .cause = cause_};
    }
    read_over_ = true;
    return fall_with_errno("read from", errno);
  }
}

void TcpStream::close(bool abortive) {
  fall(Cause::kClosed, "closed by this end");
  read_over_ = true;
  if (!fd_) return;
  shared_.poller.remove(fd_.get(), token_);
  shared_.streams.erase(this);
  Fd fd = std::move(fd_);
  if (deaf()) {
    shared_.limbo.bury(nic_, std::move(fd));
  } else if (abortive) {
    close_with_reset(std::move(fd));
  }
}

// Measured on Linux 6.18 with a reader that stopped (zero window): all accepted bytes count as not sent, tcpi_unacked
// is 0 and SIOCOUTQ equals tcpi_notsent_bytes, before, between and after window probes; only tcpi_last_ack_recv grows,
// because the answers to probes are rate-limited. With a deaf reader SIOCOUTQ exceeds tcpi_notsent_bytes, tcpi_unacked
// stays above 0 and tcpi_last_ack_recv grows from the last acknowledgement on. So "unacked" separates the two, and the
// age alone does not.
Progress TcpStream::progress(Instant /*now*/) {
  if (!fd_) return last_progress_;
  tcp_info info{};
  socklen_t length = sizeof info;
  int out_queue_bytes = 0;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return last_progress_;
  if (::ioctl(fd_.get(), SIOCOUTQ, &out_queue_bytes) != 0) return last_progress_;
  Progress& p = last_progress_;
  p.acked_bytes = info.tcpi_bytes_acked;
  p.queued_bytes = info.tcpi_notsent_bytes;
  // Two calls, so acknowledgements may come between them: segments decide whether, bytes say how much.
  const std::int64_t in_flight = std::int64_t{out_queue_bytes} - info.tcpi_notsent_bytes;
  p.unacked_bytes = info.tcpi_unacked == 0 ? 0 : static_cast<std::uint64_t>(std::max<std::int64_t>(in_flight, 1));
  p.last_ack_age = std::chrono::milliseconds(info.tcpi_last_ack_recv);
  p.srtt = std::chrono::microseconds(info.tcpi_rtt);
  p.min_rtt = std::chrono::microseconds(info.tcpi_min_rtt);
  return p;
}

bool TcpStream::deafen(bool on) {
  const bool was_deaf = deaf();
  deaf_ = on;
  return apply_deaf(was_deaf);
}

void TcpStream::deafen_by_nic(bool on) {
  const bool was_deaf = deaf();
  nic_deaf_ = on;
  apply_deaf(was_deaf);
}

bool TcpStream::apply_deaf(bool was_deaf) {
  if (!fd_ || deaf() == was_deaf) return true;
  return set_drop_filter(fd_.get(), deaf());
}

}  // namespace r2ccl
