#pragma once
// What can be said about a schedule without running it: that its numbers are in bounds and its work is bounded, so that
// the rest of the checker may use them without fear; and how its vector is cut into cells.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"

namespace r2ccl {

// Where a rank has a buffer: the whole vector, the whole vector at the root only, or its own block.
enum class Window : std::uint8_t { kAll, kRoot, kOwnBlock };
struct Windows {
  Window input = Window::kAll;
  Window output = Window::kAll;
};
Windows windows_of(Collective collective);
bool has_blocks(Collective collective);

// The vector as cells; a cell is one piece in one segment. Pieces without a share are left out, since steps on them do
// nothing.
struct Geometry {
  std::uint32_t pieces = 0;
  std::uint32_t segments = 0;
  std::vector<Span> spans;            // by span number, in pieces of this geometry; count 0: nothing to do
  std::vector<std::uint32_t> number;  // of a piece in the layout
  std::vector<std::uint32_t> owner;   // rank whose block a piece is in; 0 without blocks
  std::vector<std::uint32_t> place;   // of a piece in its block
  std::uint32_t scratch_width = 0;    // pieces that a scratch slot can hold

  std::uint32_t cells() const { return pieces * segments; }
  std::uint32_t cell(std::uint32_t piece, std::uint32_t segment) const { return segment * pieces + piece; }
};

// Where in the order of a lane a step is: positions grow along the lane.
struct LoopShape {
  explicit LoopShape(const Lane& lane);

  struct Place {
    std::uint32_t step = 0;
    std::uint32_t outer = 0;
    std::uint32_t inner = 0;
  };
  bool inside(std::uint32_t step) const { return step >= begin && step < end; }
  std::uint64_t position(std::uint32_t step, std::uint64_t outer, std::uint64_t inner) const {
    const std::uint64_t base = outer * per_outer;
    if (step < begin) return base + step;
    if (step < end) return base + begin + inner * (end - begin) + (step - begin);
    return base + begin + std::uint64_t{inner_count} * (end - begin) + (step - end);
  }
  Place place(std::uint64_t position) const;

  std::uint32_t begin = 0;  // of the inner loop; both are the number of steps where there is none
  std::uint32_t end = 0;
  std::uint32_t inner_count = 1;
  std::uint32_t outer_count = 1;
  std::uint64_t per_outer = 0;  // steps visited in one outer iteration
};

// kMisuse with one sentence. After it: indices in Wait, Span and Lane are valid, evaluating any Index can not overflow,
// and the number of visited steps and of cells is bounded. Indices of peers, spans, segments and slots are checked
// where they are used.
Result<Geometry> shape_of(const Schedule& schedule);

}  // namespace r2ccl
