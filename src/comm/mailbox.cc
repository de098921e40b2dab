#include "comm/mailbox.h"

#include <fmt/format.h>

#include <utility>

#include "base/assert.h"

namespace r2ccl {
namespace {

constexpr unsigned kKindShift = 56;
constexpr const char* kOpensLater = "Sessions enough were opened in this turn.";

std::uint64_t pack(Mailbox::Kind kind, std::uint64_t token) {
  R2CCL_ASSERT(token >> kKindShift == 0, "a token uses too many bits");
  return static_cast<std::uint64_t>(kind) << kKindShift | token;
}
Mailbox::Kind kind_of(std::uint64_t packed) {
  return static_cast<Mailbox::Kind>(packed >> kKindShift);
}
std::uint64_t token_of(std::uint64_t packed) {
  return packed & ((std::uint64_t{1} << kKindShift) - 1);
}
StreamId stream_of(Mailbox::Kind kind, std::uint32_t channel) {
  return {static_cast<std::uint64_t>(kind) << kKindShift | channel};
}
constexpr Mailbox::Kind kLetters = Mailbox::Kind::kLetterIn;  // one stream for both directions

}  // namespace

void Mailbox::open(const std::vector<ProcessInfo>& members, std::size_t letter_bytes_max) {
  letter_bytes_max_ = letter_bytes_max;
  members_ = members;
  sessions_.assign(members.size(), nullptr);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) rank_of_.emplace(members[rank].process, rank);
}

Status Mailbox::listen() {
  for (; !hears_all(); ++heard_) {
    if (heard_ == rank_ || (rank_ != 0 && heard_ != 0)) continue;
    if (has_to_wait(heard_)) return {};
    letters_.emplace(heard_, std::make_unique<Letters>(letter_bytes_max_));
    if (const Status status = await_letter(heard_); !status) return status;
  }
  return {};
}

std::uint32_t Mailbox::rank_of(ProcessId process) const {
  const auto found = rank_of_.find(process);
  return found == rank_of_.end() ? UINT32_MAX : found->second;
}

std::string Mailbox::name_of(std::uint32_t rank) const {
  return rank < members_.size() ? fmt::format("rank {} ({})", rank, members_[rank].host) : fmt::format("rank {}", rank);
}

std::string Mailbox::name_in(const std::string& what, std::uint32_t rank) const {
  const std::string name = name_of(rank);
  return what.starts_with(name) ? what : fmt::format("{}: {}", name, what);
}

Session& Mailbox::session_with(std::uint32_t rank) {
  Session*& session = sessions_[rank];
  if (session == nullptr) {
    session = &engine_.session(members_[rank].process);
    if (may_open_ > 0) --may_open_;
    session->join(group_, secret_);
    // Those who send to one rank at once do not meet on one NIC of its server.
    session->set_home(std::size_t{rank_} + rank);
  }
  return *session;
}

Status Mailbox::refused(std::uint32_t other, const Error& error) const {
  if (error.fault == Fault::kPeerDown) return fail(error.fault, name_in(error.what, other));
  if (error.fault != Fault::kGroupEnded) return std::unexpected(error);
  return fail(Fault::kAborted, fmt::format("{} has ended the communicator.", name_of(other)));
}

namespace {

// The address of memory that a rank of this server copies with its processor.
std::byte* host_memory(const MemoryRef& memory) {
  std::byte* const start = memory.region->host();
  R2CCL_ASSERT(start != nullptr || memory.length == 0, "memory between neighbours is the host's");
  return start + memory.offset;
}

}  // namespace

Status Mailbox::send(std::uint32_t to, StreamId stream, MemoryRef memory, std::uint64_t tag, std::uint64_t token,
                     std::optional<NicId> nic) {
  if (beside(to)) {
    peer_copy_->send(to, stream.value, host_memory(memory), memory.length, tag, token);
    return {};
  }
  if (has_to_wait(to)) return fail(Fault::kBusy, kOpensLater);
  const auto sent = session_with(to).send(group_, stream, memory, tag, token, nic);
  return sent ? Status{} : refused(to, sent.error());
}

Status Mailbox::receive(std::uint32_t from, StreamId stream, MemoryRef memory, std::uint64_t tag, std::uint64_t token) {
  if (beside(from)) {
    peer_copy_->receive(from, stream.value, host_memory(memory), memory.length, token);
    return {};
  }
  if (has_to_wait(from)) return fail(Fault::kBusy, kOpensLater);
  const auto posted = session_with(from).receive(group_, stream, memory, tag, token);
  return posted ? Status{} : refused(from, posted.error());
}

Status Mailbox::send(std::uint32_t to, std::uint32_t channel, std::optional<NicId> nic, MemoryRef memory,
                     std::uint64_t token) {
  if (!keeps_rails_) nic.reset();
  return send(to, stream_of(Kind::kCollective, channel), memory, tag_, pack(Kind::kCollective, token), nic);
}

Status Mailbox::receive(std::uint32_t from, std::uint32_t channel, MemoryRef memory, std::uint64_t token) {
  return receive(from, stream_of(Kind::kCollective, channel), memory, tag_, pack(Kind::kCollective, token));
}

Status Mailbox::send_point(std::uint32_t to, MemoryRef memory, std::uint64_t token) {
  return send(to, stream_of(Kind::kPoint, 0), memory, 0, pack(Kind::kPoint, token));
}

Status Mailbox::receive_point(std::uint32_t from, MemoryRef memory, std::uint64_t token) {
  return receive(from, stream_of(Kind::kPoint, 0), memory, 0, pack(Kind::kPoint, token));
}

bool Mailbox::step_neighbours(FunctionRef<void(const Done&)> on_done) {
  if (peer_copy_ == nullptr) return false;
  const bool moved = peer_copy_->step(peer_copy_done_);
  for (const PeerCopy::Done& done : std::exchange(peer_copy_done_, {})) {
    on_done({kind_of(done.token), token_of(done.token), done.rank, done.tag, done.bytes, done.status});
  }
  return moved;
}

Status Mailbox::send_letter(std::uint32_t to, Bytes bytes) {
  const std::uint64_t number = next_outgoing_++;
  auto letter = std::make_unique<Outgoing>(std::move(bytes));
  const auto sent = session_with(to).send(group_, stream_of(kLetters, 0), {&letter->region, 0, letter->bytes.size()}, 0,
                                          pack(Kind::kLetterOut, number));
  if (!sent) return refused(to, sent.error());
  outgoing_.emplace(number, std::move(letter));
  return {};
}

Status Mailbox::await_letter(std::uint32_t from) {
  Letters& letters = *letters_.at(from);
  const auto posted = session_with(from).receive(
      group_, stream_of(kLetters, 0), {&letters.region, 0, letters.buffer.size()}, 0, pack(Kind::kLetterIn, from));
  return posted ? Status{} : refused(from, posted.error());
}

void Mailbox::notify(std::uint32_t to, ByteView bytes) {
  if (to != rank_ && to < members_.size()) engine_.notify(members_[to].process, group_, bytes);
}

void Mailbox::notify_all(ByteView bytes) {
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) notify(rank, bytes);
}

std::optional<Mailbox::Done> Mailbox::sort(ProcessId peer, const Completion& completion) {
  const std::uint32_t rank = rank_of(peer);
  if (rank == UINT32_MAX) return std::nullopt;
  const Kind kind = kind_of(completion.token);
  const std::uint64_t token = token_of(completion.token);
  if (kind == Kind::kLetterOut) outgoing_.erase(token);
  return Done{kind, token, rank, completion.tag, completion.length, completion.status};
}

Mailbox::LetterIn Mailbox::take_letter(const Done& done) {
  const Bytes& buffer = letters_.at(done.rank)->buffer;
  LetterIn letter{done.rank, Bytes(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(done.bytes)), {}};
  letter.next = await_letter(done.rank);
  return letter;
}

std::vector<std::vector<PathView>> Mailbox::paths() const {
  std::vector<std::vector<PathView>> all;
  for (std::size_t rank = 0; rank < sessions_.size(); ++rank) {
    const Session* session = sessions_[rank];
    if (session == nullptr || members_[rank].server == members_[rank_].server) continue;
    if (session->state() == SessionState::kActive) all.push_back(session->paths());
  }
  return all;
}

void Mailbox::abort() {
  if (peer_copy_ != nullptr) peer_copy_->close();
  for (Session* session : sessions_) {
    if (session != nullptr) session->abort(group_);
  }
  outgoing_.clear();
}

}  // namespace r2ccl
