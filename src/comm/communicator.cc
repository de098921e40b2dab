#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "comm/communicator_impl.h"

namespace r2ccl {
namespace {

constexpr Duration kRefusedMax = 5s;  // the root refuses us: given up
constexpr std::string_view kInvitationLabel = "r2ccl invitation";

}  // namespace

void Communicator::Impl::step_joining(Turn& turn) {
  if (!open) {
    if (!engine.ready(key)) return watch_refusal(turn);
    open_members();
    turn.moved = true;
  } else if (!mailbox.hears_all()) {
    listen();
    turn.moved = true;
  }
  if (state == CommState::kJoining) become_ready(turn);
}

void Communicator::Impl::watch_refusal(Turn& turn) {
  if (engine.join_failure(key).empty()) {
    refused_since = kNever;
    return;
  }
  if (refused_since == kNever) refused_since = now;
  if (now >= refused_since + kRefusedMax) return give_up({Fault::kMisuse, engine.join_failure(key)});
  turn.merge({false, refused_since + kRefusedMax});
}

void Communicator::Impl::open_members() {
  open = true;
  placement = place(engine.roster(key), config.costs.unknown_rate);
  plans.set_healthy(cluster_of(placement, all_healthy(placement), config.fabric, config.costs));
  agreement.emplace(rank, size, placement);
  watch.emplace(placement.nics);
  gathering.emplace(engine.roster(key), rank, config.shared_memory, env.random.next());
  const std::size_t longest =
      std::max(64 + placement.nic_rate.size() * sizeof(Permille), gathering->letter_bytes_max());
  mailbox.open(engine.roster(key), longest);
  listen();
  if (state == CommState::kFailed) return;
  if (config.on_members) {
    if (const auto lost = config.on_members(engine.roster(key), now)) await_map_without(*lost);
  }
  step_gathering();
}

void Communicator::Impl::listen() {
  if (const Status heard = mailbox.listen(); !heard) give_up(heard.error());
}

void Communicator::Impl::step_gathering() {
  for (Gathering::Out& out : gathering->take_out()) post(out.to, std::move(out.bytes));
  if (!gathering->over() || gathered || state != CommState::kJoining) return;
  gathered = true;
  if (!gathering->why_not_shared().empty())
    log(LogLevel::kInfo, fmt::format("Rank {} uses no shared memory: {}", rank, gathering->why_not_shared()));
  Neighbours& neighbours = gathering->neighbours();
  board = neighbours.board();
  if (neighbours.peer_copy() != nullptr) mailbox.share(*neighbours.peer_copy());
  missing = size;
}

void Communicator::Impl::await_map_without(NicName lost) {
  if (!replans(mode)) return;  // there will be no other map
  awaited = all_healthy(placement).nic;
  for (std::uint32_t server = 0; server < placement.servers; ++server) {
    const ProcessInfo& member = engine.roster(key)[std::size_t{server} * placement.gpus];
    if (member.server == lost.server) awaited[std::size_t{server} * placement.nics + lost.nic.value] = 0;
  }
  awaited_until = now + kLossKnownWithin;
}

void Communicator::Impl::become_ready(Turn& turn) {
  if (!gathered) return;
  if (!awaited.empty() && agreement->agreed().nic != awaited) {
    turn.merge({false, awaited_until});
    if (now < awaited_until) return;
    log(LogLevel::kWarn,
        fmt::format("Rank {} begins although not all ranks have agreed within {:.0f} s on the NIC that is "
                    "lost: the first calls may run on plans that use it.",
                    rank, to_seconds(kLossKnownWithin)));
  }
  state = CommState::kReady;
}

void Communicator::Impl::post(std::uint32_t to, Bytes bytes) {
  acted = true;
  if (const Status status = mailbox.send_letter(to, std::move(bytes)); !status) stop(status.error());
}

void Communicator::Impl::post_all(const Bytes& bytes) {
  for (std::uint32_t to = 1; to < size; ++to) post(to, bytes);
}

void Communicator::Impl::on_letter(std::uint32_t from, ByteView bytes) {
  if (bytes.empty()) return;
  if (bytes[0] < static_cast<std::byte>(Letter::kFirst)) {
    if (!agreement->on_message(from, bytes))
      give_up({Fault::kBug, mailbox.name_of(from) + " sent a letter that can not be read."});
    return;
  }
  switch (const auto kind = static_cast<Letter>(bytes[0])) {
    case Letter::kHere:
    case Letter::kGo:
    case Letter::kMapped:
    case Letter::kStart:
      if (!gathering->on_letter(from, kind, bytes.subspan(1)))
        return give_up({Fault::kBug, mailbox.name_of(from) + " sent a letter that can not be read."});
      return step_gathering();
    case Letter::kDone:
      return count_done();
    case Letter::kAllDone:
      all_done = true;
      return;
  }
}

void Communicator::Impl::log(LogLevel level, const std::string& line) {
  if (env.log.enabled(level)) env.log.write(level, line);
}

Result<std::unique_ptr<Invitation>> Communicator::Impl::invite(const std::vector<std::uint32_t>& stay,
                                                               std::optional<UniqueId> id) {
  if (!open) return fail(Fault::kMisuse, kNotSetUp);
  Bytes name;
  Writer out(name);
  out.put(std::as_bytes(std::span(kInvitationLabel)));
  out.put(invitations[stay]++);
  for (const std::uint32_t one : stay) out.put(one);
  const Proof proof = keyed_proof(secret, name);
  std::vector<ProcessInfo> guests;
  for (const std::uint32_t one : stay) guests.push_back(mailbox.members().at(one));
  const GroupId group{Reader(proof).get<std::uint64_t>()};
  return std::make_unique<Invitation>(engine, group, std::move(guests), std::move(id));
}

void Communicator::Impl::count_done() {
  if (--missing > 0) return;
  all_done = true;
  post_all({static_cast<std::byte>(Letter::kAllDone)});
}

void Communicator::Impl::step_finishing() {
  if (queue.empty() && !std::exchange(done_sent, true)) rank == 0 ? count_done() : post(0, Letter::kDone);
  if (!all_done || state == CommState::kFailed) return;
  if (rank == 0 && !everybody_let_go()) return;
  end(CommState::kFinished);
}

bool Communicator::Impl::everybody_let_go() {
  const std::vector<ProcessId>& left = engine.left(key);
  for (; left_seen < left.size(); ++left_seen) gone.insert(mailbox.rank_of(left[left_seen]));
  return gone.size() + 1 >= size;
}

void Communicator::Impl::end(CommState final_state) {
  acted = true;
  mailbox.abort();
  running.reset();
  awaits_plan = false;
  plans.stop_asking();
  state = final_state;
  engine.leave(key, now);
}

void Communicator::Impl::give_up(Error why) {
  if (state == CommState::kFailed || state == CommState::kFinished) return;
  error = std::move(why);
  log(error.fault == Fault::kAborted ? LogLevel::kInfo : LogLevel::kError,
      fmt::format("Communicator of rank {} ends: {}", rank, error.what));
  if (open)
    mailbox.notify_all(encode({CallNotice::Kind::kFailed, static_cast<std::uint64_t>(error.fault), 0, error.what}));
  end(CommState::kFailed);
  for (Batch& batch : std::exchange(queue, {})) {
    batch.ticket->result = std::unexpected(error);
    batch.ticket->done = true;
  }
}

Turn Communicator::Impl::step(Instant at) {
  now = at;
  mailbox.begin_turn();
  Turn turn;
  if (state != CommState::kFailed && state != CommState::kFinished) run(turn);
  turn.moved |= std::exchange(acted, false);
  return turn;
}

void Communicator::Impl::run(Turn& turn) {
  if (state == CommState::kJoining) step_joining(turn);
  if (open && state != CommState::kFailed) agree(turn);
  if (reason_until != kNever) {
    if (now >= reason_until) give_up(without_reason);
    turn.merge({false, reason_until});
  } else if (!queue.empty() && state != CommState::kFailed) {
    turn.moved |= mailbox.step_neighbours([this](const Mailbox::Done& done) { on_done(done); });
    if (state != CommState::kFailed && !queue.empty()) turn.moved |= step_batch();
    ask(turn);
    peek(turn);
  }
  if (state == CommState::kFinishing) step_finishing();
}

Communicator::Communicator(Engine& engine, Env env, const Device& device, const UniqueId& id, std::uint32_t rank,
                           std::uint32_t size, const CommConfig& config)
    : rank_(rank), size_(size), impl_(std::make_unique<Impl>(engine, env, device, id, rank, size, config)) {
  engine.attach(GroupId{impl_->key.value}, *this);
}

Communicator::~Communicator() {
  abort("The communicator was destroyed.");
  impl_->engine.detach(GroupId{impl_->key.value});
}

CommState Communicator::state() const {
  return impl_->state;
}
const Error& Communicator::error() const {
  return impl_->error;
}
const PlanInUse& Communicator::plan_in_use() const {
  return impl_->in_use;
}
const HealthMap* Communicator::health_map() const {
  return impl_->agreement ? &impl_->agreement->map() : nullptr;
}
std::vector<std::uint32_t> Communicator::waiting_for() const {
  return impl_->running ? impl_->running->waiting_for() : std::vector<std::uint32_t>{};
}
Result<TicketPtr> Communicator::submit(std::vector<Call> calls) {
  return impl_->submit(std::move(calls));
}
void Communicator::finish() {
  if (impl_->state == CommState::kReady) impl_->state = CommState::kFinishing;
}
void Communicator::abort(const std::string& why) {
  impl_->give_up({Fault::kAborted, why});
}
Result<TimeEstimate> Communicator::estimate(const std::vector<Call>& calls) {
  return impl_->estimate(calls);
}
Result<std::unique_ptr<Invitation>> Communicator::invite(const std::vector<std::uint32_t>& stay,
                                                         std::optional<UniqueId> id) {
  return impl_->invite(stay, std::move(id));
}
bool Communicator::may_spin() const {
  return impl_->board != nullptr;
}
void Communicator::spin(Instant now, const std::function<bool(int)>& relax) {
  impl_->spin(now, relax);
}
std::uint32_t Communicator::ranks_here() const {
  const std::size_t beside = impl_->gathering ? impl_->gathering->neighbours().here().size() : 0;
  return std::max(1U, static_cast<std::uint32_t>(beside));
}
void Communicator::on_completion(ProcessId peer, const Completion& completion) {
  impl_->on_completion(peer, completion);
}
void Communicator::on_notice(ProcessId from, ByteView bytes) {
  impl_->on_notice(from, bytes);
}
Turn Communicator::step(Instant now) {
  return impl_->step(now);
}

}  // namespace r2ccl
