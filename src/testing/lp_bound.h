#pragma once
// The least time per unit of data on isolated rails, found exactly by a linear program (GLPK), for tests of the
// planner. Spanning trees are packed under one capacity per NIC, in flow form with server 0 as the root: a packing of
// weight lambda exists when, for every other server, lambda can flow to it inside arc capacities f whose two directions
// together fit into the pair's traffic.

#include <glpk.h>

#include <limits>
#include <vector>

#include "topology/cluster.h"

namespace r2ccl::test {

class LpBound {
 public:
  explicit LpBound(const Cluster& cluster) : cluster_(cluster), problem_(glp_create_prob()) {
    glp_set_obj_dir(problem_, GLP_MAX);
  }
  LpBound(const LpBound&) = delete;
  LpBound& operator=(const LpBound&) = delete;
  ~LpBound() { glp_delete_prob(problem_); }

  double time() {
    lambda_ = column();
    glp_set_obj_coef(problem_, lambda_, 1);
    add_pairs();
    for (std::uint32_t target = 1; target < cluster_.servers; ++target) add_flow(target);
    glp_load_matrix(problem_, static_cast<int>(row_.size()) - 1, row_.data(), column_.data(), value_.data());
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_ON;
    if (glp_simplex(problem_, &options) != 0 || glp_get_status(problem_) != GLP_OPT) return 0;
    const double lambda = glp_get_obj_val(problem_) * scale();
    return lambda > 0 ? 1 / lambda : std::numeric_limits<double>::infinity();
  }

 private:
  struct Arc {
    std::uint32_t from, to;
    int capacity;  // column of f
  };
  double scale() const { return cluster_.nic_rate; }

  int column() {
    const int c = glp_add_cols(problem_, 1);
    glp_set_col_bnds(problem_, c, GLP_LO, 0, 0);
    return c;
  }
  int row(int type, double bound) {
    const int r = glp_add_rows(problem_, 1);
    glp_set_row_bnds(problem_, r, type, bound, bound);
    return r;
  }
  void put(int r, int c, double v) {
    row_.push_back(r);
    column_.push_back(c);
    value_.push_back(v);
  }

  void add_pairs() {
    std::vector<int> nic_row;
    for (const double rate : cluster_.rate) nic_row.push_back(row(GLP_UP, rate / scale()));
    for (std::uint32_t u = 0; u < cluster_.servers; ++u) {
      for (std::uint32_t v = u + 1; v < cluster_.servers; ++v) {
        std::vector<int> amount;
        for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
          if (cluster_.nic(u, k) <= 0 || cluster_.nic(v, k) <= 0) continue;
          amount.push_back(column());
          put(nic_row[u * cluster_.nics + k], amount.back(), 1);
          put(nic_row[v * cluster_.nics + k], amount.back(), 1);
        }
        if (amount.empty()) continue;
        arcs_.push_back({u, v, column()});
        arcs_.push_back({v, u, column()});
        const int r = row(GLP_UP, 0);
        put(r, arcs_[arcs_.size() - 2].capacity, 1);
        put(r, arcs_[arcs_.size() - 1].capacity, 1);
        for (const int a : amount) put(r, a, -1);
      }
    }
  }

  void add_flow(std::uint32_t target) {
    std::vector<int> balance(cluster_.servers, 0);
    for (std::uint32_t u = 1; u < cluster_.servers; ++u) balance[u] = row(GLP_FX, 0);
    put(balance[target], lambda_, -1);
    for (const Arc& arc : arcs_) {
      if (arc.to == 0 || arc.from == target) continue;
      const int flow = column();
      const int r = row(GLP_UP, 0);
      put(r, flow, 1);
      put(r, arc.capacity, -1);
      put(balance[arc.to], flow, 1);
      if (arc.from != 0) put(balance[arc.from], flow, -1);
    }
  }

  const Cluster& cluster_;
  glp_prob* problem_;
  int lambda_ = 0;
  std::vector<Arc> arcs_;
  std::vector<int> row_{0};  // GLPK counts from 1
  std::vector<int> column_{0};
  std::vector<double> value_{0};
};

inline double lp_bound(const Cluster& cluster) {
  return LpBound(cluster).time();
}

}  // namespace r2ccl::test
