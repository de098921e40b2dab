#pragma once
// What `ip` and `tc` do, asked of the kernel directly, in one network namespace.
//
// Failure  One sentence: what was asked, of which interface, in which namespace, and what the kernel or libnl said.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "lab/lab_plan.h"

struct nl_sock;

namespace r2ccl::lab {

inline constexpr Duration kNetlinkMax = 10s;  // for one answer

struct LinkInfo {
  int index = 0;
  std::string name;
  bool up = false;
  bool carrier = false;
  int bridge = 0;  // index of the one it is in; 0: none
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

class Netlink final {
 public:
  // `where` is the namespace's name, for people.
  static Result<Netlink> open(const Fd& name_space, const std::string& where);

  Status add_bridge(const std::string& name);
  // One end here, the other in another namespace.
  Status add_veth(const std::string& name, const std::string& other_name, const Fd& other_namespace);
  Status remove_link(int index);  // one that is gone is fine
  Status set_up(const std::string& name, bool up);
  // 0: out of whichever it is in.
  Status set_bridge(const std::string& name, int bridge);
  // In the lab's network of that address.
  Status add_address(const std::string& name, const Address& address);
  // Replaces what was there.
  Status set_shape(const std::string& name, const Shape& shape);
  // What is sent from `address` to any address of the lab leaves by `name`. A NIC that was down has lost the route: add
  // it again.
  Status add_source_rule(const Address& address, std::uint64_t table);
  Status set_source_route(const std::string& name, const Address& address, std::uint64_t table);

  Result<std::vector<LinkInfo>> links();
  Result<LinkInfo> link(const std::string& name);
  // 0: not shaped.
  Result<std::uint64_t> rate_bytes_s(const std::string& name);

 private:
  struct Close {
    void operator()(nl_sock* socket) const;
  };
  Netlink(std::unique_ptr<nl_sock, Close> socket, std::string where);
  // The answer of a libnl call, negative when it failed.
  Status answer(int code, std::string_view what, std::string_view of) const;
  Result<int> index_of(const std::string& name);

  std::unique_ptr<nl_sock, Close> socket_;
  std::string where_;
};

}  // namespace r2ccl::lab
