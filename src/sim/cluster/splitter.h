#pragma once
// Divides messages over NICs by fixed fractions, which hold over time and not for each message: a NIC that got less
// than its fraction of one message gets more of the next. Each kind of message has a row of fractions.

#include <cstdint>
#include <span>
#include <vector>

namespace r2ccl::sim {

class Splitter final {
 public:
  struct Part {
    std::uint32_t nic = 0;
    double bytes = 0;
  };

  Splitter() = default;
  // `fraction` is rows x nics; a row sums to 1, or to 0 if it is not used. Parts are at least `smallest` bytes, unless
  // the message is smaller.
  Splitter(std::uint32_t nics, double smallest, std::vector<double> fraction);

  bool empty() const { return fraction_.empty(); }
  const double* fractions(std::size_t row) const { return fraction_.data() + row * nics_; }
  // The NICs with a fraction, in rising order.
  std::span<const std::uint32_t> nics(std::size_t row) const {
    return {nics_of_row_.data() + first_nic_[row], first_nic_[row + 1] - first_nic_[row]};
  }
  // Valid until the next call. Empty for a row of zeros.
  std::span<const Part> split(std::size_t row, double bytes);

 private:
  void stagger(std::size_t row);

  std::uint32_t nics_ = 0;
  double smallest_ = 0;
  std::vector<double> fraction_;
  std::vector<std::uint32_t> nics_of_row_;
  std::vector<std::uint32_t> first_nic_;  // [row], in nics_of_row_; one more
  std::vector<double> credit_;            // bytes a NIC is behind its fraction
  std::vector<Part> parts_;
};

}  // namespace r2ccl::sim
