#include "sim/study/proof_key.h"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace r2ccl::sim {
namespace {

// Numbers one behind the other, small ones in one byte. Every list says its length first, so no two schedules have
// the same bytes. The members of a struct are named all at once: one that is new does not compile until it is
// written, too.
class Key final {
 public:
  void add(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<char>(number | 0x80));
    bytes_.push_back(static_cast<char>(number));
  }
  void add_signed(std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    add(bits << 1 ^ (number < 0 ? UINT64_MAX : 0));
  }
  template <class Enum>
    requires std::is_enum_v<Enum>
  void add(Enum value) {
    add(static_cast<std::uint64_t>(value));
  }

  void add(const Index& index) {
    const auto& [base, by_outer, by_inner, modulo, scale, offset] = index;
    const bool number_only = index == fixed(base);
    add(std::uint64_t{number_only});
    if (number_only) return add_signed(base);
    for (const std::int32_t number : {base, by_outer, by_inner, scale, offset}) add_signed(number);
    add(modulo);
  }
  void add(const Operand& operand) {
    const auto& [buffer, slot] = operand;
    add(buffer);
    add(slot);
  }
  void add(const Guard& guard) {
    const auto& [value, equals] = guard;
    add(value);
    add_signed(equals);
  }
  void add(const Wait& wait) {
    const auto& [lane, step, outer_offset, one_inner, inner_offset] = wait;
    add(lane);
    add(step);
    add_signed(outer_offset);
    add(std::uint64_t{one_inner});
    add_signed(inner_offset);
  }
  void add(const Step& step) {
    const auto& [kind, from, to, channel_in, channel_out, span, segment, source, destination, has_first, first_source,
                 outer_begin, outer_end, guards, waits] = step;
    add(kind);
    for (const Index* index : {&from, &to, &span, &segment}) add(*index);
    add(channel_in);
    add(channel_out);
    add(source);
    add(destination);
    add(std::uint64_t{has_first});
    add(first_source);
    add(outer_begin);
    add(outer_end + 1);  // mostly without end: one byte
    add_all(guards);
    add_all(waits);
  }
  void add(const Lane& lane) {
    const auto& [name, outer, inner, inner_begin, inner_end, rail, steps] = lane;
    (void)name;
    add_signed(rail);  // says nothing about the proof, but the lanes are kept beside it
    add(outer);
    add(inner);
    add(inner_begin);
    add(inner_end + 1);
    add_all(steps);
  }
  void add(const Span& span) {
    const auto& [first, count] = span;
    add(first);
    add(count);
  }
  // Steps on empty pieces do nothing, so which pieces are empty belongs to it.
  void add(const Layout& layout, bool with_sizes) {
    const auto& [bounds, segments, order, spans] = layout;
    add(bounds.size());
    for (std::size_t i = 1; i < bounds.size(); ++i) {
      const std::uint64_t size = bounds[i] - bounds[i - 1];
      add(with_sizes ? size : std::uint64_t{size > 0});
    }
    add(segments);
    add(order);
    add_all(spans);
  }
  void add(const PlanHeader& header) {
    const auto& [collective, algorithm, ranks, ranks_per_server, root, layout, slots, scratch_slots, shares,
                 nic_of_rail] = header;
    (void)algorithm;
    (void)shares;
    (void)nic_of_rail;
    add(collective);
    add(ranks);
    add(ranks_per_server);
    add(root);
    add(layout, collective == Collective::kAllToAll);
    add(slots);
    add(scratch_slots);
  }
  template <class T>
  void add_all(const std::vector<T>& all) {
    add(all.size());
    for (const T& one : all) add(one);
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace

std::string proof_key(const Schedule& schedule) {
  Key key;
  key.add(schedule.header);
  key.add(schedule.lanes.size());
  for (const std::vector<Lane>& lanes : schedule.lanes) key.add_all(lanes);
  return key.take();
}

}  // namespace r2ccl::sim
