#include "apps/r2ccl/lab/lab_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "apps/r2ccl/lab/lab_faults.h"
#include "apps/r2ccl/lab/lab_run.h"
#include "base/units.h"
#include "lab/built_lab.h"
#include "lab/fault_clock.h"
#include "lab/state_file.h"

namespace r2ccl::apps {
namespace {

constexpr std::uint64_t kAnyRate = 1'000'000'000'000;

struct UpOptions {
  lab::LabPlan plan;
  std::string fabric;
};
struct FaultOptions {
  std::string name = "lab";
  std::vector<std::string> words;
};
struct LabStatusOptions {
  std::string name;  // empty: all
  bool json = false;
};
struct DownOptions {
  std::string name = "lab";
  bool all = false;
};
struct LabExecOptions {
  std::string name = "lab";
  std::uint64_t server = 0;
  std::vector<std::string> program;
};

NicId nic_id(std::uint64_t nic) {
  return {static_cast<std::uint8_t>(nic)};
}

Fabric fabric_of(const std::string& word) {
  return word == "rails" ? Fabric::kRails : Fabric::kRouted;
}

Status need_root() {
  if (::geteuid() == 0) return {};
  return fail(Fault::kMisuse, "network namespaces need root; 'r2ccl run' does without, on loopback NICs");
}

Result<lab::LabState> find_lab(const std::string& name) {
  if (const Status named = lab::check_name(name); !named) return std::unexpected(named.error());
  auto state = lab::read_state(name);
  if (state || state.error().fault != Fault::kMisuse) return state;
  const std::vector<std::string> names = lab::lab_names();
  return fail(Fault::kMisuse, fmt::format("{}; {}", state.error().what,
                                          names.empty() ? "'r2ccl lab up' makes one"
                                                        : fmt::format("there are {}", fmt::join(names, ", "))));
}

// ---- up, down ---------------------------------------------------------------------------------------------------

Result<int> up(const UpOptions& options, const Context& context) {
  lab::LabPlan plan = options.plan;
  plan.fabric = fabric_of(options.fabric);
  if (const Status checked = lab::check(plan); !checked) return std::unexpected(checked.error());
  auto file = claim_lab(plan, true);
  if (!file) return std::unexpected(file.error());
  if (const Status built = lab::build(plan); !built) {
    const Status removed = remove_lab(plan, *file);
    return std::unexpected((removed ? built : removed).error());
  }
  context.console.line(
      fmt::format("lab '{}' is up: {} servers with {} NICs of {}; r2ccl lab exec --name {} --server 0 "
                  "-- CMD runs in one of them",
                  plan.name, plan.servers, plan.nics, rate_text(plan.rate_bytes_s), plan.name));
  return kExitOk;
}

Status down_one(const std::string& name) {
  auto file = lab::StateFile::take(name);
  if (!file) return std::unexpected(file.error());
  const auto state = file->read();
  if (!state) return std::unexpected(state.error());
  return *state ? remove_lab((*state)->plan, *file) : file->remove();
}

Result<int> down(const DownOptions& options, const Context& context) {
  if (const Status named = lab::check_name(options.name); !named) return std::unexpected(named.error());
  const std::vector<std::string> names = options.all ? lab::lab_names() : std::vector{options.name};
  std::optional<Error> first;  // the others go all the same
  for (const std::string& name : names) {
    const Status removed = down_one(name);
    if (removed) {
      context.console.line(fmt::format("lab '{}' is gone", name));
    } else if (!first) {
      first = removed.error();
    }
  }
  if (first) return std::unexpected(*first);
  return kExitOk;
}

// ---- faults -----------------------------------------------------------------------------------------------------

// `fail` may leave out at=, `heal` has only the NIC.
Result<FaultSpec> fault_of(const FaultOptions& options, std::string_view first, const lab::LabPlan& plan) {
  const bool timed = fmt::format(" {}", fmt::join(options.words, " ")).find(" at=") != std::string::npos;
  const std::string text = fmt::format("{}{}", timed ? "" : first, fmt::join(options.words, " "));
  const auto faults = lab_faults({text}, plan);
  if (!faults) return std::unexpected(faults.error());
  if (faults->size() != 1) return fail(Fault::kMisuse, fmt::format("'{}' is not one fault", text));
  return faults->front();
}

Result<int> fail_nic(const FaultOptions& options, const Context& context) {
  const auto state = find_lab(options.name);
  if (!state) return std::unexpected(state.error());
  const auto fault = fault_of(options, "at=0s ", state->plan);
  if (!fault) return std::unexpected(fault.error());
  auto cluster = lab::BuiltLab::open(state->plan);
  if (!cluster) return std::unexpected(cluster.error());
  const auto before = cluster->read(fault->server, fault->nic);
  if (!before) return std::unexpected(before.error());
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const Fd stop(::signalfd(-1, &signals, SFD_CLOEXEC));
  lab::FaultClock clock({*fault}, before->state);
  const bool made = drive_faults(*cluster, clock, stop.get(), Afterwards::kReturn, context.console);
  // Interrupted: faults that would have ended later end now.
  if (clock.next() != Duration::max()) {
    if (const Status healed = cluster->set(fault->server, fault->nic, before->state); !healed)
      return std::unexpected(healed.error());
  }
  return made ? kExitOk : kExitFailed;
}

Result<int> heal(const FaultOptions& options, const Context&) {
  const auto state = find_lab(options.name);
  if (!state) return std::unexpected(state.error());
  std::optional<FaultSpec> only;
  if (!options.words.empty()) {
    const auto named = fault_of(options, "at=0s kind=down ", state->plan);
    if (!named) return std::unexpected(named.error());
    only = *named;
  }
  auto cluster = lab::BuiltLab::open(state->plan);
  if (!cluster) return std::unexpected(cluster.error());
  for (std::uint64_t server = 0; server < state->plan.servers; ++server) {
    for (std::uint64_t nic = 0; nic <= state->plan.management().value; ++nic) {
      if (only && (only->server.value != server || only->nic.value != nic)) continue;
      const Status healed = cluster->set({server}, nic_id(nic), cluster->healthy());
      if (!healed) return std::unexpected(healed.error());
    }
  }
  return kExitOk;
}

// ---- status, exec -----------------------------------------------------------------------------------------------

Result<Json> report(const lab::LabState& state) {
  auto cluster = lab::BuiltLab::open(state.plan);
  if (!cluster) return std::unexpected(cluster.error());
  Json nics = Json::array();
  for (std::uint64_t server = 0; server < state.plan.servers; ++server) {
    for (std::uint64_t nic = 0; nic < state.plan.nics; ++nic) {
      const auto now = cluster->read({server}, nic_id(nic));
      if (!now) return std::unexpected(now.error());
      nics.push_back({{"server", server},
                      {"nic", nic},
                      {"namespace", lab::server_namespace(state.plan, server)},
                      {"interface", lab::nic_name(nic)},
                      {"address", to_text(lab::nic_address(state.plan, server, nic))},
                      {"state", lab::to_text(now->state, state.plan.rate_bytes_s)},
                      {"carrier", now->carrier},
                      {"rate_bytes_s", now->state.rate_bytes_s},
                      {"sent_bytes", now->sent_bytes},
                      {"received_bytes", now->received_bytes}});
    }
  }
  return Json{{"name", state.plan.name},
              {"fabric", state.plan.fabric == Fabric::kRails ? "rails" : "routed"},
              {"rate_bytes_s", state.plan.rate_bytes_s},
              {"process", state.kept ? Json(nullptr) : Json(state.process)},
              {"nics", nics}};
}

std::string report_text(const Json& lab, const Console& console) {
  Table table({{"server"}, {"nic"}, {"address"}, {"state"}, {"sent", Align::kRight}, {"received", Align::kRight}});
  for (const Json& nic : lab["nics"]) {
    const std::string state = nic["state"];
    table.add({nic["namespace"].get<std::string>(), nic["interface"].get<std::string>(),
               nic["address"].get<std::string>(), Cell(state, state == "ok" ? Colour::kGreen : Colour::kRed),
               bytes_text(nic["sent_bytes"]), bytes_text(nic["received_bytes"])});
  }
  const std::string user =
      lab["process"].is_null() ? "" : fmt::format(", run by process {}", json_text(lab["process"]));
  return fmt::format("lab '{}': {}, {}{}\n{}", lab["name"].get<std::string>(), lab["fabric"].get<std::string>(),
                     rate_text(lab["rate_bytes_s"]), user, table.text(console, 2));
}

Result<int> status(const LabStatusOptions& options, const Context& context) {
  const std::vector<std::string> names = options.name.empty() ? lab::lab_names() : std::vector{options.name};
  Json labs = Json::array();
  for (const std::string& name : names) {
    const auto state = find_lab(name);
    if (!state) return std::unexpected(state.error());
    const auto one = report(*state);
    if (!one) return std::unexpected(one.error());
    labs.push_back(*one);
  }
  if (options.json) {
    context.console.line(json_text(Json{{"labs", labs}}, 2));
    return kExitOk;
  }
  if (labs.empty()) context.console.line("there is no lab");
  for (const Json& one : labs) context.console.out(report_text(one, context.console));
  return kExitOk;
}

Result<int> exec(const LabExecOptions& options, const Context&) {
  const auto state = find_lab(options.name);
  if (!state) return std::unexpected(state.error());
  if (options.server >= state->plan.servers) {
    return fail(Fault::kMisuse, fmt::format("server {}: lab '{}' has {}, counted from 0", options.server, options.name,
                                            state->plan.servers));
  }
  std::vector<std::string> nics;
  for (std::uint64_t nic = 0; nic < state->plan.nics; ++nic) nics.push_back(lab::nic_name(nic));
  const std::vector<std::string> environment{
      fmt::format("R2CCL_NICS={}", fmt::join(nics, ",")), fmt::format("R2CCL_SERVER={}", options.server),
      fmt::format("R2CCL_FABRIC={}", state->plan.fabric == Fabric::kRails ? "rails" : "routed"),
      "R2CCL_STATS=" + stats_directory(state->plan), nic_speed_line(state->plan)};
  return std::unexpected(become_in_lab(state->plan, options.server, options.program, environment));
}

// ---- the command line -------------------------------------------------------------------------------------------

template <class Options>
using CommandBody = Result<int> (*)(const Options&, const Context&);

template <class Options>
Command add(Command& app, const Context& context, const std::string& name, const std::string& purpose,
            const std::shared_ptr<Options>& options, CommandBody<Options> body) {
  Command command = app.add(name, purpose);
  command.runs([options, context, body]() -> Result<int> {
    if (const Status root = need_root(); !root) return std::unexpected(root.error());
    return body(*options, context);
  });
  return command;
}

void add_name(Command& command, std::string& name) {
  command.text("--name", name, "of several labs on this machine; 'lab' by default").value_name("NAME");
}

void add_shape(Command& command, lab::LabPlan& plan) {
  command.flag("--ipv6", plan.ipv6, "addresses of IPv6 in place of IPv4");
  command.rate({"--rate", 0, kAnyRate, "of each NIC, each way; 500mbit by default"}, plan.rate_bytes_s);
}

void add_up(Command& lab_app, const Context& context) {
  const auto options = std::make_shared<UpOptions>();
  Command command = add(lab_app, context, "up", "Make a lab and keep it", options, &up);
  add_name(command, options->plan.name);
  command.integer({"--servers", 1, lab::kServersMax, "network namespaces; 2 by default"}, options->plan.servers);
  command.integer({"--nics", 1, lab::kRailsMax, "of each server; 2 by default"}, options->plan.nics);
  add_shape(command, options->plan);
  command.text("--fabric", options->fabric, "whether any NIC reaches any NIC, or only its own rail")
      .one_of({"routed", "rails"})
      .value_name("routed|rails");
}

Result<int> run(const LabRunOptions& given, const Context& context) {
  LabRunOptions options = given;
  options.lab.servers = options.plan.servers;
  options.lab.nics = options.plan.nics;
  options.lab.fabric = fabric_of(options.plan.fabric);
  if (const Status checked = lab::check(options.lab); !checked) return std::unexpected(checked.error());
  return run_in_lab(options, context);
}

void add_run_in_lab(Command& lab_app, const Context& context) {
  const auto options = std::make_shared<LabRunOptions>();
  Command command =
      add(lab_app, context, "run", "Make a lab, start a program as its ranks, remove the lab", options, &run);
  add_name(command, options->lab.name);
  add_run_options(command, options->plan, "NICs");
  add_shape(command, options->lab);
  command.program(options->program, "what each rank runs, after --");
}

void add_fault_commands(Command& lab_app, const Context& context) {
  const auto fault = std::make_shared<FaultOptions>();
  Command failing = add(lab_app, context, "fail", "Break a NIC; stays until for= is over", fault, &fail_nic);
  add_name(failing, fault->name);
  failing.texts("fault", fault->words, "e.g. server=0 nic=1 kind=cable for=1s").required().value_name("F");
  const auto healed = std::make_shared<FaultOptions>();
  Command healing = add(lab_app, context, "heal", "Repair one NIC, or all", healed, &heal);
  add_name(healing, healed->name);
  healing.texts("nic", healed->words, "server=0 nic=1; nothing: all").value_name("NIC");
}

}  // namespace

void add_lab(Command& app, const Context& context) {
  Command lab_app = app.add("lab", "A cluster of network namespaces with shaped NICs; needs root");
  lab_app.needs_command();
  add_run_in_lab(lab_app, context);
  add_up(lab_app, context);
  add_fault_commands(lab_app, context);
  const auto shown = std::make_shared<LabStatusOptions>();
  Command showing = add(lab_app, context, "status", "Labs and their NICs as they are now", shown, &status);
  showing.text("--name", shown->name, "only this one").value_name("NAME");
  showing.flag("--json", shown->json, "one JSON object");
  const auto executed = std::make_shared<LabExecOptions>();
  Command executing = add(lab_app, context, "exec", "Run a program in a server of a lab", executed, &exec);
  add_name(executing, executed->name);
  executing.integer({"--server", 0, lab::kServersMax - 1, "0 by default"}, executed->server);
  executing.program(executed->program, "what is run, after --");
  const auto removed = std::make_shared<DownOptions>();
  Command removing = add(lab_app, context, "down", "Remove a lab, also what a killed one has left", removed, &down);
  add_name(removing, removed->name);
  removing.flag("--all", removed->all, "every lab of this machine");
}

}  // namespace r2ccl::apps
