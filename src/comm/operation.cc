#include "comm/operation.h"

#include <algorithm>
#include <span>

#include "base/assert.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

ReduceKind kind_of(ReduceName name) {
  return name <= ReduceName::kMin ? static_cast<ReduceKind>(name) : ReduceKind::kSum;
}

}  // namespace

Collective collective_of(CallKind kind) {
  static_assert(static_cast<int>(CallKind::kAllReduce) == static_cast<int>(Collective::kAllReduce) &&
                static_cast<int>(CallKind::kAllToAll) == static_cast<int>(Collective::kAllToAll));
  R2CCL_ASSERT(!is_point_to_point(kind), "sends and receives have no schedule");
  return static_cast<Collective>(kind);
}

std::uint64_t vector_bytes(const Call& call, std::uint32_t size) {
  return call.count * size_of(call.type) * (counts_blocks(call.kind) ? size : 1);
}

std::uint64_t moved_bytes(const RankPlan& plan, std::uint64_t count, std::size_t width) {
  std::uint64_t elements = 0;
  for (const Lane& lane : plan.lanes) {
    for (LaneCursor at(lane); !at.done(); at.next()) {
      const auto range = plan.header.layout.range(static_cast<std::uint32_t>(at.span()),
                                                  static_cast<std::uint32_t>(at.segment()), count);
      const StepKind kind = at.step().kind;
      elements += range.size() * ((receives(kind) ? 1 : 0) + (sends(kind) ? 1 : 0));
    }
  }
  return elements * width;
}

std::unique_ptr<Execution> ExecutionCache::take(const RankPlan& plan, DataType type, ReduceKind kind,
                                                std::uint64_t count) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->plan.get() != &plan || it->type != type || it->kind != kind || it->count != count) continue;
    auto found = std::move(it->execution);
    kept_.erase(it);
    return found;
  }
  return nullptr;
}

void ExecutionCache::put(Kept kept) {
  if (kept.count * size_of(kept.type) > kBytesMax) return;
  if (kept_.size() == kKept) kept_.erase(kept_.begin());
  kept_.push_back(std::move(kept));
}

Operation::Operation(const Call& call, const Place& place, std::shared_ptr<const RankPlan> plan, std::uint64_t tag)
    : call_(call),
      at_(place),
      plan_(std::move(plan)),
      tag_(tag),
      input_(static_cast<const std::byte*>(call.input)),
      output_(static_cast<std::byte*>(call.output)) {
  prepare();
}

Operation::~Operation() {
  if (execution_ && execution_->over() && execution_->result()) {
    at_.cache.put({plan_, call_.type, kind_of(call_.op.name), buffers().count, std::move(execution_)});
  }
  execution_.reset();
  if (borrowed_.memory) at_.pool.give_back(std::move(borrowed_));
}

std::uint64_t Operation::input_count() const {
  const bool all = counts_blocks(call_.kind) && !input_is_block(call_.kind);
  return call_.count * (all ? at_.size : 1);
}

std::uint64_t Operation::output_count() const {
  if (call_.kind == CallKind::kReduce && at_.rank != call_.peer) return 0;
  const bool all = counts_blocks(call_.kind) && !output_is_block(call_.kind);
  return call_.count * (all ? at_.size : 1);
}

void Operation::prepare() {
  if (call_.count == 0) {
    stage_ = Stage::kOver;
    return;
  }
  const bool sums = reduces(call_.kind);
  scalar_ = call_.op.scalar;
  const bool average = sums && call_.op.name == ReduceName::kAvg && is_float(call_.type) && at_.size > 1;
  if (average) {
    std::byte bits[8] = {};
    reciprocal(at_.size, call_.type, bits);
    std::copy_n(bits, sizeof bits, reinterpret_cast<std::byte*>(&scalar_));
  }
  if (average || (sums && call_.op.name == ReduceName::kPreMulSum)) {
    const bool into_output = call_.kind == CallKind::kAllReduce;  // which then is summed in place
    add_input_pass(into_output ? output_ : borrow(input_count() * size_of(call_.type)), Pass::Kind::kScale,
                   input_count());
  } else if (call_.kind == CallKind::kAllToAll && input_ == output_ && at_.size > 1) {
    add_input_pass(borrow(input_count() * size_of(call_.type)), Pass::Kind::kCopy, input_count());
  }
}

std::byte* Operation::borrow(std::uint64_t bytes) {
  borrowed_ = at_.pool.take(bytes);
  return borrowed_.memory.get();
}

void Operation::add_input_pass(std::byte* destination, Pass::Kind kind, std::uint64_t count) {
  pass_ = Pass{kind, destination, input_, count};
  input_ = destination;
}

// Does some of the pass. False: there is none left.
bool Operation::run_pass() {
  if (!pass_) return false;
  const std::uint64_t width = size_of(call_.type);
  const std::uint64_t part = std::min<std::uint64_t>(pass_->count, Execution::kBytesPerStep / width);
  switch (pass_->kind) {
    case Pass::Kind::kCopy:
      at_.device.copy(pass_->destination, pass_->source, part * width);
      break;
    case Pass::Kind::kScale:
      at_.device.scale(pass_->destination, pass_->source, part, call_.type,
                       reinterpret_cast<const std::byte*>(&scalar_));
      break;
    case Pass::Kind::kDivide:
      at_.device.divide(pass_->destination, part, call_.type, at_.size);
      break;
  }
  pass_->destination += part * width;
  if (pass_->source != nullptr) pass_->source += part * width;
  pass_->count -= part;
  if (pass_->count == 0) pass_.reset();
  return true;
}

void Operation::enter_run() {
  stage_ = Stage::kRun;
  if (at_.size == 1) {
    if (input_ != output_) pass_ = Pass{Pass::Kind::kCopy, output_, input_, output_count()};
    return;
  }
  if (at_.board != nullptr) {
    Call call = call_;
    call.input = input_;
    on_board_.emplace(*at_.board, at_.device, call, kind_of(call_.op.name), tag_);
    return;
  }
  const ExecutionBuffers memory = buffers();
  const ReduceKind kind = kind_of(call_.op.name);
  execution_ = at_.cache.take(*plan_, call_.type, kind, memory.count);
  if (execution_) {
    execution_->restart(memory);
  } else {
    execution_ = std::make_unique<Execution>(plan_->header, plan_->lanes, at_.rank, memory, call_.type, kind,
                                             at_.device, at_.courier, at_.pool);
  }
}

ExecutionBuffers Operation::buffers() const {
  return {.input = input_,
          .input_first = input_is_block(call_.kind) ? at_.rank * call_.count : 0,
          .output = output_,
          .output_first = output_is_block(call_.kind) ? at_.rank * call_.count : 0,
          .count = call_.count * (counts_blocks(call_.kind) ? at_.size : 1)};
}

bool Operation::step() {
  if (run_pass()) return true;
  switch (stage_) {
    case Stage::kBefore:
      enter_run();
      return true;
    case Stage::kRun: {
      const bool moved = on_board_ ? on_board_->step() : execution_ && execution_->step();
      if (on_board_ ? !on_board_->over() : execution_ && !execution_->over()) return moved;
      if (execution_) result_ = execution_->result();
      const bool divides =
          result_ && call_.op.name == ReduceName::kAvg && !is_float(call_.type) && at_.size > 1 && reduces(call_.kind);
      if (divides && output_count() > 0) pass_ = Pass{Pass::Kind::kDivide, output_, nullptr, output_count()};
      stage_ = pass_ ? Stage::kAfter : Stage::kOver;
      return true;
    }
    case Stage::kAfter:
      stage_ = Stage::kOver;
      return true;
    case Stage::kOver:
      return false;
  }
  return false;
}

void Operation::on_completion(std::uint64_t token, const Status& status) {
  if (execution_) execution_->on_completion(token, status);
}

std::vector<std::uint32_t> Operation::waiting_for() const {
  if (on_board_) return on_board_->waiting_for();
  return execution_ && stage_ == Stage::kRun ? execution_->waiting_for() : std::vector<std::uint32_t>{};
}

}  // namespace r2ccl
