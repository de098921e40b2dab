#pragma once
// How a collective's data is cut. Pieces are shares of the data, not byte counts, so that one schedule serves every
// size.
//
// The data of a collective is one vector that all ranks address alike: for all_reduce, broadcast and reduce the vector
// itself, for the others its blocks in rank order (what all_gather leaves on every rank). A rank whose input or output
// buffer is only its own block addresses that block at its place in the vector; that is also what NCCL's in-place calls
// mean.

#include <cstdint>
#include <vector>

namespace r2ccl {

// A run of neighbouring pieces.
struct Span {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
  friend bool operator==(const Span&, const Span&) = default;
};

struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

struct Layout {
  // Piece i is [bounds[i], bounds[i + 1]) of bounds.back(); never falling; bounds[0] = 0. A piece may be empty.
  std::vector<std::uint64_t> bounds{};
  std::uint32_t segments = 1;
  // Outside: the vector is cut into segments, each segment into pieces, so a span of pieces is contiguous within a
  // segment. Inside: the vector is cut into pieces, each span of one piece into segments. Then spans of several pieces
  // have one segment.
  enum class Order : std::uint8_t { kSegmentsOutside, kSegmentsInside };
  Order order = Order::kSegmentsOutside;
  // What steps may name besides single pieces: span number pieces() + j is spans[j]; numbers below pieces() are the
  // pieces.
  std::vector<Span> spans{};

  std::uint32_t pieces() const { return static_cast<std::uint32_t>(bounds.size()) - 1; }
  std::uint32_t span_count() const { return pieces() + static_cast<std::uint32_t>(spans.size()); }
  Span span(std::uint32_t number) const { return number < pieces() ? Span{number, 1} : spans[number - pieces()]; }
  // Share of the data in one segment of a span; the sum over all pieces and segments is 1.
  double share(std::uint32_t span_number) const;
  // The elements of a segment of a span when the vector has `count` elements. Ranges of pieces and segments tile the
  // vector.
  ElementRange range(std::uint32_t span_number, std::uint32_t segment, std::uint64_t count) const;

  static Layout equal(std::uint32_t pieces, std::uint32_t segments = 1);
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Cumulative integer bounds for non-negative weights; a weight of zero gives an empty piece. All zero is not allowed.
// The sum of the result is `unit`. For equal pieces use Layout::equal(), which is exact.
std::vector<std::uint64_t> piece_bounds(const std::vector<double>& weights,
                                        std::uint64_t unit = std::uint64_t{1} << 24);

}  // namespace r2ccl
