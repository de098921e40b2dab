#include "comm/agreement/nic_views.h"

#include <algorithm>
#include <utility>

namespace r2ccl {

std::vector<NicView> nic_views(Engine& engine) {
  std::vector<NicView> views;
  for (const ProcessInfo::Port& port : engine.self().ports) {
    NicView view{port.nic, port.name, "idle", 0};
    for (const ProcessInfo& other : engine.roster()) {
      const Session* session = engine.find_session(other.process);
      if (session == nullptr) continue;
      for (const PathView& path : session->paths()) {
        if (path.nic_here != port.nic) continue;
        if (view.state == "idle" || path.state == PathState::kUp)
          view.state = path.state == PathState::kClosed ? "down" : to_text(path.state);
        view.rate_bytes_s = std::max(view.rate_bytes_s, path.rate_bytes_s);
      }
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace r2ccl
