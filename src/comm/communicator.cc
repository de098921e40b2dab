#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace r2ccl {
namespace {

constexpr Duration kRefusedMax = 5s;  // the root refuses us: given up
constexpr std::string_view kInvitationLabel = "r2ccl invitation";

}  // namespace

void Communicator::step_joining(Turn& turn) {
  if (!open_) {
    if (!engine_.ready(key_)) return watch_refusal(turn);
    open_members();
    turn.moved = true;
  } else if (!mailbox_.hears_all()) {
    listen();
    turn.moved = true;
  }
  if (state_ == CommState::kJoining) become_ready(turn);
}

void Communicator::watch_refusal(Turn& turn) {
  if (engine_.join_failure(key_).empty()) {
    refused_since_ = kNever;
    return;
  }
  if (refused_since_ == kNever) refused_since_ = now_;
  if (now_ >= refused_since_ + kRefusedMax) return give_up({Fault::kMisuse, engine_.join_failure(key_)});
  turn.merge({false, refused_since_ + kRefusedMax});
}

void Communicator::open_members() {
  open_ = true;
  placement_ = place(engine_.roster(key_), config_.costs.unknown_rate);
  plans_.set_healthy(cluster_of(placement_, all_healthy(placement_), config_.fabric, config_.costs));
  agreement_.emplace(rank_, size_, placement_);
  watch_.emplace(placement_.nics);
  gathering_.emplace(engine_.roster(key_), rank_, config_.shared_memory, env_.random.next());
  const std::size_t longest =
      std::max(64 + placement_.nic_rate.size() * sizeof(Permille), gathering_->letter_bytes_max());
  mailbox_.open(engine_.roster(key_), longest);
  listen();
  if (state_ == CommState::kFailed) return;
  if (config_.observer != nullptr) {
    if (const auto lost = config_.observer->on_members(engine_.roster(key_), now_)) await_map_without(*lost);
  }
  step_gathering();
}

void Communicator::listen() {
  if (const Status heard = mailbox_.listen(); !heard) give_up(heard.error());
}

void Communicator::step_gathering() {
  for (Gathering::Out& out : gathering_->take_out()) post(out.to, std::move(out.bytes));
  if (!gathering_->over() || gathered_ || state_ != CommState::kJoining) return;
  gathered_ = true;
  if (!gathering_->why_not_shared().empty())
    log(LogLevel::kInfo, fmt::format("Rank {} uses no shared memory: {}", rank_, gathering_->why_not_shared()));
  Neighbours& neighbours = gathering_->neighbours();
  board_ = neighbours.board();
  if (neighbours.peer_copy() != nullptr) mailbox_.share(*neighbours.peer_copy());
  missing_ = size_;
}

void Communicator::await_map_without(NicName lost) {
  if (!replans(mode_)) return;  // there will be no other map
  awaited_ = all_healthy(placement_).nic;
  for (std::uint32_t server = 0; server < placement_.servers; ++server) {
    const ProcessInfo& member = engine_.roster(key_)[std::size_t{server} * placement_.gpus];
    if (member.server == lost.server) awaited_[std::size_t{server} * placement_.nics + lost.nic.value] = 0;
  }
  awaited_until_ = now_ + kLossKnownWithin;
}

void Communicator::become_ready(Turn& turn) {
  if (!gathered_) return;
  if (!awaited_.empty() && agreement_->agreed().nic != awaited_) {
    turn.merge({false, awaited_until_});
    if (now_ < awaited_until_) return;
    log(LogLevel::kWarn,
        fmt::format("Rank {} begins although not all ranks have agreed within {:.0f} s on the NIC that is "
                    "lost: the first calls may run on plans that use it.",
                    rank_, to_seconds(kLossKnownWithin)));
  }
  state_ = CommState::kReady;
}

void Communicator::post(std::uint32_t to, Bytes bytes) {
  acted_ = true;
  if (const Status status = mailbox_.send_letter(to, std::move(bytes)); !status) stop(status.error());
}

void Communicator::post_all(const Bytes& bytes) {
  for (std::uint32_t to = 1; to < size_; ++to) post(to, bytes);
}

void Communicator::on_letter(std::uint32_t from, ByteView bytes) {
  if (bytes.empty()) return;
  if (bytes[0] < static_cast<std::byte>(Letter::kFirst)) {
    if (!agreement_->on_message(from, bytes))
      give_up({Fault::kBug, mailbox_.name_of(from) + " sent a letter that can not be read."});
    return;
  }
  switch (const auto kind = static_cast<Letter>(bytes[0])) {
    case Letter::kHere:
    case Letter::kGo:
    case Letter::kMapped:
    case Letter::kStart:
      if (!gathering_->on_letter(from, kind, bytes.subspan(1)))
        return give_up({Fault::kBug, mailbox_.name_of(from) + " sent a letter that can not be read."});
      return step_gathering();
    case Letter::kDone:
      return count_done();
    case Letter::kAllDone:
      all_done_ = true;
      return;
  }
}

void Communicator::log(LogLevel level, const std::string& line) {
  if (env_.log.enabled(level)) env_.log.write(level, line);
}

Result<std::unique_ptr<Invitation>> Communicator::invite(const std::vector<std::uint32_t>& stay,
                                                         std::optional<UniqueId> id) {
  if (!open_) return fail(Fault::kMisuse, "The communicator has not been set up yet.");
  Bytes name;
  Writer out(name);
  out.put(std::as_bytes(std::span(kInvitationLabel)));
  out.put(invitations_[stay]++);
  for (const std::uint32_t one : stay) out.put(one);
  const Proof proof = keyed_proof(secret_, name);
  std::vector<ProcessInfo> guests;
  for (const std::uint32_t one : stay) guests.push_back(mailbox_.members().at(one));
  const GroupId group{Reader(proof).get<std::uint64_t>()};
  return std::make_unique<Invitation>(engine_, group, std::move(guests), std::move(id));
}

void Communicator::count_done() {
  if (--missing_ > 0) return;
  all_done_ = true;
  post_all({static_cast<std::byte>(Letter::kAllDone)});
}

void Communicator::step_finishing() {
  if (queue_.empty() && !std::exchange(done_sent_, true)) rank_ == 0 ? count_done() : post(0, Letter::kDone);
  if (!all_done_ || state_ == CommState::kFailed) return;
  if (rank_ == 0 && !everybody_let_go()) return;
  end(CommState::kFinished);
}

bool Communicator::everybody_let_go() {
  const std::vector<ProcessId>& left = engine_.left(key_);
  for (; left_seen_ < left.size(); ++left_seen_) gone_.insert(mailbox_.rank_of(left[left_seen_]));
  return gone_.size() + 1 >= size_;
}

void Communicator::end(CommState final_state) {
  acted_ = true;
  mailbox_.abort();
  running_.reset();
  awaits_plan_ = false;
  plans_.stop_asking();
  state_ = final_state;
  engine_.leave(key_, now_);
}

void Communicator::give_up(Error why) {
  if (state_ == CommState::kFailed || state_ == CommState::kFinished) return;
  error_ = std::move(why);
  log(error_.fault == Fault::kAborted ? LogLevel::kInfo : LogLevel::kError,
      fmt::format("Communicator of rank {} ends: {}", rank_, error_.what));
  if (open_)
    mailbox_.notify_all(encode({CallNotice::Kind::kFailed, static_cast<std::uint64_t>(error_.fault), 0, error_.what}));
  end(CommState::kFailed);
  for (Batch& batch : std::exchange(queue_, {})) {
    batch.ticket->result = std::unexpected(error_);
    batch.ticket->done = true;
  }
}

Turn Communicator::step(Instant at) {
  now_ = at;
  mailbox_.begin_turn();
  Turn turn;
  if (state_ != CommState::kFailed && state_ != CommState::kFinished) run(turn);
  turn.moved |= std::exchange(acted_, false);
  return turn;
}

void Communicator::run(Turn& turn) {
  if (state_ == CommState::kJoining) step_joining(turn);
  if (open_ && state_ != CommState::kFailed) agree(turn);
  if (reason_until_ != kNever) {
    if (now_ >= reason_until_) give_up(without_reason_);
    turn.merge({false, reason_until_});
  } else if (!queue_.empty() && state_ != CommState::kFailed) {
    turn.moved |= mailbox_.step_neighbours([this](const Mailbox::Done& done) { on_done(done); });
    if (state_ != CommState::kFailed && !queue_.empty()) turn.moved |= step_batch();
    ask(turn);
    peek(turn);
  }
  if (state_ == CommState::kFinishing) step_finishing();
}

Communicator::Communicator(Engine& engine, Env env, const Device& device, const UniqueId& id, std::uint32_t rank,
                           std::uint32_t size, const CommConfig& config)
    : rank_(rank),
      size_(size),
      engine_(engine),
      env_(env),
      device_(device),
      config_(config),
      mode_(mode_of(config.mode).value_or(Mode::kAuto)),
      key_(engine.join(id, rank, size)),
      secret_(id.secret),
      mailbox_(engine, GroupId{key_.value}, id.secret, rank),
      plans_(mode_, config.algorithm, rank, config.plans) {
  engine_.attach(GroupId{key_.value}, *this);
}

Communicator::~Communicator() {
  abort("The communicator was destroyed.");
  engine_.detach(GroupId{key_.value});
}

std::vector<std::uint32_t> Communicator::waiting_for() const {
  return running_ ? running_->waiting_for() : std::vector<std::uint32_t>{};
}

void Communicator::finish() {
  if (state_ == CommState::kReady) state_ = CommState::kFinishing;
}

void Communicator::abort(const std::string& why) {
  give_up({Fault::kAborted, why});
}

std::uint32_t Communicator::ranks_here() {
  const std::size_t beside = gathering_ ? gathering_->neighbours().here().size() : 0;
  return std::max(1U, static_cast<std::uint32_t>(beside));
}

}  // namespace r2ccl
