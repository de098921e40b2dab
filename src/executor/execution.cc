#include "executor/execution.h"

#include <algorithm>

#include "base/assert.h"
#include "executor/execution_impl.h"

namespace r2ccl {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

bool inside(const Lane& lane, std::uint32_t step) {
  return step >= lane.inner_begin && step < lane.inner_end;
}

}  // namespace

Execution::Impl::Impl(const PlanHeader& header_in, std::span<const Lane> lanes_in, std::uint32_t rank_in,
                      const ExecutionBuffers& buffers_in, DataType type_in, ReduceKind kind_in, const Device& device_in,
                      Courier& courier_in, Pool& pool_in)
    : header(header_in),
      lanes(lanes_in),
      rank(rank_in),
      buffers(buffers_in),
      type(type_in),
      size(size_of(type_in)),
      kind(kind_in),
      device(device_in),
      courier(courier_in),
      pool(pool_in) {
  R2CCL_ASSERT(header.slots > 0 && rank < header.ranks, "a header without slots, or without this rank");
  if (buffers.count == 0) return;  // every range is empty
  const Needs needs = needs_of(header, lanes, buffers.count);
  connect(needs);
  add_lanes(needs);
  add_dependents();
  start();
}

void Execution::Impl::connect(const Needs& needs) {
  scratch_stride = aligned(needs.scratch_elements * size);
  std::size_t bytes = scratch_stride * header.scratch_slots;
  std::uint32_t number = 0;
  const auto add = [&](std::vector<Connection>& to, const ConnectionNeed& need) {
    const std::size_t stride = need.staged_elements == 0 ? 0 : aligned(need.staged_elements * size + kLine);
    to.push_back({.key = need.key,
                  .depth = need.depth,
                  .first = number,
                  .shared = need.shared,
                  .staging = bytes,
                  .stride = stride});
    number += need.depth;
    bytes += stride * need.depth;
  };
  in.reserve(needs.in.size());
  for (const ConnectionNeed& need : needs.in) add(in, need);
  first_send = number;
  out.reserve(needs.out.size());
  for (const ConnectionNeed& need : needs.out) add(out, need);

  transfers.resize(number);
  for (const std::vector<Connection>* side : {&in, &out}) {
    for (std::uint32_t c = 0; c < side->size(); ++c) {
      for (std::uint32_t i = 0; i < (*side)[c].depth; ++i) transfers[(*side)[c].first + i].connection = c;
    }
  }
  if (bytes > 0) block = pool.take(bytes);
  own = {block.memory.get(), block.bytes};
}

std::optional<NicId> Execution::Impl::nic_of(std::int32_t rail) const {
  if (rail == kAnyRail) return std::nullopt;
  if (header.nic_of_rail.empty()) return NicId{static_cast<std::uint8_t>(rail)};
  const std::size_t rails = header.nic_of_rail.size() / (header.ranks / header.ranks_per_server);
  const std::size_t server = rank / header.ranks_per_server;
  return NicId{header.nic_of_rail[server * rails + static_cast<std::size_t>(rail)]};
}

void Execution::Impl::add_lanes(const Needs& needs) {
  runs.reserve(lanes.size());
  queue.resize(lanes.size());
  stalled.reserve(lanes.size());
  std::uint32_t steps = 0;
  std::uint32_t ahead = 0;
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    LaneRun& lane = runs.emplace_back(lanes[l], l);
    lane.nic = nic_of(lanes[l].rail);
    for (const Step& s : lanes[l].steps) {
      lane.lands = lane.lands || lands_in_place(s);
      if (receives(s.kind) && !lane.ahead) lane.ahead.emplace(lane.at);
    }
    lane.first_step = steps;
    lane.first_posted = ahead;
    lane.posted_size = needs.ahead[l];
    steps += static_cast<std::uint32_t>(lanes[l].steps.size());
    ahead += needs.ahead[l];
  }
  posted.resize(ahead);
  receipts_of.assign(steps, kNone);
}

void Execution::Impl::add_dependents() {
  std::vector<std::uint64_t> edges;  // lane waited for, lane that waits
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    for (const Step& s : lanes[l].steps) {
      for (const Wait& w : s.waits) {
        edges.push_back(std::uint64_t{w.lane} << 32 | l);
        std::uint32_t& where = receipts_of[runs[w.lane].first_step + w.step];
        if (!sends(lanes[w.lane].steps[w.step].kind) || where != kNone) continue;
        where = static_cast<std::uint32_t>(receipts.size());
        receipts.emplace_back();
      }
    }
  }
  std::ranges::sort(edges);
  const auto repeated = std::ranges::unique(edges);
  edges.erase(repeated.begin(), repeated.end());
  dependents.reserve(edges.size());
  std::size_t next = 0;
  for (LaneRun& lane : runs) {
    lane.first_dependent = static_cast<std::uint32_t>(next);
    for (; next < edges.size() && edges[next] >> 32 == lane.number; ++next) {
      dependents.push_back(static_cast<std::uint32_t>(edges[next]));
    }
  }
}

void Execution::Impl::start() {
  R2CCL_ASSERT(finished(), "started while it runs");
  // The regions reach to the end of the vector. Buffers may end earlier; the steps never go beyond what is there.
  input = {const_cast<std::byte*>(buffers.input), (buffers.count - buffers.input_first) * size};
  output = {buffers.output, (buffers.count - buffers.output_first) * size};
  queue_begin = queue_count = 0;
  for (LaneRun& lane : runs) {
    lane.start();
    if (lane.at.done()) continue;
    ++lanes_left;
    wake(lane.number);
  }
}

void Execution::Impl::wake(std::uint32_t lane) {
  LaneRun& run = runs[lane];
  if (run.queued || run.at.done()) return;
  run.queued = true;
  const std::size_t end = std::size_t{queue_begin} + queue_count++;
  queue[end < queue.size() ? end : end - queue.size()] = lane;
}

void Execution::Impl::wake_dependents(const LaneRun& lane) {
  const std::size_t end = lane.number + 1 < runs.size() ? runs[lane.number + 1].first_dependent : dependents.size();
  for (std::size_t i = lane.first_dependent; i < end; ++i) {
    LaneRun& dependent = runs[dependents[i]];
    if (!dependent.awaits) continue;
    dependent.awaits = false;
    wake(dependent.number);
  }
}

void Execution::Impl::stall(LaneRun& lane) {
  if (lane.stalled) return;
  lane.stalled = true;
  stalled.push_back(lane.number);
}

// The courier did not take a message.
void Execution::Impl::refused(LaneRun& lane, const Error& error) {
  if (error.fault == Fault::kBusy) {
    stall(lane);
  } else {
    result = std::unexpected(error);
  }
}

// A lane counts as queued while it runs, so nothing queues it twice: it looks at everything again before it stops.
void Execution::Impl::run(LaneRun& lane) {
  bool again = false;
  while (!again && result) {
    const std::size_t before = budget;
    if (lane.ahead && !lane.ahead->done()) post(lane);
    const Went went = execute(lane);
    moved = moved || went != Went::kNowhere || budget != before;
    if (went == Went::kNowhere) break;
    if (lane.at.done()) {
      --lanes_left;
      break;
    }
    // A lane that copied or reduced has kept others waiting, so they run first.
    again = budget == 0 || (budget != before && queue_count > 0);
  }
  lane.queued = false;
  if (again) wake(lane.number);
}

void Execution::Impl::free_receive(std::uint32_t transfer) {
  transfers[transfer].state = State::kFree;
  Connection& c = in[transfers[transfer].connection];
  if (c.waiter == kNone) return;
  wake(c.waiter);
  c.waiter = kNone;
}

bool Execution::Impl::waited_for(const LaneCursor& at, const Wait& wait, Iteration& first, Iteration& last) const {
  const Lane& target = lanes[wait.lane];
  const std::int64_t outer = std::int64_t{at.outer()} + wait.outer_offset;
  if (outer < 0) return false;
  first = last = {.outer = static_cast<std::uint32_t>(outer)};
  if (!inside(target, wait.step)) return true;
  if (!wait.one_inner) {
    last.inner = target.inner == 0 ? 0 : target.inner - 1;
    return true;
  }
  const std::int64_t inner = std::int64_t{at.inner()} + wait.inner_offset;
  if (inner < 0) return false;
  first.inner = last.inner = static_cast<std::uint32_t>(inner);
  return true;
}

bool Execution::Impl::wait_over(const LaneCursor& at, const Wait& wait, std::uint64_t& known) const {
  Iteration first;
  Iteration last;
  if (!waited_for(at, wait, first, last)) return true;
  const LaneRun& target = runs[wait.lane];
  if (!target.at.passed(wait.step, last.outer, last.inner)) return false;
  const std::uint32_t where = receipts_of[target.first_step + wait.step];
  return where == kNone || receipts[where].all_in(first, last, known);
}

bool Execution::Impl::waits_over(const LaneCursor& at, WaitProgress& progress) const {
  const std::vector<Wait>& waits = at.step().waits;
  while (progress.over < waits.size()) {
    if (!wait_over(at, waits[progress.over], progress.known)) return false;
    ++progress.over;
    progress.known = 0;
  }
  return true;
}

// Adds why one lane does not get on. A lane that waits for another lane adds nothing but missing receipts: the other
// lane has its own reason.
void Execution::Impl::add_reason(const LaneRun& lane, std::vector<std::uint32_t>& ranks) const {
  const LaneCursor& at = lane.at;
  const Step& step = at.step();
  for (const Wait& wait : step.waits) {
    std::uint64_t known = 0;
    if (wait_over(at, wait, known)) continue;
    Iteration first;
    Iteration last;
    (void)waited_for(at, wait, first, last);
    const std::uint32_t where = receipts_of[runs[wait.lane].first_step + wait.step];
    for (std::size_t t = first_send; where != kNone && t < transfers.size(); ++t) {
      const Transfer& send = transfers[t];
      if (send.state != State::kUnderWay || send.receipts != where) continue;
      if (receipts[where].open(send.receipt, first, last)) ranks.push_back(out[send.connection].peer());
    }
    return;
  }
  if (range_of(at).empty()) return;
  const Posted* receive = oldest(lane);
  const bool there =
      receive != nullptr && receive->step == lane.executed && transfers[receive->transfer].state == State::kHeld;
  if (receives(step.kind) && !there) {
    ranks.push_back(static_cast<std::uint32_t>(at.from()));
  } else if (sends(step.kind)) {
    ranks.push_back(static_cast<std::uint32_t>(at.to()));
  }
}

std::vector<std::uint32_t> Execution::Impl::waiting_for() const {
  std::vector<std::uint32_t> ranks;
  for (const LaneRun& lane : runs) {
    if (!lane.at.done()) add_reason(lane, ranks);
  }
  for (std::size_t t = first_send; lanes_left == 0 && t < transfers.size(); ++t) {
    if (transfers[t].state == State::kUnderWay) ranks.push_back(out[transfers[t].connection].peer());
  }
  std::ranges::sort(ranks);
  const auto repeated = std::ranges::unique(ranks);
  ranks.erase(repeated.begin(), repeated.end());
  return ranks;
}

Execution::Execution(const PlanHeader& header, std::span<const Lane> lanes, std::uint32_t rank,
                     const ExecutionBuffers& buffers, DataType type, ReduceKind kind, const Device& device,
                     Courier& courier, Pool& pool)
    : impl_(std::make_unique<Impl>(header, lanes, rank, buffers, type, kind, device, courier, pool)) {}

Execution::~Execution() = default;

void Execution::restart(const ExecutionBuffers& buffers) {
  R2CCL_ASSERT(impl_->result && buffers.count == impl_->buffers.count, "restarted after an error, or for another size");
  impl_->buffers = buffers;
  impl_->start();
}

bool Execution::step() {
  Impl& i = *impl_;
  if (over()) return false;
  for (const std::uint32_t lane : i.stalled) {
    i.runs[lane].stalled = false;
    i.wake(lane);
  }
  i.stalled.clear();
  i.moved = false;
  i.budget = kBytesPerStep;
  while (i.queue_count > 0 && i.budget > 0 && i.result) {
    LaneRun& lane = i.runs[i.queue[i.queue_begin]];
    i.queue_begin = i.queue_begin + 1 == i.queue.size() ? 0 : i.queue_begin + 1;
    --i.queue_count;
    i.run(lane);
  }
  return i.moved;
}

void Execution::on_completion(std::uint64_t token, const Status& status) {
  Impl& i = *impl_;
  if (!i.result) return;
  R2CCL_ASSERT(token < i.transfers.size() && i.transfers[token].state == Impl::State::kUnderWay,
               "a completion of nothing that is under way");
  if (!status) {
    i.result = status;
    return;
  }
  Impl::Transfer& t = i.transfers[token];
  LaneRun& lane = i.runs[t.lane];
  if (token < i.first_send) {
    t.state = Impl::State::kHeld;
    if (i.oldest(lane)->transfer == token) i.wake(t.lane);
    return;
  }
  t.state = Impl::State::kFree;
  --i.sends_open;
  if (t.relayed != Impl::kNone) i.free_receive(t.relayed);
  if (t.receipts != Impl::kNone) {
    i.receipts[t.receipts].received(t.receipt);
    i.wake_dependents(lane);
  }
  Impl::Connection& c = i.out[t.connection];
  if (c.waiter == Impl::kNone) return;
  i.wake(c.waiter);
  c.waiter = Impl::kNone;
}

bool Execution::over() const {
  return !impl_->result || impl_->finished();
}

const Status& Execution::result() const {
  return impl_->result;
}

std::vector<std::uint32_t> Execution::waiting_for() const {
  return over() ? std::vector<std::uint32_t>{} : impl_->waiting_for();
}

}  // namespace r2ccl
