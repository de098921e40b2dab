#pragma once
// How much of the data each server owns in an all_reduce of two hops. The owner of a share is sent it by all others,
// adds it up and sends the sum back, so a server that owns rho_i moves (1 - rho_i) + rho_i (q - 1) of the data each
// way. Shares are chosen so that this is at most B_i T* for every server: then the whole takes T*, the bound for pooled
// NICs.

#include <span>
#include <vector>

namespace r2ccl {

struct Ownership {
  std::vector<double> rho;  // sums to 1
  double bound = 0;         // T* for unit data; 0 for one server
  // How unevenly the two halves load the servers, 0 (healthy) to 1: K segments cost about bound * lag * kappa / K more.
  double kappa = 0;
};

// Bandwidths are positive. One server owns all, two own half each. Every rank gets the same bits, because only
// additions, products and quotients are used, in a fixed order.
Ownership ownership(std::span<const double> bandwidth);

// The shares alone, for a given time `bound` per unit of data: server i takes min(c, max(0, B_i bound - 1)) / (q - 2),
// with the c that makes the sum 1. A bandwidth of 0 keeps a server from owning anything (q >= 3). Where the servers can
// not carry all within `bound`, their spare bandwidth is scaled to sum 1.
std::vector<double> owned_shares(std::span<const double> bandwidth, double bound);

}  // namespace r2ccl
