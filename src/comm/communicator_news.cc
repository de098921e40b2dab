// What comes from sessions and from the other ranks, and what becomes of NICs.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator.h"

namespace r2ccl {
namespace {

constexpr Duration kLookEvery = 100ms;  // at rates, while something runs
constexpr Duration kReasonWithin = 1s;  // after an abort by another rank, its reason is waited for

}  // namespace

void Communicator::on_completion(ProcessId peer, const Completion& completion) {
  if (const auto done = mailbox_.sort(peer, completion)) on_done(*done);
}

void Communicator::on_done(const Mailbox::Done& done) {
  if (state_ == CommState::kFailed || state_ == CommState::kFinished) return;
  if (!done.status) return on_failed(done);
  got_on();
  switch (done.kind) {
    case Mailbox::Kind::kCollective:
      if (!running_) return;
      if (done.tag != running_tag_) return on_mismatch(done.rank);
      count(done.bytes);
      return running_->on_completion(done.token, done.status);
    case Mailbox::Kind::kPoint:
      if (!queue_.empty() && queue_.front().points) queue_.front().points->on_completion(done);
      return;
    case Mailbox::Kind::kLetterIn: {
      const auto letter = mailbox_.take_letter(done);
      on_letter(letter.from, letter.bytes);
      if (!letter.next) on_failed({done.kind, done.token, done.rank, 0, 0, letter.next});
      return;
    }
    case Mailbox::Kind::kLetterOut:
      return;
  }
}

void Communicator::on_failed(const Mailbox::Done& done) {
  const Error& why = done.status.error();
  if (is_farewell(why)) {
    if (done.kind == Mailbox::Kind::kLetterIn) gone_.insert(done.rank);  // one is awaited from each
    return;
  }
  if (why.fault == Fault::kCallsDiffer && done.kind == Mailbox::Kind::kCollective && running_)
    return on_mismatch(done.rank);
  if (why.fault != Fault::kAborted) return give_up({why.fault, mailbox_.name_in(why.what, done.rank)});
  expect_reason({Fault::kAborted, fmt::format("{} has ended the communicator.", mailbox_.name_of(done.rank))});
}

void Communicator::stop(const Error& why) {
  if (is_farewell(why)) return;
  if (why.fault != Fault::kAborted) return give_up(why);
  expect_reason(why);
}

bool Communicator::is_farewell(const Error& why) const {
  return all_done_ && (why.fault == Fault::kAborted || why.fault == Fault::kPeerDown);
}

void Communicator::expect_reason(Error otherwise) {
  if (reason_until_ != kNever) return;
  reason_until_ = now_ + kReasonWithin;
  without_reason_ = std::move(otherwise);
}

void Communicator::on_mismatch(std::uint32_t other) {
  mailbox_.notify(other, encode({CallNotice::Kind::kAsk, number_, past_.back().signature, past_.back().text()}));
  expect_reason({Fault::kCallsDiffer, fmt::format("{} made another call as collective {} than this rank's {}.",
                                                  mailbox_.name_of(other), number_, past_.back().text())});
}

void Communicator::on_notice(ProcessId from, ByteView bytes) {
  const auto notice = parse_call_notice(bytes);
  const std::uint32_t other = mailbox_.rank_of(from);
  if (!notice || other == UINT32_MAX || state_ == CommState::kFailed || state_ == CommState::kFinished) return;
  if (notice->kind == CallNotice::Kind::kFailed) {
    const auto fault =
        notice->number <= static_cast<std::uint64_t>(kLastFault) ? static_cast<Fault>(notice->number) : Fault::kBug;
    return give_up({fault, notice->text});
  }
  const auto mine = std::ranges::find(past_, notice->number, &Past::number);
  if (mine == past_.end() || mine->signature == notice->signature) return;
  give_up(
      {Fault::kCallsDiffer, fmt::format("Collective {} differs: {} called {}, {} called {}.", notice->number,
                                        mailbox_.name_of(rank_), mine->text(), mailbox_.name_of(other), notice->text)});
}

void Communicator::look(Turn& turn) {
  if (!replans(mode_)) return;
  const bool busy = running_.has_value();
  if (engine_.path_changes() != path_changes_ || (busy && now_ >= next_look_)) {
    path_changes_ = engine_.path_changes();
    next_look_ = now_ + kLookEvery;
    agreement_->report(watch_->look(mailbox_.paths(), engine_.without_carrier(), now_));
  }
  if (busy) turn.merge({false, next_look_});
}

void Communicator::agree(Turn& turn) {
  look(turn);
  turn.merge(agreement_->step(now_));
  for (Agreement::Out& out : agreement_->take_out()) {
    post(out.to, std::move(out.bytes));
  }
}

}  // namespace r2ccl
