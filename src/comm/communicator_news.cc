// What comes from sessions and from the other ranks, and what becomes of NICs.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator_impl.h"

namespace r2ccl {
namespace {

constexpr Duration kLookEvery = 100ms;  // at rates, while something runs
constexpr Duration kReasonWithin = 1s;  // after an abort by another rank, its reason is waited for

}  // namespace

void Communicator::Impl::on_completion(ProcessId peer, const Completion& completion) {
  if (const auto done = mailbox.sort(peer, completion)) on_done(*done);
}

void Communicator::Impl::on_done(const Mailbox::Done& done) {
  if (state == CommState::kFailed || state == CommState::kFinished) return;
  if (!done.status) return on_failed(done);
  got_on();
  switch (done.kind) {
    case Mailbox::Kind::kCollective:
      if (!running) return;
      if (done.tag != running_tag) return on_mismatch(done.rank);
      count(done.bytes);
      return running->on_completion(done.token, done.status);
    case Mailbox::Kind::kPoint:
      if (!queue.empty() && queue.front().points) queue.front().points->on_completion(done);
      return;
    case Mailbox::Kind::kLetterIn: {
      const auto letter = mailbox.take_letter(done);
      on_letter(letter.from, letter.bytes);
      if (!letter.next) on_failed({done.kind, done.token, done.rank, 0, 0, letter.next});
      return;
    }
    case Mailbox::Kind::kLetterOut:
      return;
  }
}

void Communicator::Impl::on_failed(const Mailbox::Done& done) {
  const Error& why = done.status.error();
  if (is_farewell(why)) {
    if (done.kind == Mailbox::Kind::kLetterIn) gone.insert(done.rank);  // one is awaited from each
    return;
  }
  if (why.fault == Fault::kMisuse && done.kind == Mailbox::Kind::kCollective && running) return on_mismatch(done.rank);
  if (why.fault != Fault::kAborted) return give_up({why.fault, mailbox.name_in(why.what, done.rank)});
  expect_reason({Fault::kAborted, fmt::format("{} has ended the communicator.", mailbox.name_of(done.rank))});
}

void Communicator::Impl::stop(const Error& why) {
  if (is_farewell(why)) return;
  if (why.fault != Fault::kAborted) return give_up(why);
  expect_reason(why);
}

bool Communicator::Impl::is_farewell(const Error& why) const {
  return all_done && (why.fault == Fault::kAborted || why.fault == Fault::kPeerDown);
}

void Communicator::Impl::expect_reason(Error otherwise) {
  if (reason_until != kNever) return;
  reason_until = now + kReasonWithin;
  without_reason = std::move(otherwise);
}

void Communicator::Impl::on_mismatch(std::uint32_t other) {
  mailbox.notify(other, encode({CallNotice::Kind::kAsk, number, past.back().signature, past.back().text()}));
  expect_reason({Fault::kMisuse, fmt::format("{} made another call as collective {} than this rank's {}.",
                                             mailbox.name_of(other), number, past.back().text())});
}

void Communicator::Impl::on_notice(ProcessId from, ByteView bytes) {
  const auto notice = parse_call_notice(bytes);
  const std::uint32_t other = mailbox.rank_of(from);
  if (!notice || other == UINT32_MAX || state == CommState::kFailed || state == CommState::kFinished) return;
  if (notice->kind == CallNotice::Kind::kFailed) {
    const auto fault =
        notice->number <= static_cast<std::uint64_t>(Fault::kBug) ? static_cast<Fault>(notice->number) : Fault::kBug;
    return give_up({fault, notice->text});
  }
  const auto mine = std::ranges::find(past, notice->number, &Past::number);
  if (mine == past.end() || mine->signature == notice->signature) return;
  give_up({Fault::kMisuse, fmt::format("Collective {} differs: {} called {}, {} called {}.", notice->number,
                                       mailbox.name_of(rank), mine->text(), mailbox.name_of(other), notice->text)});
}

void Communicator::Impl::look(Turn& turn) {
  if (!replans(mode)) return;
  const bool busy = running.has_value();
  if (engine.path_changes() != path_changes || (busy && now >= next_look)) {
    path_changes = engine.path_changes();
    next_look = now + kLookEvery;
    agreement->report(watch->look(mailbox.paths(), engine.without_carrier(), now));
  }
  if (busy) turn.merge({false, next_look});
}

void Communicator::Impl::agree(Turn& turn) {
  look(turn);
  turn.merge(agreement->step(now));
  for (Agreement::Out& out : agreement->take_out()) {
    post(out.to, std::move(out.bytes));
  }
}

}  // namespace r2ccl
