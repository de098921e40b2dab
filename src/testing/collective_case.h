#pragma once
// For tests: one collective over a MemoryNetwork, with the buffers that the API would have, compared with what it
// promises. It runs twice, in other memory with other values the second time.

#include <cstring>

#include "schedule/schedule.h"
#include "testing/memory_network.h"

namespace r2ccl::example {

struct CollectiveCase {
  const Schedule& schedule;
  std::uint64_t count = 0;  // of the whole vector; a multiple of the ranks for collectives made of blocks
  bool in_place = false;
  DataType type = DataType::kUint64;
  std::uint64_t seed = 0;
};

class CollectiveRun {
 public:
  explicit CollectiveRun(const CollectiveCase& c)
      : c_(c), header_(c.schedule.header), size_(size_of(c.type)), network_(header_.ranks, c.seed) {}

  // What is wrong, or nothing.
  std::string run() {
    std::vector<std::unique_ptr<Execution>> executions;
    fill(c_.seed + 1);
    for (std::uint32_t r = 0; r < header_.ranks; ++r) {
      executions.push_back(std::make_unique<Execution>(header_, c_.schedule.lanes[r], r, memory_of(r), c_.type,
                                                       ReduceKind::kSum, device_, network_.courier(r), pool_));
    }
    if (std::string wrong = finish(executions); !wrong.empty()) return wrong;
    messages_ = network_.messages();
    fill(c_.seed + 2);
    for (std::uint32_t r = 0; r < header_.ranks && c_.count > 0; ++r) executions[r]->restart(memory_of(r));
    const std::string wrong = finish(executions);
    return wrong.empty() ? wrong : "the second time: " + wrong;
  }
  std::uint64_t messages() const { return messages_; }  // of one run

 private:
  void fill(std::uint64_t seed) {
    std::mt19937_64 values(seed);
    start_.clear();
    buffers_.clear();
    for (std::uint32_t r = 0; r < header_.ranks; ++r) {
      std::vector<std::byte>& all = start_.emplace_back(c_.count * size_);
      for (std::size_t i = 0; i < all.size(); i += 4) {
        const auto value = static_cast<std::uint32_t>(values());
        std::memcpy(all.data() + i, &value, 4);
      }
      add_buffers(r);
    }
  }

  ExecutionBuffers memory_of(std::uint32_t r) const {
    const Buffers& b = buffers_[r];
    return {b.input.data(), b.input.first, b.output.data(), b.output.first, c_.count};
  }

  std::string finish(std::vector<std::unique_ptr<Execution>>& executions) {
    if (std::string wrong = drive(network_, executions); !wrong.empty()) return wrong;
    for (std::uint32_t r = 0; r < header_.ranks; ++r) {
      if (std::string wrong = judge(r); !wrong.empty()) return fmt::format("rank {}: {}", r, wrong);
    }
    return {};
  }

  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  // Elements [first, end) of the vector, with a guard on both sides.
  struct Window {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::shared_ptr<std::vector<std::byte>> memory{};
    std::size_t offset = 0;

    std::byte* data() const { return memory == nullptr ? nullptr : memory->data() + offset; }
  };
  struct Buffers {
    Window input;
    Window output;
  };

  enum class Part : std::uint8_t { kAll, kOwnBlock, kNothing };
  Part input_part(std::uint32_t r) const {
    switch (header_.collective) {
      case Collective::kAllGather:
      case Collective::kGather:
        return Part::kOwnBlock;
      case Collective::kBroadcast:
      case Collective::kScatter:
        return r == header_.root ? Part::kAll : Part::kNothing;
      default:
        return Part::kAll;
    }
  }
  Part output_part(std::uint32_t r) const {
    switch (header_.collective) {
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return Part::kOwnBlock;
      case Collective::kReduce:
      case Collective::kGather:
        return r == header_.root ? Part::kAll : Part::kNothing;
      default:
        return Part::kAll;
    }
  }

  std::uint64_t width() const { return c_.count / header_.ranks; }
  Window window(Part part, std::uint32_t r) const {
    if (part == Part::kOwnBlock) return {.first = r * width(), .end = (r + 1) * width()};
    return {.first = 0, .end = part == Part::kAll ? c_.count : 0};
  }
  void allocate(Window& w) const {
    w.memory = std::make_shared<std::vector<std::byte>>((w.end - w.first) * size_ + 2 * kGuard, kGuardByte);
    w.offset = kGuard;
  }

  void add_buffers(std::uint32_t r) {
    Buffers b{window(input_part(r), r), window(output_part(r), r)};
    const bool output_is_larger = b.output.end - b.output.first > b.input.end - b.input.first;
    Window& larger = output_is_larger ? b.output : b.input;
    Window& smaller = output_is_larger ? b.input : b.output;
    allocate(larger);
    if (!c_.in_place) {
      allocate(smaller);
    } else if (smaller.end > smaller.first) {
      smaller.memory = larger.memory;
      smaller.offset = larger.offset + (smaller.first - larger.first) * size_;
    }
    if (b.input.end > b.input.first) {
      std::memcpy(b.input.data(), start_[r].data() + b.input.first * size_, (b.input.end - b.input.first) * size_);
    }
    buffers_.push_back(b);
  }

  std::string judge(std::uint32_t r) const {
    const Buffers& b = buffers_[r];
    for (const Window* w : {&b.input, &b.output}) {
      if (w->memory == nullptr) continue;
      const std::vector<std::byte>& m = *w->memory;
      const auto kept = [](std::byte x) { return x == kGuardByte; };
      if (!std::all_of(m.begin(), m.begin() + kGuard, kept) || !std::all_of(m.end() - kGuard, m.end(), kept)) {
        return "memory outside the buffers was touched";
      }
    }
    const std::size_t input_bytes = (b.input.end - b.input.first) * size_;
    const bool writes_over = c_.in_place && b.output.end > b.output.first;
    if (input_bytes > 0 && !writes_over &&
        std::memcmp(b.input.data(), start_[r].data() + b.input.first * size_, input_bytes) != 0) {
      return "the input was changed";
    }
    for (std::uint64_t e = b.output.first; e < b.output.end; ++e) {
      const std::uint64_t got = element(b.output.data() + (e - b.output.first) * size_);
      if (got != promised(r, e)) return fmt::format("element {} of {} is wrong", e, c_.count);
    }
    return {};
  }

  std::uint64_t element(const std::byte* from) const {
    std::uint64_t value = 0;
    std::memcpy(&value, from, size_);
    return value;
  }
  std::uint64_t started(std::uint64_t r, std::uint64_t e) const { return element(start_[r].data() + e * size_); }

  std::uint64_t promised(std::uint32_t r, std::uint64_t e) const {
    switch (header_.collective) {
      case Collective::kBroadcast:
      case Collective::kScatter:
        return started(header_.root, e);
      case Collective::kAllGather:
      case Collective::kGather:
        return started(e / width(), e);
      case Collective::kAllToAll:
        return started(e / width(), e % width() + r * width());
      default:
        break;
    }
    std::uint64_t sum = 0;
    for (std::uint32_t other = 0; other < header_.ranks; ++other) sum += started(other, e);
    return size_ == 8 ? sum : static_cast<std::uint32_t>(sum);
  }

  const CollectiveCase c_;
  const PlanHeader& header_;
  const std::size_t size_;
  MemoryNetwork network_;
  TinyDevice device_;
  Pool pool_;
  std::vector<std::vector<std::byte>> start_;  // the vector of each rank, whether it holds all of it or not
  std::vector<Buffers> buffers_;
  std::uint64_t messages_ = 0;
};

}  // namespace r2ccl::example
