#pragma once
// For tests: what the fake World of fake_world_test.cc did, and what it pretends.

#include <string>
#include <vector>

namespace r2ccl::bindings {

// Collectives in the order they ran, as "AllReduce 8"; forgotten once taken.
std::vector<std::string> take_fake_log();
// Sets the state of the only NIC; it is "up" to begin with.
void set_fake_nic_state(const std::string& state);

}  // namespace r2ccl::bindings
