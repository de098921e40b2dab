#pragma once
// What goes into a planned call at each rank and what must come out, computed the plain way. All are pure functions of
// their arguments.

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "sim/net/collectives/collective_plan.h"

namespace r2ccl::sim {

// Where a rank's input and output are, in bytes; a rank that has none has no bytes there. In place they share a buffer.
struct CallLayout {
  std::size_t input_at = 0, input_bytes = 0;
  std::size_t output_at = 0, output_bytes = 0;
  bool shared = false;
  std::size_t shared_bytes() const { return std::max(input_at + input_bytes, output_at + output_bytes); }
};
CallLayout layout_of(const PlannedCall& call, std::uint32_t rank, std::uint32_t ranks);

// The rank's factor where the operation has one.
std::uint64_t scalar_of(std::uint64_t name, std::uint32_t rank);
// `name` makes data of different calls differ.
Bytes input_of(std::uint64_t name, const PlannedCall& call, std::uint32_t rank, std::uint32_t ranks);

// The inputs and the right outputs of all ranks of one call.
class CallTruth final {
 public:
  CallTruth(std::uint64_t name, const PlannedCall& call, std::uint32_t ranks);
  const Bytes& input(std::uint32_t rank) const { return inputs_[rank]; }
  Bytes output(std::uint32_t rank) const;

 private:
  PlannedCall call_;
  std::uint32_t ranks_;
  std::vector<Bytes> inputs_;
  Bytes reduced_;
};

}  // namespace r2ccl::sim
