#include "transport/tcp/tcp_dialer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <cerrno>

namespace r2ccl {

namespace {

bool is_shortage(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

Fd open_spare() {
  return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// The same NIC; one that is no interface in particular gets the address family that is needed.
Nic of_family(Nic nic, bool v4) {
  if (nic.address.is_unspecified()) nic.address = v4 ? Address::v4(0, 0, 0, 0) : Address{};
  return nic;
}

// 0 or an errno. `out` is bound, and does not listen yet.
int open_listener(const Nic& nic, std::uint16_t port, const TcpConfig& config, Fd& out) {
  if (const int error = open_socket(nic, out)) return error;
  const int reuse = 1;
  ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  tune_buffers(out.get(), config);
  return bind_to(out.get(), nic, port);
}

std::string from_to(const Nic& nic, const Address& remote) {
  return fmt::format("connect from NIC {} to {}", nic.name, to_text(remote));
}

}  // namespace

struct TcpDialer::Listener final : ReadyHandler {
  Fd fd;
  Poller::Token token = Poller::kNoToken;
  NicId nic;
  bool waiting = false;  // connections may be waiting in the kernel
  void on_ready(std::uint32_t) override { waiting = true; }
};

Result<std::unique_ptr<TcpDialer>> TcpDialer::open(std::vector<Nic> nics, const TcpConfig& config) {
  std::unique_ptr<TcpDialer> dialer(new TcpDialer(std::move(nics), config));
  if (Status status = dialer->shared_.poller.open(); !status) return std::unexpected(status.error());
  dialer->carrier_ = std::make_unique<NetlinkCarrier>(dialer->shared_.poller, dialer->nics_);
  dialer->spare_ = open_spare();
  return dialer;
}

TcpDialer::TcpDialer(std::vector<Nic> nics, const TcpConfig& config) : nics_(std::move(nics)), config_(config) {}

TcpDialer::~TcpDialer() = default;

const Nic* TcpDialer::find_nic(NicId id) const {
  for (const Nic& nic : nics_) {
    if (nic.id == id) return &nic;
  }
  return nullptr;
}

Result<Address> TcpDialer::listen(NicId id, std::uint16_t port) {
  const Nic* nic = find_nic(id);
  if (nic == nullptr) return fail(Fault::kMisuse, fmt::format("there is no NIC {} to listen on", id.value));
  auto listener = std::make_unique<Listener>();
  listener->nic = id;
  const auto can_not = [&](int error) {
    return fail(is_shortage(error) ? Fault::kBusy : Fault::kPathDown,
                describe(fmt::format("listen on NIC {} ({}), port {}", nic->name, to_text(nic->address), port), error));
  };
  int error = open_listener(of_family(*nic, false), port, config_, listener->fd);
  // Without IPv6 here, everywhere means all of IPv4.
  const bool no_v6 = error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
  if (no_v6 && nic->address.is_unspecified()) error = open_listener(of_family(*nic, true), port, config_, listener->fd);
  if (error != 0) return can_not(error);
  const int fd = listener->fd.get();
  if (deaf_nics_[id.value]) set_drop_filter(fd, true);
  if (::listen(fd, kBacklog) != 0) return can_not(errno);
  error = shared_.poller.add(fd, EPOLLIN | EPOLLET, *listener, listener->token);
  if (error != 0) return can_not(error);
  listeners_.push_back(std::move(listener));
  return local_address(fd);
}

Result<std::unique_ptr<Stream>> TcpDialer::connect(NicId id, const Address& remote) {
  const Nic* const known = find_nic(id);
  if (known == nullptr) return fail(Fault::kMisuse, fmt::format("there is no NIC {} to connect from", id.value));
  const Nic nic = of_family(*known, remote.is_v4());
  if (nic.address.is_v4() != remote.is_v4()) {
    return fail(Fault::kMisuse, fmt::format("{}: one is IPv4, the other IPv6", from_to(nic, remote)));
  }
  const auto down = [&](int error) -> Result<std::unique_ptr<Stream>> {
    if (is_shortage(error)) return fail(Fault::kBusy, describe(from_to(nic, remote), error));
    return std::make_unique<TcpStream>(shared_, id, cause_of(error), describe(from_to(nic, remote), error));
  };
  Fd fd;
  if (const int error = open_socket(nic, fd)) return down(error);
  // The port is chosen at connect(), per destination: many more connections fit.
  const int late_port = 1;
  ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late_port, sizeof late_port);
  if (const int error = bind_to(fd.get(), nic, 0)) return down(error);
  tune_buffers(fd.get(), config_);
  if (const int error = tune_stream(fd.get(), config_)) return down(error);
  const bool deaf = deaf_nics_[id.value];
  if (deaf) set_drop_filter(fd.get(), true);

  const SocketAddress raw = to_socket_address(remote, nic.name);
  if (::connect(fd.get(), raw.get(), raw.length) != 0 && errno != EINPROGRESS) {
    // The address is ours (bind() said so): this can only mean that all ports towards `remote` are taken.
    if (errno == EADDRNOTAVAIL || errno == EAGAIN) return fail(Fault::kBusy, describe(from_to(nic, remote), errno));
    return down(errno);
  }
  ++counters_.connects;
  auto stream = std::make_unique<TcpStream>(shared_, std::move(fd), id, LinkState::kOpening, to_text(remote));
  if (deaf) stream->deafen_by_nic(true);
  return stream;
}

std::unique_ptr<Stream> TcpDialer::accept() {
  if (accepted_.empty()) return nullptr;
  std::unique_ptr<TcpStream> stream = std::move(accepted_.front());
  accepted_.pop_front();
  return stream;
}

bool TcpDialer::step(Instant /*now*/) {
  bool moved = shared_.poller.dispatch();
  bool unfinished = carrier_->step();
  for (const auto& listener : listeners_) {
    if (listener->waiting) unfinished |= accept_from(*listener);
  }
  shared_.poller.set_unfinished(unfinished);
  return moved || unfinished || !accepted_.empty();
}

// True: it ended because of its bound, and more connections may be waiting.
bool TcpDialer::accept_from(Listener& listener) {
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    if (accepted_.size() == kAcceptQueueMax) return true;
    if (!accept_one(listener)) return false;
  }
  return listener.waiting;
}

// False when there is nothing more to do for this listener in this step.
bool TcpDialer::accept_one(Listener& listener) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  Fd fd(::accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    if (errno == EAGAIN) {
      listener.waiting = false;
      return false;
    }
    if (!is_shortage(errno)) return true;  // EINTR, ECONNABORTED and pending network errors of one connection
    if (!spare_) spare_ = open_spare();
    if (!spare_)
      return false;  // still marked as waiting: tried again in the next step, without keeping the driver awake
    shed_one(listener);
    return true;
  }
  if (tune_stream(fd.get(), config_) != 0) return true;  // gone already
  ++counters_.accepts;
  const std::string name = to_text(from_socket_address(peer));
  accepted_.push_back(std::make_unique<TcpStream>(shared_, std::move(fd), listener.nic, LinkState::kUp, name));
  if (deaf_nics_[listener.nic.value]) accepted_.back()->deafen_by_nic(true);
  return true;
}

// Closes one waiting connection. Without a free descriptor it could be neither accepted nor refused, and would keep the
// listener ready for ever.
void TcpDialer::shed_one(Listener& listener) {
  spare_.reset();
  Fd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) {
    ++counters_.out_of_descriptors;
  } else {
    listener.waiting = errno != EAGAIN;
  }
  close_with_reset(std::move(fd));
  spare_ = open_spare();
}

void TcpDialer::deafen_nic(NicId nic, bool on) {
  deaf_nics_[nic.value] = on;
  for (const auto& listener : listeners_) {
    if (listener->nic == nic) set_drop_filter(listener->fd.get(), on);
  }
  for (TcpStream* stream : shared_.streams) {
    if (stream->nic() == nic) stream->deafen_by_nic(on);
  }
  if (!on) shared_.limbo.release(nic);
}

}  // namespace r2ccl
