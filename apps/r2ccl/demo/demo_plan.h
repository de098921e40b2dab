#pragma once
// What the demo does, as a value: how many servers and NICs, which faults when, and how all of it is called. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"
#include "lab/lab_plan.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::apps {

inline constexpr std::uint32_t kDemoServersMax = 8;
inline constexpr std::uint32_t kDemoNicsMax = 16;

struct DemoPlan {
  std::string name = "demo";  // of the lab
  std::uint32_t servers = 4;  // one rank each
  std::uint32_t nics = 4;
  Duration length = 21s;
  std::uint64_t nic_rate_bytes_s = 500'000'000 / 8;  // what each NIC carries each way
  std::uint64_t bytes = 8ULL << 20;                  // that each AllReduce sums
  std::vector<FaultSpec> faults;                     // in the order of their beginning
  bool in_lab = false;                               // false: loopback NICs, faults injected inside the library
};

// A cable, a black-hole and a slow NIC, one after the other on different NICs, all healed before the end.
std::vector<FaultSpec> demo_faults(const DemoPlan& plan);

// One sentence if a fault names a server or NIC that is not there, or begins by anything but a time.
Status check_faults(const DemoPlan& plan);

lab::LabPlan lab_plan(const DemoPlan& plan);
Address demo_address(std::uint32_t server, std::uint32_t nic);  // on loopback: 127.0.1.1 is NIC 0 of server 0

std::string where_text(const DemoPlan& plan);    // "4 servers with 4 NICs of 500 mbit/s"
std::string nic_text(const FaultSpec& fault);    // "server 0 NIC 1"
std::string begin_text(const FaultSpec& fault);  // "cable pulled"
std::string heal_text(const FaultSpec& fault);   // "cable back"

}  // namespace r2ccl::apps
