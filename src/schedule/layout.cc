#include "schedule/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"

namespace r2ccl {
namespace {

// begin + floor(size * part / whole) without overflow.
std::uint64_t cut(std::uint64_t begin, std::uint64_t size, std::uint64_t part, std::uint64_t whole) {
  if ((size | part) >> 32 == 0) return begin + size * part / whole;  // the usual case is worth a shorter division
  __extension__ using Wide = unsigned __int128;
  return begin + static_cast<std::uint64_t>(Wide{size} * part / whole);
}

ElementRange cut(ElementRange from, std::uint64_t first, std::uint64_t last, std::uint64_t whole) {
  return {cut(from.begin, from.size(), first, whole), cut(from.begin, from.size(), last, whole)};
}

}  // namespace

double Layout::share(std::uint32_t span_number) const {
  const Span s = span(span_number);
  return static_cast<double>(bounds[s.first + s.count] - bounds[s.first]) / static_cast<double>(bounds.back()) /
         segments;
}

ElementRange Layout::range(std::uint32_t span_number, std::uint32_t segment, std::uint64_t count) const {
  R2CCL_ASSERT(span_number < span_count() && segment < segments, "a span or segment outside the layout");
  const Span s = span(span_number);
  const ElementRange all{0, count};
  if (order == Order::kSegmentsOutside) {
    return cut(cut(all, segment, segment + 1, segments), bounds[s.first], bounds[s.first + s.count], bounds.back());
  }
  return cut(cut(all, bounds[s.first], bounds[s.first + s.count], bounds.back()), segment, segment + 1, segments);
}

Layout Layout::equal(std::uint32_t pieces, std::uint32_t segments) {
  Layout layout;
  layout.bounds.resize(pieces + 1);
  std::iota(layout.bounds.begin(), layout.bounds.end(), std::uint64_t{0});
  layout.segments = segments;
  return layout;
}

std::vector<std::uint64_t> piece_bounds(const std::vector<double>& weights, std::uint64_t unit) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  R2CCL_ASSERT(sum > 0, "pieces without any weight");
  std::vector<std::uint64_t> bounds{0};
  double so_far = 0;
  for (const double weight : weights) {
    so_far += weight;
    const auto bound = static_cast<std::uint64_t>(std::llround(so_far / sum * static_cast<double>(unit)));
    bounds.push_back(weight > 0 ? std::min(unit, std::max(bound, bounds.back())) : bounds.back());
  }
  // Rounding may leave the last pieces short of the end; the last one that has a share takes the rest.
  for (std::size_t i = weights.size(); i > 0 && bounds[i] != unit; --i) {
    bounds[i] = unit;
    if (weights[i - 1] > 0) break;
  }
  return bounds;
}

}  // namespace r2ccl
