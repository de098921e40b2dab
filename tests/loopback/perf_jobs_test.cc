// `r2ccl perf` under launchers that know nothing of it, and through the whole life of a fault.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/r2ccl/common/json.h"
#include "base/sanitized.h"
#include "tests/shell.h"

namespace r2ccl::loopback {
namespace {

constexpr const char* kPerf = R2CCL_TOOL " perf all_reduce -b 8 -e 64K -n 2 -w 1";

// The launcher's own socket: torchrun's agent listens at MASTER_PORT while the ranks run.
class Listener final {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    socklen_t length = sizeof address;
    const bool listens = ::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(fd_, 1) == 0 &&
                         ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    EXPECT_TRUE(listens);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  const int fd_;
  std::uint16_t port_ = 0;
};

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(PerfJobs, OpenMpiRunsPerf) {
  if (shell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed; with it two ranks are started.";
  const Ran ran = shell(fmt::format("mpirun --allow-run-as-root --oversubscribe -np 2 {} 2>&1", kPerf));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(count_of(ran.out, "Wrong values        : 0 OK"), 1u) << "once, from rank 0:\n" << ran.out;
  EXPECT_EQ(count_of(ran.out, "       65536        16384    float"), 1u) << ran.out;
}

// A NIC goes and comes back: the rows show the plan of the healthy cluster, the one for what is left, and the first
// one again.
TEST(PerfJobs, RowsShowTheNewPlanAndTheOldOneAgain) {
  if (kSanitized) GTEST_SKIP() << "A row takes longer than the fault lasts under a sanitizer.";
  // Small sizes, so that rates are not measured and no NIC is called slow because the machine is busy. Mode r2
  // applies only to what is broken.
  const Ran ran = shell("R2CCL_MODE=r2 R2CCL_RETRY_MIN=20ms R2CCL_PROBATION_MIN=50ms " R2CCL_TOOL
                        " perf all_reduce -b 4096 -e 7936 -i 64 -n 25 -w 0 --servers 4 --nics 4 --json"
                        " --fault 'at=400ms server=1 nic=1 kind=down for=200ms' 2>/dev/null");
  EXPECT_EQ(ran.status, 0) << ran.out;
  const auto object = apps::parse_json(ran.out);
  ASSERT_TRUE(object.is_object()) << ran.out;
  std::vector<std::pair<std::uint64_t, std::string>> plans;  // in the order they came
  for (const auto& row : object["rows"]) {
    EXPECT_EQ(row["wrong"], 0) << row.dump();
    const std::pair<std::uint64_t, std::string> plan(row["health_version"], row["algorithm"]);
    if (plans.empty() || plans.back() != plan) plans.push_back(plan);
  }
  ASSERT_EQ(plans.size(), 3u) << object.dump();
  EXPECT_LT(plans[0].first, plans[1].first);
  EXPECT_LT(plans[1].first, plans[2].first);
  EXPECT_EQ(plans[1].second, "r2");
  EXPECT_NE(plans[0].second, "r2");
  EXPECT_EQ(plans[2].second, plans[0].second) << "the NIC is back, and so is the plan";
  ASSERT_EQ(object["faults"].size(), 1u);
  EXPECT_GT(object["faults"][0]["returned_ms"], object["faults"][0]["repaired_ms"]);
}

// Starts ranks as torchrun would: its variables are all that a rank sees of it.
TEST(PerfJobs, TorchrunsVariablesAreEnough) {
  const Listener store;
  const auto rank = [&](int number) {
    return fmt::format(
        "RANK={0} LOCAL_RANK={0} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={1} {2}", number,
        store.port(), kPerf);
  };
  const Ran ran =
      shell(fmt::format("({} & first=$!; {}; second=$?; wait $first && exit $second) 2>&1", rank(0), rank(1)));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(count_of(ran.out, "Wrong values        : 0 OK"), 1u) << "once, from rank 0:\n" << ran.out;
  EXPECT_EQ(count_of(ran.out, "       65536        16384    float"), 1u) << ran.out;
}

}  // namespace
}  // namespace r2ccl::loopback
