#include "plugin/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/token.h"

namespace r2ccl::plugin {
namespace {

constexpr Duration kRefusedMax = 5s;                 // the root refuses us: given up
constexpr std::uint32_t kReceiver = 0, kSender = 1;  // ranks at the rendezvous
constexpr std::size_t kQueueReserve = 4096;
// Messages up to this leave without credit, and credit for such a receive mostly never leaves: NCCL begins an operation
// on a connection when the one before it is over, at both ends, and asking for each would cost a round trip.
constexpr std::size_t kEagerBytes = std::size_t{512} << 10;
constexpr std::size_t kGrantBytes = std::size_t{8} << 20;   // from one process at most
constexpr std::size_t kUsedBytes = std::size_t{512} << 10;  // copied by callers: the other end should know soon

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(const Settings& settings, Log& log) {
  ProcessOptions options;
  options.log = &log;
  options.copy_bytes_max = SendCopies::kLengthMax;
  options.eager_message_max = kEagerBytes;
  options.eager_bytes = kGrantBytes;
  options.callers_copy = true;
  options.hand_over_early = true;
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

NetComm& Endpoint::add(Engine& engine, NetComm::Side side, const UniqueId& id) {
  auto made = std::make_unique<NetComm>(*this, side);
  NetComm& connection = *made;
  connection.key_ = engine.join(id, side == NetComm::Side::kSend ? kSender : kReceiver, 2);
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
    listening = Listening{&add(engine, NetComm::Side::kReceive, *id), *id};
  });
  return listening;
}

NetComm* Endpoint::connect(const UniqueId& id) {
  NetComm* connection = nullptr;
  process_->driver().with_engine([&](Engine& engine) { connection = &add(engine, NetComm::Side::kSend, id); });
  return connection;
}

void Endpoint::submit(NetRequest& request) {
  request.result.store(nccl::kSuccess, std::memory_order_relaxed);
  request.open.store(request.count, std::memory_order_relaxed);
  NetComm& connection = *request.connection;
  const bool sends = connection.side() == NetComm::Side::kSend;
  SendCopy* copy = nullptr;
  if (sends) {
    copy = connection.copies_.make(request.parts[0].memory.bytes(), request.parts[0].tag);
    if (copy != nullptr) end_part(request, 0, copy->length, nccl::kSuccess);
  } else {
    if (serve(request)) return;
    connection.shelf_.send_on();
  }
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back({&connection, &request, copy});
    queued_ = true;
  }
  if (gone_) return;
  // A send leaves at once. A receive is given to the session by whoever looks next, which is soon: nothing was asked
  // for otherwise.
  if (!sends || !process_->driver().post()) process_->driver().nudge();
}

// The caller itself receives what is there already. False: something of it is not.
bool Endpoint::serve(NetRequest& request) {
  NetComm& connection = *request.connection;
  if (request.count != 1) return false;
  NetRequest::Part& part = request.parts[0];
  auto message = connection.shelf_.take_now(StreamId{part.tag}, part.memory.size());
  if (!message) return false;
  if (message->length != 0) part.memory.write(0, message->bytes());
  connection.moved_.fetch_add(1, std::memory_order_relaxed);
  end_part(request, 0, message->length, nccl::kSuccess);
  const std::size_t bytes = message->length;
  {
    const std::lock_guard lock(used_mutex_);
    used_.push_back({connection.session_, std::move(*message)});
  }
  const std::size_t before = used_bytes_.fetch_add(bytes + 1);
  if (before < kUsedBytes && before + bytes >= kUsedBytes) process_->driver().nudge();
  return true;
}

void Endpoint::close(NetComm& connection) {
  process_->driver().with_engine([&](Engine&) {
    now_ = process_->clock().now();
    say_bye(connection);
    sweep();
  });
}

// ---- with the engine held ----------------------------------------------------------------------------------------

Turn Endpoint::step(Instant now) {
  if (used_bytes_.load(std::memory_order_relaxed) != 0) return_used();
  if (now == stepped_ && !queued_.load(std::memory_order_relaxed)) return {false, last_turn_.next};
  now_ = stepped_ = now;
  Turn turn;
  for (std::size_t i = 0; i < meeting_.size();) {
    NetComm& connection = *meeting_[i];
    meet(connection, turn);
    if (connection.state() == NetComm::State::kMeeting) {
      ++i;
    } else {
      meeting_.erase(meeting_.begin() + static_cast<std::ptrdiff_t>(i));
      turn.moved = true;
    }
  }
  if (!gone_) turn.moved |= post_queued();
  for (NetComm* connection : std::vector(waiting_)) {
    if (now_ >= connection->give_up_) judge_closed(*connection);
    turn.merge({false, connection->give_up_});
  }
  turn.merge({false, repairs_.step(now)});
  sweep();
  last_turn_ = turn;
  return turn;
}

// The connection stands once a path does: then what is sent leaves at once, and an end that closes at once can still
// say so.
void Endpoint::meet(NetComm& connection, Turn& turn) {
  if (connection.session_ == nullptr && engine_->ready(connection.key_)) join(connection);
  if (connection.state() == NetComm::State::kFailed) return;
  if (connection.session_ != nullptr) {
    const auto stands = [](const PathView& path) { return path.epoch.value != 0 && path.state != PathState::kClosed; };
    const bool over = connection.session_->state() != SessionState::kActive || connection.peer_closed_;
    if (over || std::ranges::any_of(connection.session_->paths(), stands)) connection.state_ = NetComm::State::kOpen;
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

void Endpoint::join(NetComm& connection) {
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

const ProcessInfo& Endpoint::peer_of(const NetComm& connection) const {
  return engine_->roster(connection.key_).at(connection.side_ == NetComm::Side::kSend ? kReceiver : kSender);
}

// Two processes need one control connection, however many connections they have. Both keep the one with the lowest key,
// as long as they live, so they agree as soon as both know of the same ones.
void Endpoint::keep_one_rendezvous(ProcessId peer, KeyId key) {
  const auto [kept, first] = rendezvous_.try_emplace(peer, key);
  if (first) return;
  engine_->leave(std::max(kept->second, key), now_);
  kept->second = std::min(kept->second, key);
}

bool Endpoint::post_queued() {
  if (queued_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(queue_mutex_);
    backlog_.insert(backlog_.end(), queue_.begin(), queue_.end());
    queue_.clear();
    queued_ = false;
  }
  if (backlog_.empty()) return false;
  const std::size_t before = backlog_.size();
  NetComm* full = nullptr;  // the last one whose session takes no more now; what it has waits in order
  std::erase_if(backlog_, [&](const Asked& asked) {
    if (asked.connection == full) return false;
    if (post(asked)) return true;
    full = asked.connection;
    return false;
  });
  return backlog_.size() != before;
}

// False: it can not be posted yet, because the other end must first take more of what was sent before.
bool Endpoint::post(const Asked& asked) {
  return asked.copy != nullptr ? post_copy(*asked.connection, *asked.copy) : post_request(*asked.request);
}

bool Endpoint::post_copy(NetComm& connection, SendCopy& copy) {
  if (connection.state() == NetComm::State::kOpen) {
    const auto posted = connection.session_->send(GroupId{connection.key_.value}, StreamId{copy.tag},
                                                  {&copy.memory, 0, copy.length}, copy.tag, token_of(&copy, kCopy));
    if (posted) {
      ++connection.moved_;
      return true;
    }
    if (posted.error().fault == Fault::kBusy) return false;
    lose(connection, posted.error());
  }
  connection.copies_.give_back(copy);
  return true;
}

bool Endpoint::post_request(NetRequest& request) {
  NetComm& connection = *request.connection;
  const int count = request.count;  // the request may be used again as soon as its last part is over
  const bool sends = connection.side_ == NetComm::Side::kSend;
  std::array<std::optional<EarlyMessage>, kGroupedMax> early;
  for (int part = 0; part < count; ++part) {
    if (!sends) early[part] = next_early(connection, StreamId{request.parts[part].tag});
    if (!early[part] && !post_part(connection, request, part)) return false;
  }
  if (!sends) connection.shelf_.arrived();
  for (int part = 0; part < count; ++part) {
    if (early[part]) end_early(request, part, std::move(*early[part]));
  }
  judge_closed(connection);
  return true;
}

// The next message that came before its receive. The session may hand over more with every receive it is given, so what
// it handed over since it was last asked comes first.
std::optional<EarlyMessage> Endpoint::next_early(NetComm& connection, StreamId stream) {
  if (connection.session_ == nullptr) return std::nullopt;
  if (connection.session_->has_early()) {
    for (EarlyMessage& message : connection.session_->take_early()) on_early(*connection.session_, std::move(message));
  }
  return connection.shelf_.take(stream);
}

void Endpoint::end_early(NetRequest& request, int part, EarlyMessage message) {
  NetComm& connection = *request.connection;
  Session& session = *connection.session_;
  NamedRegion& memory = request.parts[part].memory;
  const std::size_t length = message.length;
  if (length > memory.size()) {
    const Error error{Fault::kCallsDiffer, fmt::format("A message of {} bytes is longer than its receive of {} bytes.",
                                                       length, memory.size())};
    end_part(request, part, 0, result_of(connection, error));
    lose(connection, error);
  } else {
    if (length != 0) memory.write(0, message.bytes());
    ++connection.moved_;
    end_part(request, part, length, nccl::kSuccess);
  }
  session.give_back(std::move(message));
}

void Endpoint::return_used() {
  std::vector<Used> used;
  {
    const std::lock_guard lock(used_mutex_);
    used.swap(used_);
    used_bytes_ = 0;
  }
  for (Used& one : used) one.session->give_back(std::move(one.message));
}

bool Endpoint::post_part(NetComm& connection, NetRequest& request, int part) {
  if (connection.state() != NetComm::State::kOpen) {
    const nccl::NetResult failure = connection.failure_;
    end_part(request, part, 0, failure == nccl::kSuccess ? nccl::kInternalError : failure);
    return true;
  }
  NetRequest::Part& what = request.parts[part];
  const GroupId group{connection.key_.value};
  const StreamId stream{what.tag};
  const MemoryRef memory{&what.memory, 0, what.memory.size()};
  const std::uint64_t token = token_of(&request, static_cast<std::uint64_t>(part));
  const bool sends = connection.side_ == NetComm::Side::kSend;
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

void Endpoint::end_part(NetRequest& request, int part, std::size_t moved, nccl::NetResult result) {
  request.parts[part].moved = moved;
  if (result != nccl::kSuccess) request.result.store(result, std::memory_order_relaxed);
  request.open.fetch_sub(1, std::memory_order_release);
}

void Endpoint::on_early(Session& session, EarlyMessage message) {
  const auto found = connections_.find(message.key.group);
  if (found == connections_.end()) return session.give_back(std::move(message));
  found->second->shelf_.put(std::move(message));
}

void Endpoint::on_completion(ProcessId, const Completion& completion) {
  const std::uint64_t low = completion.token & kLowBits;
  const auto found = connections_.find(completion.group);
  if (found == connections_.end() || low == kByeOut) return;
  if (low == kCopy) {
    found->second->copies_.give_back(object_of<SendCopy>(completion.token));
    return fail_if_open(*found->second, completion);
  }
  if (low == kByeIn) return on_bye(object_of<NetComm>(completion.token), completion);
  NetRequest& request = object_of<NetRequest>(completion.token);
  NetComm& connection = *request.connection;
  --connection.pending_;
  nccl::NetResult result = nccl::kSuccess;
  if (!completion.status) {
    result = result_of(connection, completion.status.error());
    fail_if_open(connection, completion);
  } else if (connection.side_ == NetComm::Side::kReceive) {
    ++connection.moved_;
  }
  end_part(request, static_cast<int>(low), completion.length, result);
  judge_closed(connection);
}

void Endpoint::fail_if_open(NetComm& connection, const Completion& completion) {
  if (completion.status || connection.state() != NetComm::State::kOpen || connection.closed_) return;
  lose(connection, completion.status.error());
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

}  // namespace r2ccl::plugin
