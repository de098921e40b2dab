#pragma once
// The NICs of this process as its sessions see them, for people. To be called with the engine held.

#include <string>
#include <vector>

#include "base/id.h"
#include "runtime/engine.h"

namespace r2ccl {

struct NicView {
  NicId id;
  std::string name;
  // "up", "suspect", "fencing", "down", "opening", "probation", "drained"; "idle": no peer was met over it
  std::string state;
  double rate_bytes_s = 0;  // of the fastest path over it
};
std::vector<NicView> nic_views(Engine& engine);

}  // namespace r2ccl
