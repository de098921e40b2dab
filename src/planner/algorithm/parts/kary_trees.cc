#include "planner/algorithm/parts/kary_trees.h"

#include <algorithm>
#include <numeric>

namespace r2ccl {
namespace {

// Servers in breadth-first order; order[0] is the root and the first `interior` have `degree` children, the next one
// `rest`.
TreeShape hang(std::span<const std::uint32_t> order, std::uint32_t interior, std::uint32_t degree, std::uint32_t rest) {
  TreeShape shape{.root = order[0], .parent = std::vector<std::uint32_t>(order.size()), .weight = 0};
  shape.parent[shape.root] = shape.root;
  std::size_t child = 1;
  for (std::size_t i = 0; i < order.size() && child < order.size(); ++i) {
    std::uint32_t children = i < interior ? degree : i == interior ? rest : 0;
    if (i == 0) ++children;
    for (; children > 0 && child < order.size(); --children) shape.parent[order[child++]] = order[i];
  }
  return shape;
}

}  // namespace

std::vector<TreeShape> kary_trees(std::span<const double> rho, std::uint32_t degree, std::uint32_t count) {
  const auto q = static_cast<std::uint32_t>(rho.size());
  const std::uint32_t inner_edges = q - 2;  // the sum of (degree in the tree - 1)
  const std::uint32_t interior = inner_edges / degree;
  const std::uint32_t rest = inner_edges % degree;
  std::vector<double> credit(q, 0);
  std::vector<std::uint32_t> order(q);
  std::vector<TreeShape> shapes;
  for (std::uint32_t tree = 0; tree < count; ++tree) {
    for (std::uint32_t server = 0; server < q; ++server) credit[server] += rho[server] * inner_edges;
    // Leaves in rotation, so that they do not always hang under the same parents.
    for (std::uint32_t i = 0; i < q; ++i) order[i] = (i + tree) % q;
    const std::uint32_t chosen = std::max(1U, interior + (rest > 0 ? 1 : 0));
    std::partial_sort(order.begin(), order.begin() + chosen, order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return credit[a] != credit[b] ? credit[a] > credit[b] : a < b;
    });
    std::sort(order.begin() + chosen, order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return (a + q - tree % q) % q < (b + q - tree % q) % q; });
    for (std::uint32_t i = 0; i < interior; ++i) credit[order[i]] -= degree;
    if (rest > 0) credit[order[interior]] -= rest;
    shapes.push_back(hang(order, interior, degree, rest));
    shapes.back().weight = 1.0 / count;
  }
  return shapes;
}

}  // namespace r2ccl
