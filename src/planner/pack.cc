// pack_trees(): the linear program "pack spanning trees, every NIC has a capacity" by column generation. The dual
// prices of the NICs say which tree is cheapest; it enters the basis of a small simplex, until no tree is cheaper than
// what it brings. Undirected trees suffice: reducing up and broadcasting down the same tree loads both directions of a
// NIC with its number of tree edges.
//
// Rows are NICs (at most 16 x 8 or so), and a tree is priced in O(q^2 m), so this takes milliseconds, which
// communicators leave to a thread that has the time (comm/agreement/plan_source.h). The cheapest spanning tree under
// any prices also proves a bound on all packings, which tells when to stop.
#include "planner/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "planner/bounds.h"
#include "planner/rails.h"

namespace r2ccl {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
// Fitted stars this close to the pooled bound are taken as they are: even shares, depth 1.
constexpr double kStarsClose = 1.002;
// A tree enters when it is cheaper than its worth by this; the packing is then as close to the optimum.
constexpr double kGain = 1e-3;
// What a pivot costs grows with the square of the NICs: 14 us for 16 x 8. Random heavy damage takes up to
// 500 pivots (2 ms) at q = 8, and about 400, at most 3,500 (40 ms), at q = 16.
constexpr int kPivots = 6000;
constexpr double kCalm = 0.7;  // see improve()
constexpr double kZero = 1e-9;
// Lighter shapes are dropped; pieces that small only cost messages.
constexpr double kLeastWeight = 1e-3;

struct PackedTree {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> parent;
  std::vector<std::uint32_t> rail;  // of the edge to the parent
  double price = kFar;
};

// What an edge costs on its cheapest rail, under the present NIC prices.
class Edges {
 public:
  Edges(const Cluster& cluster, const std::vector<double>& nic_price)
      : q_(cluster.servers), cost_(std::size_t{q_} * q_, kFar), rail_(cost_.size(), 0) {
    for (std::uint32_t u = 0; u < q_; ++u) {
      for (std::uint32_t v = 0; v < q_; ++v) {
        for (std::uint32_t k = 0; u != v && k < cluster.nics; ++k) {
          const double cost = nic_price[u * cluster.nics + k] + nic_price[v * cluster.nics + k];
          if (!(rail_rate(cluster, u, v, k) > 0) || !(cost < cost_[u * q_ + v])) continue;
          cost_[u * q_ + v] = cost;
          rail_[u * q_ + v] = k;
        }
      }
    }
  }
  std::uint32_t servers() const { return q_; }
  double cost(std::uint32_t u, std::uint32_t v) const { return cost_[u * q_ + v]; }

  PackedTree tree(std::uint32_t root, std::vector<std::uint32_t> parent) const {
    PackedTree t{.root = root, .parent = std::move(parent), .rail = std::vector<std::uint32_t>(q_, 0), .price = 0};
    for (std::uint32_t u = 0; u < q_; ++u) {
      if (u == root) continue;
      t.rail[u] = rail_[u * q_ + t.parent[u]];
      t.price += cost(u, t.parent[u]);
    }
    return t;
  }

 private:
  std::uint32_t q_;
  std::vector<double> cost_;
  std::vector<std::uint32_t> rail_;
};

PackedTree cheapest_star(const Edges& edges) {
  PackedTree best;
  for (std::uint32_t root = 0; root < edges.servers(); ++root) {
    PackedTree star = edges.tree(root, std::vector<std::uint32_t>(edges.servers(), root));
    if (star.price < best.price) best = std::move(star);
  }
  return best;
}

// A star whose leaves are hung under other leaves where they must, because no rail joins them to the root, or where
// that is cheaper, largest saving first. Not always the cheapest tree of depth 2 (that is hard), but one that is never
// dearer than the star.
std::vector<std::uint32_t> hang_lower(const Edges& edges, std::uint32_t root) {
  const std::uint32_t q = edges.servers();
  std::vector<std::uint32_t> parent(q, root);
  std::vector<bool> relays(q, false);
  for (std::uint32_t u = 0; u < q; ++u) {
    if (u == root || edges.cost(u, root) < kFar) continue;
    for (std::uint32_t r = 0; r < q; ++r) {
      if (edges.cost(r, root) < kFar && edges.cost(u, r) < edges.cost(u, parent[u])) parent[u] = r;
    }
    relays[parent[u]] = true;
  }
  for (;;) {
    double most = 0;
    std::uint32_t leaf = q;
    std::uint32_t relay = q;
    for (std::uint32_t u = 0; u < q; ++u) {
      if (u == root || relays[u] || parent[u] != root) continue;
      for (std::uint32_t r = 0; r < q; ++r) {
        if (r == u || r == root || parent[r] != root) continue;
        const double saving = edges.cost(u, root) - edges.cost(u, r);
        if (!(saving > most)) continue;
        most = saving;
        leaf = u;
        relay = r;
      }
    }
    if (leaf == q) return parent;
    parent[leaf] = relay;
    relays[relay] = true;
  }
}

PackedTree cheapest_low_tree(const Edges& edges) {
  PackedTree best;
  for (std::uint32_t root = 0; root < edges.servers(); ++root) {
    PackedTree low = edges.tree(root, hang_lower(edges, root));
    if (low.price < best.price) best = std::move(low);
  }
  return best;
}

std::uint32_t depth_from(std::uint32_t root, const std::vector<std::vector<std::uint32_t>>& near,
                         std::vector<std::uint32_t>& parent) {
  std::uint32_t depth = 0;
  std::vector<std::uint32_t> level{root};
  parent.assign(near.size(), root);
  while (!level.empty()) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t u : level) {
      for (const std::uint32_t v : near[u]) {
        if (v == parent[u]) continue;
        parent[v] = u;
        next.push_back(v);
      }
    }
    depth += !next.empty();
    level = std::move(next);
  }
  return depth;
}

// The minimum spanning tree, rooted where it is lowest. Price kFar: the rails do not join all servers.
PackedTree cheapest_tree(const Edges& edges) {
  const std::uint32_t q = edges.servers();
  std::vector<double> distance(q, kFar);
  std::vector<std::uint32_t> to(q, 0);
  std::vector<bool> joined(q, false);
  std::vector<std::vector<std::uint32_t>> near(q);
  for (std::uint32_t u = 0, count = 1;; ++count) {
    joined[u] = true;
    if (count == q) break;
    std::uint32_t next = q;
    for (std::uint32_t v = 0; v < q; ++v) {
      if (joined[v]) continue;
      if (edges.cost(u, v) < distance[v]) {
        distance[v] = edges.cost(u, v);
        to[v] = u;
      }
      if (distance[v] < kFar && (next == q || distance[v] < distance[next])) next = v;
    }
    if (next == q) return {};
    near[next].push_back(to[next]);
    near[to[next]].push_back(next);
    u = next;
  }
  std::vector<std::uint32_t> parent;
  std::uint32_t root = 0;
  std::uint32_t lowest = q;
  for (std::uint32_t r = 0; r < q; ++r) {
    const std::uint32_t depth = depth_from(r, near, parent);
    if (depth >= lowest) continue;
    lowest = depth;
    root = r;
  }
  depth_from(root, near, parent);
  return edges.tree(root, std::move(parent));
}

// Primal simplex for: maximise the sum of tree weights, every NIC's load at most its rate. Keeps the inverse of the
// basis.
class Packer {
 public:
  Packer(const Cluster& cluster, const std::vector<double>& capacity)
      : cluster_(cluster),
        rows_(capacity.size()),
        capacity_(capacity),
        inverse_(rows_ * rows_, 0.0),
        amount_(capacity) {
    basic_.resize(rows_);
    for (std::size_t i = 0; i < rows_; ++i) inverse_[i * rows_ + i] = 1;
    // Equal NICs make ties that a simplex can turn in; slightly unequal ones do not, far below what is rounded later.
    for (std::size_t i = 0; i < rows_; ++i) amount_[i] *= 1 + 1e-6 * static_cast<double>((i * 37) % 101);
    price_.assign(rows_, 0.0);
    best_price_.assign(rows_, 0.0);
    worthwhile(std::vector<double>(rows_, 1.0));
  }

  // One pivot. False when the packing is optimal up to kGain.
  bool improve() {
    if (weight() >= (1 - kGain) * most()) return false;
    const auto least = std::min_element(price_.begin(), price_.end());
    if (*least < 0) {
      return pivot(column_of_slack(static_cast<std::size_t>(least - price_.begin())), {});
    }
    // Prices near the best known ones lead to useful trees much sooner than the present ones, which jump about.
    std::vector<double> calm(rows_);
    for (std::size_t i = 0; i < rows_; ++i) calm[i] = kCalm * best_price_[i] + (1 - kCalm) * price_[i];
    std::optional<PackedTree> tree = worthwhile(calm);
    if (!tree) tree = worthwhile(price_);
    if (!tree) return false;
    const std::vector<double> column = column_of(*tree);
    return pivot(column, std::move(tree));
  }
  double weight() const {
    double sum = 0;
    each([&](const PackedTree&, double weight) { sum += weight; });
    return sum;
  }
  // No packing weighs more.
  double most() const { return std::min(1.0, most_proven_); }
  template <class Function>
  void each(Function f) const {
    for (std::size_t i = 0; i < rows_; ++i) {
      if (basic_[i] && amount_[i] > 0) f(*basic_[i], amount_[i]);
    }
  }

 private:
  // Of the trees that are cheap under `nic_price`, the lowest kind that is worth its present price; also learns from
  // the bound that these prices prove: no packing weighs more than the worth of all NICs over the price of the cheapest
  // tree.
  std::optional<PackedTree> worthwhile(const std::vector<double>& nic_price) {
    const Edges edges(cluster_, nic_price);
    PackedTree any = cheapest_tree(edges);
    double worth = 0;
    for (std::size_t i = 0; i < rows_; ++i) worth += nic_price[i] * capacity_[i];
    if (worth < most_proven_ * any.price) {
      most_proven_ = worth / any.price;
      for (std::size_t i = 0; i < rows_; ++i) best_price_[i] = nic_price[i] / any.price;
    }
    if (PackedTree star = cheapest_star(edges); present_price(star) < 1 - kGain) return star;
    if (PackedTree low = cheapest_low_tree(edges); present_price(low) < 1 - kGain) return low;
    if (present_price(any) < 1 - kGain) return any;
    return {};
  }
  double present_price(const PackedTree& tree) const {
    if (!(tree.price < kFar)) return kFar;
    double sum = 0;
    for (std::uint32_t u = 0; u < cluster_.servers; ++u) {
      if (u == tree.root) continue;
      sum += price_[u * cluster_.nics + tree.rail[u]] + price_[tree.parent[u] * cluster_.nics + tree.rail[u]];
    }
    return sum;
  }
  std::vector<double> column_of_slack(std::size_t row) const {
    std::vector<double> column(rows_);
    for (std::size_t i = 0; i < rows_; ++i) column[i] = inverse_[i * rows_ + row];
    return column;
  }
  std::vector<double> column_of(const PackedTree& tree) const {
    std::vector<double> column(rows_, 0.0);
    const auto add = [&](std::size_t row) {
      for (std::size_t i = 0; i < rows_; ++i) column[i] += inverse_[i * rows_ + row];
    };
    for (std::uint32_t u = 0; u < cluster_.servers; ++u) {
      if (u == tree.root) continue;
      add(std::size_t{u} * cluster_.nics + tree.rail[u]);
      add(std::size_t{tree.parent[u]} * cluster_.nics + tree.rail[u]);
    }
    return column;
  }
  // Brings in a tree, or a slack. `column` is in terms of the basis. False where no NIC limits it, which only rounding
  // can cause: what is packed stays as it is.
  bool pivot(const std::vector<double>& column, std::optional<PackedTree> entering);

  const Cluster& cluster_;
  std::size_t rows_;
  std::vector<double> capacity_;
  std::vector<double> inverse_;                   // [row * rows + NIC]
  std::vector<double> amount_;                    // of the basic variable of a row
  std::vector<std::optional<PackedTree>> basic_;  // nothing: a slack
  std::vector<double> price_;                     // of NICs
  std::vector<double> best_price_;                // proved `most_proven_`; the cheapest tree costs 1
  double most_proven_ = kFar;
};

bool Packer::pivot(const std::vector<double>& column, std::optional<PackedTree> entering) {
  std::size_t out = rows_;
  for (std::size_t i = 0; i < rows_; ++i) {
    if (column[i] > kZero && (out == rows_ || amount_[i] * column[out] < amount_[out] * column[i])) out = i;
  }
  if (out == rows_) return false;
  basic_[out] = std::move(entering);
  double* row_out = inverse_.data() + out * rows_;
  amount_[out] /= column[out];
  for (std::size_t j = 0; j < rows_; ++j) row_out[j] /= column[out];
  for (std::size_t i = 0; i < rows_; ++i) {
    if (i == out || column[i] == 0) continue;
    amount_[i] = std::max(0.0, amount_[i] - column[i] * amount_[out]);
    double* row = inverse_.data() + i * rows_;
    for (std::size_t j = 0; j < rows_; ++j) row[j] -= column[i] * row_out[j];
  }
  std::fill(price_.begin(), price_.end(), 0.0);
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; basic_[i] && j < rows_; ++j) price_[j] += inverse_[i * rows_ + j];
  }
  for (double& price : price_) price = price < 0 && price > -kZero ? 0 : price;
  return true;
}

TreeShape* shape_of(std::vector<TreeShape>& shapes, const PackedTree& tree) {
  for (TreeShape& shape : shapes) {
    if (shape.root == tree.root && shape.parent == tree.parent) return &shape;
  }
  shapes.push_back({.root = tree.root, .parent = tree.parent, .weight = 0});
  return &shapes.back();
}

// The packed trees as shapes with weights, and how the pairs use rails.
void unpack(const Cluster& cluster, const Packer& packer, TreePacking& packing) {
  double all = 0;
  packer.each([&](const PackedTree& tree, double weight) {
    shape_of(packing.shapes, tree)->weight += weight;
    all += weight;
  });
  double kept = 0;
  for (const TreeShape& shape : packing.shapes) kept += shape.weight < kLeastWeight * all ? 0 : shape.weight;

  PairTraffic traffic(cluster.servers, cluster.nics);
  packer.each([&](const PackedTree& tree, double weight) {
    if (shape_of(packing.shapes, tree)->weight < kLeastWeight * all) return;
    for (std::uint32_t u = 0; u < cluster.servers; ++u) {
      if (u != tree.root) traffic.of(u, tree.parent[u])[tree.rail[u]] += weight / kept;
    }
  });
  std::erase_if(packing.shapes, [&](const TreeShape& shape) { return shape.weight < kLeastWeight * all; });
  for (TreeShape& shape : packing.shapes) shape.weight /= kept;
  packing.shares = round_shares(cluster, traffic);
  packing.load = load_of(cluster, packing.shares, traffic);
}

std::vector<TreeShape> star_shapes(const std::vector<double>& rho) {
  std::vector<TreeShape> shapes;
  for (std::uint32_t root = 0; root < rho.size(); ++root) {
    if (rho[root] <= 0) continue;
    shapes.push_back({.root = root, .parent = std::vector<std::uint32_t>(rho.size(), root), .weight = rho[root]});
  }
  return shapes;
}

// T* of the NICs as far as rails let them be used: no packing is better.
double pooled_bound(const Cluster& cluster) {
  const std::vector<double> usable = usable_rates(cluster);
  std::vector<double> bandwidth(cluster.servers);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    const auto first = usable.begin() + static_cast<std::ptrdiff_t>(u) * cluster.nics;
    bandwidth[u] = std::accumulate(first, first + cluster.nics, 0.0);
  }
  return allreduce_bound(std::span<const double>(bandwidth));
}

}  // namespace

Result<TreePacking> pack_trees(const Cluster& cluster) {
  const std::uint32_t q = cluster.servers;
  if (q > kPackServers) {
    return fail(Fault::kMisuse, fmt::format("trees are packed for at most {} servers; there are {}", kPackServers, q));
  }
  if (q > 1 && !(cheapest_tree(Edges(cluster, std::vector<double>(cluster.rate.size(), 1.0))).price < kFar)) {
    return fail(Fault::kMisuse, "the working rails do not join all servers, not even over other servers");
  }
  TreePacking packing;
  packing.bound = pooled_bound(cluster);
  Result<RailPlan> stars = fit_rails(cluster);
  if (stars && stars->load <= kStarsClose * packing.bound) {
    packing.shapes = star_shapes(stars->rho);
    packing.shares = std::move(stars->shares);
    packing.load = stars->load;
  } else {
    std::vector<double> capacity(cluster.rate);
    for (double& c : capacity) c *= packing.bound;
    Packer packer(cluster, capacity);
    for (int pivots = 0; pivots < kPivots && packer.improve();) ++pivots;
    packing.bound = std::max(packing.bound, packing.bound / packer.most());
    unpack(cluster, packer, packing);
  }
  std::stable_sort(packing.shapes.begin(), packing.shapes.end(),
                   [](const TreeShape& a, const TreeShape& b) { return a.weight > b.weight; });
  return packing;
}

}  // namespace r2ccl
