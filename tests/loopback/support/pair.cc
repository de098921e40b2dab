#include "tests/loopback/support/pair.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace r2ccl::loopback {

namespace {

template <class T>
void send_whole(int socket, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (::send(socket, &value, sizeof value, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof value))
    throw std::runtime_error("the other end of the pair is gone");
}

template <class T>
T receive_whole(int socket) {
  T value;
  if (::recv(socket, &value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    throw std::runtime_error("the other end of the pair is gone");
  return value;
}

void copy_text(std::string_view text, std::span<char> out) {
  const std::size_t length = std::min(text.size(), out.size() - 1);
  std::memcpy(out.data(), text.data(), length);
}

}  // namespace

Pair::Pair(const PairPlan& plan, Body child_body) {
  SodiumRandom random;
  random.fill(common_->group_secret);
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw std::runtime_error("no socket pair");
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("no second process");
  commands_ = sockets[child_ == 0 ? 1 : 0];
  ::close(sockets[child_ == 0 ? 0 : 1]);
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    run_child(plan, child_body);
  }
  peer_ = std::make_unique<Peer>(0, plan.settings, common_->logs[0]);
  try {
    join(*peer_, plan.root == 0);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}; the other end says: {}", error.what(), common_->child_failure.data()));
  }
  if (!common_->child_ready.wait_for(1, clock_now() + Peer::kStartWithin))
    throw std::runtime_error("the other end does not start");
  if (child_body || !plan.traffic) return;
  traffic_ = std::make_unique<Traffic>(peer_->driver(), peer_->other(), kGroup, 0, plan.shape, common_->board);
  traffic_->start();
}

Pair::~Pair() {
  common_->board.stop.raise_to(1);
  for (std::size_t end = 0; end < 2; ++end) common_->board.fail(end, "the test is over");
  if (traffic_) traffic_->join();
  peer_.reset();  // before the traffic, whose memory it may still write
  traffic_.reset();
  if (child_ > 0 && child_status_ < 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(commands_);
}

void Pair::join(Peer& peer, bool hosts) {
  if (hosts) {
    common_->ticket = peer.host().pack();
    common_->ticket_ready.raise_to(1);
  }
  if (!common_->ticket_ready.wait_for(1, clock_now() + Peer::kStartWithin)) throw std::runtime_error("no ticket came");
  const auto id = UniqueId::unpack(common_->ticket);
  if (!id) throw std::runtime_error(id.error().what);
  peer.join(*id, common_->group_secret);
}

// ---- the forked end --------------------------------------------------------------------------------------------

void Pair::run_child(const PairPlan& plan, const Body& body) {
  int status = 0;
  try {
    Peer peer(1, plan.settings, common_->logs[1]);
    join(peer, plan.root == 1);
    common_->child_ready.raise_to(1);
    if (body)
      body(peer, *common_);
    else
      serve(peer, plan);
  } catch (const std::exception& error) {
    copy_text(error.what(), common_->child_failure);
    status = 1;
  }
  ::_exit(status);
}

void Pair::serve(Peer& peer, const PairPlan& plan) {
  std::unique_ptr<Traffic> traffic;
  if (plan.traffic) {
    traffic = std::make_unique<Traffic>(peer.driver(), peer.other(), kGroup, 1, plan.shape, common_->board);
    traffic->start();
  }
  for (;;) {
    const auto command = receive_whole<Command>(commands_);
    send_whole(commands_, run(peer, traffic.get(), command));
    if (command.kind == Command::Kind::kEnd) break;
  }
  if (traffic) traffic->join();
  peer.finish();
}

Reply Pair::run(Peer& peer, Traffic* traffic, const Command& command) {
  Reply reply;
  reply.ok = true;
  switch (command.kind) {
    case Command::Kind::kInject:
      if (const Status status = peer.inject(command.fault); !status) {
        reply.ok = false;
        copy_text(status.error().what, reply.what);
      }
      break;
    case Command::Kind::kDrain:
      peer.drain(command.nic);
      break;
    case Command::Kind::kUndrain:
      peer.undrain(command.nic);
      break;
    case Command::Kind::kSettle:
      reply.ok = peer.settle(command.time);
      break;
    case Command::Kind::kWaitState:
      reply.ok = peer.wait_for_state(command.nic, command.state, command.time);
      break;
    case Command::Kind::kCompute:
      if (traffic != nullptr) traffic->compute(command.time);
      break;
    case Command::Kind::kStatus:
      reply.counters = peer.counters();
      reply.streams = peer.stream_counters();
      break;
    case Command::Kind::kEnd:
      break;
  }
  return reply;
}

// ---- the test's end --------------------------------------------------------------------------------------------

Reply Pair::tell(std::size_t end, const Command& command) {
  if (end == 0) return run(*peer_, traffic_.get(), command);
  send_whole(commands_, command);
  return receive_whole<Reply>(commands_);
}

std::string Pair::inject(std::size_t end, const FaultSpec& fault) {
  const Reply reply = tell(end, {.kind = Command::Kind::kInject, .fault = fault});
  return reply.ok ? "" : reply.what.data();
}

bool Pair::settle(Duration within) {
  const Instant deadline = clock_now() + within;
  for (const std::size_t end :
       {0, 1, 0}) {  // once more, because a fault at the second may have come to the first meanwhile
    if (!tell(end, {.kind = Command::Kind::kSettle, .time = deadline - clock_now()}).ok) return false;
  }
  return true;
}

bool Pair::traffic_goes_on(std::uint64_t more, Duration within) {
  const std::array<std::uint64_t, 2> goal{checked_messages(0) + more, checked_messages(1) + more};
  const auto reached = [&](Engine&) {
    return (checked_messages(0) >= goal[0] && checked_messages(1) >= goal[1]) || !traffic_failure().empty();
  };
  return peer_->driver().wait_until(reached, clock_now() + within) && traffic_failure().empty();
}

std::string Pair::traffic_failure() const {
  std::string sentence;
  for (std::size_t end = 0; end < 2; ++end) {
    const TrafficBoard::End& each = common_->board.ends[end];
    if (each.failed.value() != 0) sentence += fmt::format("end {}: {}. ", end, each.failure.data());
  }
  return sentence;
}

std::string Pair::stop_traffic(Duration within) {
  const Instant deadline = clock_now() + within;
  common_->board.stop.raise_to(1);
  for (std::size_t end = 0; end < 2; ++end) {
    if (common_->board.ends[end].done.wait_for(1, deadline)) continue;
    return fmt::format("end {}: after {} checked messages not everything that was sent arrived in time", end,
                       checked_messages(end));
  }
  traffic_->join();
  return traffic_failure();
}

std::string Pair::end(Duration within) {
  tell(1, {.kind = Command::Kind::kEnd});
  peer_->finish();
  const int status = wait_for_child(within);
  if (status != 0)
    return fmt::format("the other process ended with status {}: {}", status, common_->child_failure.data());
  return "";
}

int Pair::wait_for_child(Duration within) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child_, 0));
  pollfd watched{.fd = handle, .events = POLLIN, .revents = 0};
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(within);
  const bool ended = ::poll(&watched, 1, static_cast<int>(limit.count())) > 0;
  ::close(handle);
  if (!ended) return -1;
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_status_ = status;
  return status;
}

}  // namespace r2ccl::loopback
