#include "plugin/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/token.h"

namespace r2ccl {
namespace {

constexpr Duration kRefusedMax = 5s;                 // the root refuses us: given up
constexpr std::uint32_t kReceiver = 0, kSender = 1;  // ranks at the rendezvous
constexpr std::size_t kQueueReserve = 4096;
// Messages up to this are over when they are copied.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
// Messages up to this leave without credit, and credit for such a receive mostly never leaves: NCCL posts the receives of an operation
// when the one before it is over, and asking for each would cost a round trip.
constexpr std::size_t kEagerBytes = std::size_t{256} << 10;
constexpr std::size_t kGrantBytes = std::size_t{8} << 20;  // from one process at most

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(const Settings& settings, Log& log) {
  ProcessOptions options;
  options.log = &log;
  options.copy_bytes_max = kSmallBytes;
  options.eager_message_max = kEagerBytes;
  options.eager_bytes = kGrantBytes;
  auto process = Process::create(settings, options);
  if (!process) return std::unexpected(process.error());
  return std::unique_ptr<Endpoint>(new Endpoint(log, std::move(*process)));
}

Endpoint::Endpoint(Log& log, std::unique_ptr<Process> process)
    : log_(log),
      process_(std::move(process)),
      repairs_(log, [this](PathId path, ProcessId peer) { return name_of(path, peer); }) {
  queue_.reserve(kQueueReserve);
  backlog_.reserve(kQueueReserve);
  process_->driver().with_engine([&](Engine& engine) {
    engine_ = &engine;
    process_->telemetry().set_listener(&repairs_);
  });
}

Endpoint::~Endpoint() {
  try {
    say_goodbye();
  } catch (const std::exception& error) {
    log_.write(LogLevel::kError, error.what());
  }
}

// ---- NCCL's calls ------------------------------------------------------------------------------------------------

Connection& Endpoint::add(Engine& engine, Connection::Side side, const UniqueId& id) {
  auto made = std::make_unique<Connection>(*this, side);
  Connection& connection = *made;
  connection.key_ = engine.join(id, side == Connection::Side::kSend ? kSender : kReceiver, 2);
  connection.secret_ = id.secret;
  const GroupId group{connection.key_.value};
  connections_.emplace(group, std::move(made));
  meeting_.push_back(&connection);
  engine.attach(group, *this);
  return connection;
}

Result<Endpoint::Listening> Endpoint::listen() {
  Result<Listening> listening = fail(Fault::kBug, "not asked yet");
  process_->driver().with_engine([&](Engine& engine) {
    const auto id = engine.host(2);
    if (!id) {
      listening = std::unexpected(id.error());
      return;
    }
    listening = Listening{&add(engine, Connection::Side::kReceive, *id), *id};
  });
  return listening;
}

Connection* Endpoint::connect(const UniqueId& id) {
  Connection* connection = nullptr;
  process_->driver().with_engine([&](Engine& engine) { connection = &add(engine, Connection::Side::kSend, id); });
  return connection;
}

void Endpoint::submit(Request& request) {
  request.result.store(nccl::kSuccess, std::memory_order_relaxed);
  request.open.store(request.count, std::memory_order_relaxed);
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(&request);
    queued_ = true;
  }
  if (gone_) return;
  // A send leaves at once. A receive is given to the session by whoever looks next, which is soon: nothing was asked for otherwise.
  const bool sends = request.connection->side() == Connection::Side::kSend;
  if (!sends || !process_->driver().post()) process_->driver().nudge();
}

void Endpoint::close(Connection& connection) {
  process_->driver().with_engine([&](Engine&) {
    now_ = process_->clock().now();
    say_bye(connection);
    sweep();
  });
}

// ---- with the engine held ----------------------------------------------------------------------------------------

Turn Endpoint::step(Instant now) {
  if (now == stepped_ && !queued_.load(std::memory_order_relaxed)) return {false, last_turn_.next};
  now_ = stepped_ = now;
  Turn turn;
  for (std::size_t i = 0; i < meeting_.size();) {
    Connection& connection = *meeting_[i];
    meet(connection, turn);
    if (connection.state() == Connection::State::kMeeting) {
      ++i;
    } else {
      meeting_.erase(meeting_.begin() + static_cast<std::ptrdiff_t>(i));
      turn.moved = true;
    }
  }
  turn.moved |= post_queued();
  for (Connection* connection : std::vector(waiting_)) {
    if (now_ >= connection->give_up_) judge_closed(*connection);
    turn.merge({false, connection->give_up_});
  }
  turn.merge({false, repairs_.step(now)});
  sweep();
  last_turn_ = turn;
  return turn;
}

// The connection stands once a path does: what is sent at once leaves at once, and who leaves at once can say so.
void Endpoint::meet(Connection& connection, Turn& turn) {
  if (connection.session_ == nullptr && engine_->ready(connection.key_)) join(connection);
  if (connection.state() == Connection::State::kFailed) return;
  if (connection.session_ != nullptr) {
    const auto stands = [](const PathView& path) { return path.epoch.value != 0 && path.state != PathState::kClosed; };
    const bool over = connection.session_->state() != SessionState::kActive || connection.peer_closed_;
    if (over || std::ranges::any_of(connection.session_->paths(), stands)) connection.state_ = Connection::State::kOpen;
    return;
  }
  const std::string& refusal = engine_->join_failure(connection.key_);
  if (refusal.empty()) {
    connection.refused_since_ = kNever;
    return;
  }
  if (connection.refused_since_ == kNever) connection.refused_since_ = now_;
  if (now_ >= connection.refused_since_ + kRefusedMax) return fail_connection(connection, nccl::kRemoteError, refusal);
  turn.merge({false, connection.refused_since_ + kRefusedMax});
}

void Endpoint::join(Connection& connection) {
  const ProcessInfo& peer = peer_of(connection);
  const GroupId group{connection.key_.value};
  connection.peer_ = peer.host;
  connection.session_ = &engine_->session(peer.process);
  connection.session_->join(group, connection.secret_);
  keep_one_rendezvous(peer.process, connection.key_);
  const auto awaited = connection.session_->receive(
      group, kByeStream, {&connection.bye_in_region_, 0, connection.bye_in_.size()}, 0, token_of(&connection, kByeIn));
  if (!awaited) lose(connection, awaited.error());
}

const ProcessInfo& Endpoint::peer_of(const Connection& connection) const {
  return engine_->roster(connection.key_).at(connection.side_ == Connection::Side::kSend ? kReceiver : kSender);
}

// Two processes need one control connection, however many connections they have. Both keep the one with the lowest key, as long as
// they live, so they agree as soon as both know of the same ones.
void Endpoint::keep_one_rendezvous(ProcessId peer, KeyId key) {
  const auto [kept, first] = rendezvous_.try_emplace(peer, key);
  if (first) return;
  engine_->leave(std::max(kept->second, key), now_);
  kept->second = std::min(kept->second, key);
}

bool Endpoint::post_queued() {
  if (gone_) return false;
  if (queued_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(queue_mutex_);
    backlog_.insert(backlog_.end(), queue_.begin(), queue_.end());
    queue_.clear();
    queued_ = false;
  }
  if (backlog_.empty()) return false;
  const std::size_t before = backlog_.size();
  Connection* full = nullptr;  // the last one whose session takes no more now; what it has waits in order
  std::erase_if(backlog_, [&](Request* request) {
    if (request->connection == full) return false;
    if (post(*request)) return true;
    full = request->connection;
    return false;
  });
  return backlog_.size() != before;
}

// False: later, when the other end has taken more of what was sent before.
bool Endpoint::post(Request& request) {
  Connection& connection = *request.connection;
  const int count = request.count;  // the request may be used again as soon as its last part is over
  for (int part = 0; part < count; ++part) {
    if (!post_part(connection, request, part)) return false;
  }
  if (connection.session_ != nullptr && connection.side_ == Connection::Side::kSend) deliver(*connection.session_);
  judge_closed(connection);
  return true;
}

bool Endpoint::post_part(Connection& connection, Request& request, int part) {
  if (connection.state() != Connection::State::kOpen) {
    const nccl::Result failure = connection.failure_;
    end_part(request, part, 0, failure == nccl::kSuccess ? nccl::kInternalError : failure);
    return true;
  }
  Request::Part& what = request.parts[part];
  const GroupId group{connection.key_.value};
  const StreamId stream{what.tag};
  const MemoryRef memory{&what.memory, 0, what.memory.size()};
  const std::uint64_t token = token_of(&request, static_cast<std::uint64_t>(part));
  const bool sends = connection.side_ == Connection::Side::kSend;
  const auto posted = sends ? connection.session_->send(group, stream, memory, what.tag, token)
                            : connection.session_->receive(group, stream, memory, what.tag, token);
  if (!posted) {
    // Only a send can meet this, and it has one part: there are never so many receives.
    if (posted.error().fault == Fault::kBusy) return false;
    end_part(request, part, 0, result_of(connection, posted.error()));
    lose(connection, posted.error());
    return true;
  }
  ++connection.pending_;
  if (sends) ++connection.moved_;
  return true;
}

void Endpoint::end_part(Request& request, int part, std::size_t moved, nccl::Result result) {
  request.parts[part].moved = moved;
  if (result != nccl::kSuccess) request.result.store(result, std::memory_order_relaxed);
  request.open.fetch_sub(1, std::memory_order_release);
}

// Small messages are over as soon as they are posted.
void Endpoint::deliver(Session& session) {
  for (const Completion& completion : session.take_completions()) on_completion(session.peer(), completion);
}

void Endpoint::on_completion(ProcessId, const Completion& completion) {
  const std::uint64_t low = completion.token & kLowBits;
  if (!connections_.contains(completion.group)) return;
  if (low == kByeOut) return;
  if (low == kByeIn) return on_bye(object_of<Connection>(completion.token), completion);
  Request& request = object_of<Request>(completion.token);
  Connection& connection = *request.connection;
  --connection.pending_;
  nccl::Result result = nccl::kSuccess;
  if (!completion.status) {
    result = result_of(connection, completion.status.error());
    if (connection.state() == Connection::State::kOpen && !connection.closed_)
      lose(connection, completion.status.error());
  } else if (connection.side_ == Connection::Side::kReceive) {
    ++connection.moved_;
  }
  end_part(request, static_cast<int>(low), completion.length, result);
  judge_closed(connection);
}

std::string Endpoint::name_of(PathId path, ProcessId peer) const {
  const auto end = [](const ProcessInfo& process, NicId nic) {
    const auto port = std::ranges::find(process.ports, nic, &ProcessInfo::Port::nic);
    return fmt::format("NIC {} of {}", port == process.ports.end() ? std::to_string(nic.value) : port->name,
                       process.host);
  };
  const ProcessInfo& self = engine_->self();
  const auto other = std::ranges::find(engine_->roster(), peer, &ProcessInfo::process);
  const bool low = self.process < peer;
  std::string here = end(self, low ? path.low : path.high);
  if (other == engine_->roster().end()) return here;
  return here + " to " + end(*other, low ? path.high : path.low);
}

}  // namespace r2ccl
