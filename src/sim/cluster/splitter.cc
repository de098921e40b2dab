#include "sim/cluster/splitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace r2ccl::sim {

Splitter::Splitter(std::uint32_t nics, double smallest, std::vector<double> fraction)
    : nics_(nics), smallest_(smallest), fraction_(std::move(fraction)), credit_(fraction_.size(), 0) {
  first_nic_.push_back(0);
  for (std::size_t row = 0; row < fraction_.size() / nics_; ++row) {
    stagger(row);
    for (std::uint32_t nic = 0; nic < nics_; ++nic) {
      if (fraction_[row * nics_ + nic] > 0) nics_of_row_.push_back(nic);
    }
    first_nic_.push_back(static_cast<std::uint32_t>(nics_of_row_.size()));
  }
}

// Rows start at different points of their cycle. If all did at the same, all messages of a server would turn to a slow
// NIC, whose turn comes seldom, in the same round.
void Splitter::stagger(std::size_t row) {
  constexpr double kGolden = 0.6180339887498949;
  double sum = 0;
  double used = 0;
  for (std::size_t i = row * nics_; i < (row + 1) * nics_; ++i) {
    if (fraction_[i] <= 0) continue;
    const double turn = static_cast<double>(row) * kGolden + static_cast<double>(i % nics_) / nics_;
    credit_[i] = smallest_ * (turn - std::floor(turn));
    sum += credit_[i];
    used += 1;
  }
  for (std::size_t i = row * nics_; i < (row + 1) * nics_; ++i) {
    if (fraction_[i] > 0) credit_[i] -= sum / used;
  }
}

std::span<const Splitter::Part> Splitter::split(std::size_t row, double bytes) {
  const double* const fraction = fraction_.data() + row * nics_;
  double* const credit = credit_.data() + row * nics_;
  parts_.clear();
  const std::span<const std::uint32_t> used_nics = nics(row);
  if (used_nics.size() == 1) {
    parts_.push_back({used_nics[0], bytes});
    return parts_;
  }
  bool all_large = true;
  for (const std::uint32_t k : used_nics) {
    credit[k] += fraction[k] * bytes;
    all_large &= credit[k] >= smallest_;
    parts_.push_back({k, credit[k]});
  }
  if (all_large) {
    for (const Part& part : parts_) credit[part.nic] = 0;
    return parts_;
  }
  // The NICs that are most behind, each with what it is due. The credits of a row add up to `bytes`, so nothing is left
  // over.
  std::size_t used = 0;
  for (double left = bytes; left > 0 && used < parts_.size(); ++used) {
    const auto most = std::max_element(parts_.begin() + static_cast<std::ptrdiff_t>(used), parts_.end(),
                                       [](const Part& a, const Part& b) { return a.bytes < b.bytes; });
    std::iter_swap(parts_.begin() + static_cast<std::ptrdiff_t>(used), most);
    Part& part = parts_[used];
    part.bytes = std::min(left, std::max(part.bytes, smallest_));
    if (left - part.bytes < smallest_ || used + 1 == parts_.size()) part.bytes = left;
    left -= part.bytes;
    credit[part.nic] -= part.bytes;
  }
  parts_.resize(used);
  return parts_;
}

}  // namespace r2ccl::sim
