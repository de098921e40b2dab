#include "planner/algorithm/parts/port_lists.h"

#include <algorithm>

#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kOutLane = 0;
constexpr std::uint32_t kInLane = 1;

}  // namespace

PortLists::PortLists(std::uint32_t pieces, std::size_t messages_each_way) : made_by_(pieces, kNotReceived) {
  out_.name = "out";
  in_.name = "in";
  out_.steps.reserve(messages_each_way);
  in_.steps.reserve(messages_each_way);
}

void PortLists::receive(std::uint32_t from, std::uint32_t piece, Arrival arrival) {
  const Where where{fixed(piece), fixed(0)};
  made_by_[piece] = static_cast<std::uint32_t>(in_.steps.size());
  in_.steps.push_back(arrival == Arrival::kAdded ? recv_reduce(fixed(from), where, Buffer::kInput, Buffer::kOutput)
                                                 : recv(fixed(from), where, Buffer::kOutput));
}

void PortLists::send(std::uint32_t to, std::uint32_t piece) {
  const std::uint32_t made_by = made_by_[piece];
  const bool own = made_by == kNotReceived;
  out_.steps.push_back(r2ccl::send(fixed(to), {fixed(piece), fixed(0)}, own ? Buffer::kInput : Buffer::kOutput));
  std::vector<Wait>& waits = out_.steps.back().waits;
  const Mark needed{std::max(fence_.in, own ? 0 : made_by + 1), fence_.out};
  if (needed.in > waited_.in) waits.push_back({.lane = kInLane, .step = needed.in - 1});
  if (needed.out > waited_.out) waits.push_back({.lane = kOutLane, .step = needed.out - 1});
  waited_ = {std::max(waited_.in, needed.in), std::max(waited_.out, needed.out)};
}

void PortLists::fence(std::uint32_t back, bool both) {
  marks_.push_back({static_cast<std::uint32_t>(in_.steps.size()), static_cast<std::uint32_t>(out_.steps.size())});
  if (marks_.size() <= back) return;
  const Mark& mark = marks_[marks_.size() - 1 - back];
  fence_ = {both ? mark.in : 0, mark.out};
}

std::vector<Lane> PortLists::take() {
  std::vector<Lane> lanes;
  lanes.push_back(std::move(out_));
  lanes.push_back(std::move(in_));
  return lanes;
}

}  // namespace r2ccl
