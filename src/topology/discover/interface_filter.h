#pragma once
// Decides which interfaces a user means, by the rules of NCCL_SOCKET_IFNAME.
//
//   "eth,ib"      interfaces whose names begin so        "=eth0,eth1"   exactly these
//   "^docker,lo"  all but those that begin so            "^=eth0"       all but exactly these
//   ""            all but loopback and names that begin with "docker"

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace r2ccl {

// The names between commas, without surrounding blanks. Empty ones are kept, so that callers can refuse them.
std::vector<std::string> split_list(std::string_view text);

class InterfaceFilter final {
 public:
  // kMisuse when a name is empty.
  static Result<InterfaceFilter> parse(std::string_view text);
  bool matches(std::string_view name, bool loopback) const;

 private:
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> words_;
};

}  // namespace r2ccl
