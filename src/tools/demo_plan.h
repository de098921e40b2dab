#pragma once
// What the demo does, as values. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::tools {

inline constexpr std::uint32_t kDemoServersMax = 8;
inline constexpr std::uint32_t kDemoNicsMax = 16;

struct DemoPlan {
  std::uint32_t servers = 3;
  std::uint32_t nics = 4;
  Duration length = 8s;
  std::uint64_t nic_rate_bytes_s =
      400'000'000 / 8;            // what each NIC carries each way; loopback itself is limited by the processor
  std::vector<FaultSpec> faults;  // in the order of their beginning
};

// One of each kind, one after the other on different NICs, all healed before the end.
std::vector<FaultSpec> demo_faults(const DemoPlan& plan);

// One sentence if a fault names a server or NIC that is not there, or begins by anything but a time.
Status check_faults(const DemoPlan& plan);

Address demo_address(std::uint32_t server, std::uint32_t nic);  // 127.0.1.1 is NIC 0 of server 0

std::string begin_text(const FaultSpec& fault);  // "cable pulled"
std::string heal_text(const FaultSpec& fault);   // "cable back"

}  // namespace r2ccl::tools
