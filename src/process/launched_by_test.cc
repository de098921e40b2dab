#include "process/launched_by.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

#include "env/seeded_random.h"

namespace r2ccl {
namespace {

using Lines = std::vector<std::string_view>;

Launched launch_of(const Lines& lines) {
  const auto found = find_launch(lines);
  EXPECT_TRUE(found) << (found ? "" : found.error().what);
  EXPECT_TRUE(found && *found) << "no launcher found";
  return found && *found ? **found : Launched{};
}

std::string error_of(const Lines& lines) {
  const auto found = find_launch(lines);
  if (found) return "";
  EXPECT_EQ(found.error().fault, Fault::kMisuse);
  return found.error().what;
}

std::string host_and_port(const Launched& launch) {
  return launch.host + ":" + std::to_string(launch.port);
}

TEST(Launch, NoLauncherIsNoError) {
  for (const Lines& lines : {Lines{}, Lines{"PATH=/bin", "RANK=", "WORLD_SIZE="}, Lines{"MASTER_ADDR=10.0.0.1"},
                             Lines{"SLURM_NTASKS=4", "SLURM_JOB_ID=7"}}) {
    const auto found = find_launch(lines);
    ASSERT_TRUE(found);
    EXPECT_FALSE(*found);
  }
}

TEST(Launch, EveryLauncherIsUnderstood) {
  struct Case {
    const char* name;
    Lines lines;
  };
  const std::string_view meet = "MASTER_ADDR=10.0.0.9";
  const Case cases[] = {
      {"r2ccl run", {"R2CCL_RANK=3", "R2CCL_SIZE=4", "R2CCL_LOCAL_RANK=1", meet}},
      {"torchrun", {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", meet}},
      {"Open MPI", {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1", meet}},
      {"PMI", {"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", meet}},
      {"Slurm", {"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1", meet}},
      {"Slurm", {"SLURM_PROCID=3", "SLURM_NTASKS=9", "SLURM_STEP_NUM_TASKS=4", "SLURM_LOCALID=1", meet}},
  };
  Lines all;
  for (const Case& one : cases) {
    const Launched launch = launch_of(one.lines);
    EXPECT_EQ(launch.launcher, one.name);
    EXPECT_EQ(launch.rank, 3u) << one.name;
    EXPECT_EQ(launch.size, 4u) << one.name;
    EXPECT_EQ(launch.local_rank, 1u) << one.name;
    EXPECT_EQ(launch.host, "10.0.0.9") << one.name;
  }
  // Each gives way to those above it, whatever the order of the environment.
  for (std::size_t i = std::size(cases); i-- > 0;) {
    all.insert(all.end(), cases[i].lines.begin(), cases[i].lines.end());
    EXPECT_EQ(launch_of(all).launcher, cases[i].name);
  }
}

TEST(Launch, HalfOfAPairIsOneSentenceThatNamesBoth) {
  EXPECT_EQ(error_of({"RANK=1"}), "RANK is set but WORLD_SIZE is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"WORLD_SIZE=2"}), "WORLD_SIZE is set but RANK is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"R2CCL_SIZE=2"}), "R2CCL_SIZE is set but R2CCL_RANK is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"OMPI_COMM_WORLD_RANK=0"}),
            "OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"PMI_SIZE=2"}), "PMI_SIZE is set but PMI_RANK is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"SLURM_PROCID=1"}), "SLURM_PROCID is set but SLURM_NTASKS is not: a rank of a job needs both");
  EXPECT_EQ(error_of({"RANK=1", "WORLD_SIZE=2", "MASTER_PORT=29500"}),
            "MASTER_PORT is set but MASTER_ADDR is not: set it to rank 0's address");
}

TEST(Launch, NonsenseIsNamed) {
  EXPECT_EQ(error_of({"RANK=one", "WORLD_SIZE=2"}).find("RANK: 'one' is not a number"), 0u);
  EXPECT_EQ(error_of({"RANK=-1", "WORLD_SIZE=2"}).find("RANK: '-1' is not a number"), 0u);
  EXPECT_EQ(error_of({"RANK=2", "WORLD_SIZE=2"}), "RANK is 2, which is not one of the 2 ranks that WORLD_SIZE says");
  EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=0"}), "");
  EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2"}), "");
  EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=70000"}), "");
  EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=2", "R2CCL_UNIQUE_ID=12"}).find("R2CCL_UNIQUE_ID"), std::string::npos);
  for (const std::string_view line : {"NCCL_COMM_ID=host", "NCCL_COMM_ID=:5", "NCCL_COMM_ID=host:", "NCCL_COMM_ID=h:0",
                                      "NCCL_COMM_ID=host:port", "NCCL_COMM_ID=[]:5"})
    EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=2", line}).find("is not host:port"), std::string::npos) << line;
}

TEST(Launch, ThePlaceToMeetIsTheFirstThatThereIs) {
  SeededRandom random(1);
  const std::string id = "R2CCL_UNIQUE_ID=" + UniqueId::make(random, {Address::v4(127, 0, 0, 1, 5)}).to_hex();
  Lines lines{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=node7", "MASTER_PORT=1234"};
  EXPECT_EQ(launch_of(lines).host, "node7");
  EXPECT_EQ(launch_of(lines).port, port_beside(1234));
  lines.push_back("NCCL_COMM_ID=10.0.0.1:5000");
  EXPECT_EQ(host_and_port(launch_of(lines)), "10.0.0.1:5000");
  lines.push_back(id);
  EXPECT_TRUE(launch_of(lines).id);
  EXPECT_EQ(host_and_port(launch_of({"RANK=0", "WORLD_SIZE=2", "NCCL_COMM_ID=[fe80::1]:7"})), "fe80::1:7");
  EXPECT_EQ(launch_of({"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h"}).port, port_beside(29500));
  EXPECT_NE(error_of({"RANK=0", "WORLD_SIZE=2"}).find("set MASTER_ADDR"), std::string::npos);
  EXPECT_NE(error_of({"PMI_RANK=0", "PMI_SIZE=2"}).find("PMI says rank 0 of 2"), std::string::npos);
  EXPECT_EQ(launch_of({"RANK=0", "WORLD_SIZE=1"}).host, "") << "one rank meets nobody";
}

TEST(Launch, MpirunOnOneMachineMeetsOnLoopbackAtAPortOfTheJob) {
  const Lines rank{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4"};
  const auto with = [&](std::initializer_list<std::string_view> more) {
    Lines lines = rank;
    lines.insert(lines.end(), more);
    return lines;
  };
  const Launched first = launch_of(with({"OMPI_MCA_ess_base_jobid=1234567"}));
  EXPECT_EQ(first.host, "127.0.0.1");
  EXPECT_GE(first.port, 20000);
  EXPECT_LT(first.port, 32000);
  EXPECT_EQ(first.port, launch_of(with({"OMPI_MCA_ess_base_jobid=1234567", "PMIX_NAMESPACE=x"})).port);
  EXPECT_NE(first.port, launch_of(with({"OMPI_MCA_ess_base_jobid=1234568"})).port);
  EXPECT_EQ(launch_of(with({"PMIX_NAMESPACE=prterun-host-77@1"})).host, "127.0.0.1");
  EXPECT_NE(error_of(with({})), "") << "no two ranks would find the same port";
}

TEST(Launch, MpirunOnSeveralMachinesMeetsWhereMpirunIs) {
  Lines lines{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
              "OMPI_MCA_ess_base_jobid=99"};
  EXPECT_NE(error_of(lines).find("-x MASTER_ADDR"), std::string::npos);
  lines.push_back("OMPI_MCA_orte_hnp_uri=99.0;usock;tcp://10.0.0.7,172.17.0.1:41235");
  EXPECT_EQ(launch_of(lines).host, "10.0.0.7");
  lines.back() = "OMPI_MCA_orte_hnp_uri=99.0;usock";
  EXPECT_NE(error_of(lines).find("-x MASTER_ADDR"), std::string::npos);
}

TEST(Launch, SlurmMeetsAtTheFirstHostOfTheStep) {
  const auto host = [](std::string_view list) {
    return launch_of({"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=5", "SLURM_STEP_ID=0", list}).host;
  };
  EXPECT_EQ(host("SLURM_STEP_NODELIST=node7"), "node7");
  EXPECT_EQ(host("SLURM_STEP_NODELIST=node[03-05,9],other"), "node03");
  EXPECT_EQ(host("SLURM_STEP_NODELIST=a,b[1-2]"), "a");
  EXPECT_EQ(host("SLURM_STEP_NODELIST=b[4,7-9]"), "b4");
  EXPECT_EQ(host("SLURM_LAUNCH_NODE_IPADDR=10.1.2.3"), "10.1.2.3");
  const auto port = [](std::string_view step) {
    return launch_of({"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=5", step, "SLURM_STEP_NODELIST=n"}).port;
  };
  EXPECT_NE(port("SLURM_STEP_ID=0"), port("SLURM_STEP_ID=1"));
  EXPECT_NE(error_of({"SLURM_PROCID=1", "SLURM_NTASKS=2"}).find("srun"), std::string::npos);
}

TEST(Launch, PortsBesideMasterPortsAreSpreadAndNeverTheSame) {
  std::set<std::uint16_t> ports;
  for (std::uint16_t port = 29000; port < 29100; ++port) ports.insert(port_beside(port));
  EXPECT_GT(ports.size(), 90u);
  for (std::uint32_t port = 1; port < 65536; ++port) ASSERT_NE(port_beside(static_cast<std::uint16_t>(port)), port);
}

Settings named_nics(std::vector<std::string> nics) {
  Settings settings;
  settings.nics = std::move(nics);
  return settings;
}

TEST(Launch, LoopbackIsTheNicOfAJobThatMeetsThere) {
  const auto nics = [](const Settings& settings, const std::string& host) {
    return settings_for(settings, resolve(host, 5).value()).nics;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(nics({}, "127.0.0.1"), Names{"127.0.0.1"});
  EXPECT_EQ(nics({}, "localhost"), Names{"127.0.0.1"});
  EXPECT_EQ(nics({}, "10.0.0.1"), Names{});
  EXPECT_EQ(nics(named_nics({"eth1"}), "127.0.0.1"), Names{"eth1"});
  EXPECT_EQ(settings_for({}, std::nullopt).nics, Names{});
}

// Many servers know their own name by 127.0.1.1 alone; the others know it by another address.
TEST(Launch, ANameKnownByLoopbackAloneIsNoNicWhereThereIsAnother) {
  const MeetingPlace place{"node7", {Address::v4(127, 0, 1, 1, 5)}, true};
  EXPECT_EQ(settings_for(named_nics({"127.10.0.1"}), place).nics, std::vector<std::string>{"127.10.0.1"});
  Settings none;
  none.socket_ifname = "=no-such-nic";
  EXPECT_EQ(settings_for(none, place).nics, std::vector<std::string>{"127.0.1.1"});
  Settings lo;
  lo.socket_ifname = "=lo";  // found like any other
  EXPECT_EQ(settings_for(lo, place).nics, std::vector<std::string>{});
}

TEST(Launch, AddressesNeedNoLookingUp) {
  for (const char* host : {"10.1.2.3", "::1", "fe80::1", "fe80::1%eth7"}) {
    const MeetingPlace place = resolve(host, 7).value();
    ASSERT_EQ(place.addresses.size(), 1u) << host;
    EXPECT_FALSE(place.named) << host;
    Address address = Address::parse(host).value();
    address.port = 7;
    EXPECT_EQ(place.addresses[0], address);
  }
  EXPECT_FALSE(resolve("no such host", 7));
}

TEST(Launch, TheIdFollowsFromThePortNotFromHowTheServerKnowsTheHost) {
  const auto secret_at = [](const MeetingPlace& place) {
    return make_world({}, place)->fixed_id(false).value().secret;
  };
  const Secret first = secret_at({"node7", {Address::v4(127, 0, 1, 1, 5)}, true});
  EXPECT_EQ(first, secret_at({"node7", {Address::v4(10, 0, 0, 7, 5)}, true}));
  EXPECT_NE(first, secret_at({"node7", {Address::v4(10, 0, 0, 7, 6)}, true}));
}

std::string why_not_hosted(const std::string& host) {
  const auto world = make_world(named_nics({"127.10.0.1"}), resolve(host, 5).value());
  const auto id = meet(*world, {.launcher = "torchrun", .size = 2, .host = host, .port = 5});
  return id ? "" : id.error().what;
}

TEST(Launch, RankZeroRefusesToHostWhereItsServerHasNoSuchAddress) {
  EXPECT_NE(why_not_hosted("192.0.2.1").find("to meet at 192.0.2.1, port 5, but no interface"), std::string::npos)
      << why_not_hosted("192.0.2.1");
  EXPECT_NE(why_not_hosted("fe80::1%nosuch").find("this server has no interface nosuch"), std::string::npos)
      << why_not_hosted("fe80::1%nosuch");
}

}  // namespace
}  // namespace r2ccl
