// How connections and the endpoint end: farewells, failures, and who is told what.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugin/endpoint.h"
#include "plugin/token.h"

namespace r2ccl::plugin {
namespace {

constexpr Duration kCloseGrace = 1s;  // after the receiver has closed, for receipts that are on their way
constexpr Duration kHearMax = 1s;     // at the end, until receivers have taken what was sent to them
constexpr const char* kClosed = "The other end has closed it.";

// There is hard evidence at this end against each NIC: our side is to blame.
bool every_nic_failed_here(const std::vector<PathView>& paths) {
  std::map<NicId, bool> failed;
  for (const PathView& path : paths)
    failed[path.nic_here] |= path.last_cause == Cause::kLocal || path.last_cause == Cause::kCarrier;
  return !failed.empty() && std::ranges::all_of(failed, [](const auto& entry) { return entry.second; });
}

}  // namespace

void Endpoint::say_goodbye() {
  if (gone_.exchange(true)) return;
  Driver& driver = process_->driver();
  driver.with_engine([&](Engine&) {
    post_queued();  // to NCCL copies were sent already
    process_->telemetry().set_listener(nullptr);
    for (auto& [group, connection] : connections_) {
      if (connection->closed_ || connection->state() != NetComm::State::kOpen) continue;
      if (connection->pending_ != 0 || !send_bye(*connection)) connection->session_->abort(group);
    }
  });
  // Small messages may have arrived and still wait for their receives: they would go with the session.
  const auto heard = [&](Engine&) {
    return std::ranges::none_of(connections_, [](const auto& entry) {
      const NetComm& one = *entry.second;
      return one.side_ == NetComm::Side::kSend && one.state() == NetComm::State::kOpen && one.pending_ == 0 &&
             !one.peer_closed_;
    });
  };
  driver.wait_until(heard, process_->clock().now() + kHearMax);
  process_->finish();
  driver.stop();
}

void Endpoint::on_bye(NetComm& connection, const Completion& completion) {
  if (completion.status) {
    std::memcpy(&connection.peer_moved_, connection.bye_in_.data(), sizeof connection.peer_moved_);
    connection.peer_closed_ = true;
    if (connection.closed_) return end(connection);
    if (connection.side_ == NetComm::Side::kSend) {
      connection.give_up_ = now_ + kCloseGrace;
      waiting_.push_back(&connection);
    }
    return judge_closed(connection);
  }
  if (connection.closed_) return end(connection);
  lose(connection, completion.status.error());
}

// This end is done. If something is pending, it is given up and the connection ends; otherwise the other end is told,
// and waited for in the background.
void Endpoint::say_bye(NetComm& connection) {
  if (!gone_) post_queued();
  connection.closed_ = true;
  const bool idle = std::erase_if(backlog_, [&](const Asked& asked) { return asked.connection == &connection; }) == 0 &&
                    connection.pending_ == 0;
  if (!idle) return end(connection);
  if (!send_bye(connection) || connection.peer_closed_) end(connection);
}

// How much this end did, for the other.
bool Endpoint::send_bye(NetComm& connection) {
  if (connection.state() != NetComm::State::kOpen) return false;
  const std::uint64_t moved = connection.moved_;
  std::memcpy(connection.bye_out_.data(), &moved, sizeof moved);
  const MemoryRef memory{&connection.bye_out_region_, 0, connection.bye_out_.size()};
  return connection.session_
      ->send(GroupId{connection.key_.value}, kByeStream, memory, 0, token_of(&connection, kByeOut))
      .has_value();
}

// The other end has closed: what it will never answer fails now.
void Endpoint::judge_closed(NetComm& connection) {
  if (!connection.peer_closed_ || connection.pending_ == 0 || connection.state() != NetComm::State::kOpen) return;
  const bool never = connection.side_ == NetComm::Side::kReceive ? connection.moved_ >= connection.peer_moved_
                                                                 : now_ >= connection.give_up_;
  if (never) fail_connection(connection, nccl::kRemoteError, kClosed);
}

void Endpoint::lose(NetComm& connection, const Error& error) {
  // Groups mean nothing to people.
  fail_connection(connection, result_of(connection, error), error.fault == Fault::kAborted ? kClosed : error.what);
}

void Endpoint::fail_connection(NetComm& connection, nccl::NetResult result, const std::string& why) {
  if (connection.state() == NetComm::State::kFailed) return;
  connection.failure_ = result;
  connection.state_ = NetComm::State::kFailed;
  std::erase(waiting_, &connection);
  if (log_.enabled(LogLevel::kWarn)) {
    log_.write(LogLevel::kWarn,
               fmt::format("A connection {} {} is lost: {}", connection.side_ == NetComm::Side::kSend ? "to" : "from",
                           connection.peer_.empty() ? "its peer" : connection.peer_, why));
  }
  if (connection.session_ != nullptr) connection.session_->abort(GroupId{connection.key_.value});
}

nccl::NetResult Endpoint::result_of(const NetComm& connection, const Error& error) {
  if (connection.failure_ != nccl::kSuccess) return connection.failure_;
  switch (error.fault) {
    case Fault::kMisuse:
    case Fault::kCallsDiffer:
      return nccl::kInvalidUsage;
    case Fault::kAborted:
    case Fault::kGroupEnded:
      return nccl::kRemoteError;
    case Fault::kPeerDown:
    case Fault::kPathDown: {
      if (connection.session_ == nullptr) return nccl::kRemoteError;
      return every_nic_failed_here(connection.session_->paths()) ? nccl::kSystemError : nccl::kRemoteError;
    }
    case Fault::kBusy:
    case Fault::kBug:
      break;
  }
  return nccl::kInternalError;
}

// Ends the connection: none of its memory is read or written afterwards, and the next sweep destroys it.
void Endpoint::end(NetComm& connection) {
  if (std::ranges::find(over_, &connection) != over_.end()) return;
  if (connection.session_ != nullptr) connection.session_->abort(GroupId{connection.key_.value});
  for (EarlyMessage& message : connection.shelf_.take_all()) connection.session_->give_back(std::move(message));
  over_.push_back(&connection);
}

void Endpoint::sweep() {
  for (NetComm* connection : std::exchange(over_, {})) {
    const GroupId group{connection->key_.value};
    std::erase(meeting_, connection);
    std::erase(waiting_, connection);
    engine_->detach(group);
    if (connection->session_ == nullptr && engine_->ready(connection->key_)) {
      keep_one_rendezvous(peer_of(*connection).process, connection->key_);  // the other end counts it
    } else if (connection->session_ == nullptr) {
      engine_->leave(connection->key_, now_);
    }
    connections_.erase(group);
  }
}

}  // namespace r2ccl::plugin
