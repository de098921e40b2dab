#include "apps/r2ccl/common/timeline.h"

#include <fmt/format.h>
#include <fmt/os.h>

#include <cstdio>
#include <memory>
#include <set>
#include <system_error>
#include <tuple>

namespace r2ccl::apps {
namespace {

constexpr double kMicroseconds = 1e6;

std::uint32_t thread_of(const sim::Occupancy& use) {
  return use.nic * 2 + (use.outgoing ? 0 : 1);
}

void write_names(std::FILE* file, const std::vector<sim::Occupancy>& occupancy) {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>> named;
  for (const sim::Occupancy& use : occupancy) {
    if (!named.insert({use.server, thread_of(use), use.nic, use.outgoing}).second) continue;
    fmt::print(file, "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"server {}\"}}}},\n",
               use.server, use.server);
    fmt::print(file,
               "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"NIC {} {}\"}}}},\n",
               use.server, thread_of(use), use.nic, use.outgoing ? "out" : "in");
  }
}

}  // namespace

Status write_timeline(const std::string& path, const std::vector<sim::Occupancy>& occupancy) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (!file) {
    return fail(Fault::kMisuse,
                fmt::format("the timeline can not be written to {}: {}", path, std::generic_category().message(errno)));
  }
  fmt::print(file.get(), "[\n");
  write_names(file.get(), occupancy);
  for (std::size_t i = 0; i < occupancy.size(); ++i) {
    const sim::Occupancy& use = occupancy[i];
    fmt::print(
        file.get(),
        "{{\"ph\":\"X\",\"name\":\"{} {}, piece {}.{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}{}\n",
        use.outgoing ? "to" : "from", use.peer_server, use.span, use.segment, use.server, thread_of(use),
        use.begin_s * kMicroseconds, (use.end_s - use.begin_s) * kMicroseconds, i + 1 < occupancy.size() ? "," : "");
  }
  fmt::print(file.get(), "]\n");
  if (std::fflush(file.get()) != 0)
    return fail(Fault::kMisuse, fmt::format("the timeline could not be written to {} in full", path));
  return {};
}

}  // namespace r2ccl::apps
