#include "apps/r2ccl/run/exec_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/r2ccl/common/become.h"
#include "apps/r2ccl/run/installation.h"

namespace r2ccl::apps {
namespace {

constexpr std::string_view kPreload = "LD_PRELOAD=";
constexpr std::string_view kSeparators = ": ";  // of the loader's list

struct ExecOptions {
  bool plugin = false;
  std::vector<std::string> program;
};

struct PathsOptions {
  bool nccl = false, plugin = false, headers = false;
};

// What LD_PRELOAD names, but for `ours`.
std::vector<std::string> preloaded(const std::vector<std::string_view>& environment, std::string_view ours) {
  std::vector<std::string> out;
  for (std::string_view line : environment) {
    if (!line.starts_with(kPreload)) continue;
    line.remove_prefix(kPreload.size());
    while (!line.empty()) {
      const std::string_view word = line.substr(0, line.find_first_of(kSeparators));
      line.remove_prefix(std::min(line.size(), word.size() + 1));
      if (!word.empty() && word != ours) out.emplace_back(word);
    }
  }
  return out;
}

std::string preload_line(const std::vector<std::string>& words) {
  return fmt::format("{}{}", kPreload, fmt::join(words, ":"));
}

Result<int> exec(const ExecOptions& options, const Context& context) {
  const auto tool = this_tool();
  if (!tool) return std::unexpected(tool.error());
  const auto path = find_shipped(options.plugin ? Shipped::kPlugin : Shipped::kNccl, *tool);
  if (!path) return std::unexpected(path.error());
  std::vector<std::string> lines;
  if (options.plugin) {
    const auto nccl = find_shipped(Shipped::kNccl, *tool);
    lines = with_our_plugin(*path, nccl ? nccl->string() : "", context.environment);
  } else {
    auto preloading = with_our_nccl(*path, context.environment);
    if (!preloading) return std::unexpected(preloading.error());
    lines = std::move(*preloading);
  }
  context.console.error("r2ccl exec", become(options.program, lines).what);
  return kExitNoProgram;
}

Result<int> print_paths(const PathsOptions& options, const Context& context) {
  const auto tool = this_tool();
  if (!tool) return std::unexpected(tool.error());
  const bool all = !options.nccl && !options.plugin && !options.headers;
  for (const auto& [wanted, what] : {std::pair{options.nccl, Shipped::kNccl},
                                     {options.plugin, Shipped::kPlugin},
                                     {options.headers, Shipped::kHeaders}}) {
    if (!wanted && !all) continue;
    const auto path = find_shipped(what, *tool);
    if (!path) return std::unexpected(path.error());
    context.console.line(path->string());
  }
  return kExitOk;
}

}  // namespace

Result<std::vector<std::string>> with_our_nccl(const std::string& path,
                                               const std::vector<std::string_view>& environment) {
  if (path.find_first_of(kSeparators) != std::string::npos) {
    return fail(Fault::kMisuse,
                fmt::format("'{}' can not be loaded before a program: LD_PRELOAD takes no path with a space or a "
                            "colon; move the installation to one without",
                            path));
  }
  std::vector<std::string> words = preloaded(environment, path);
  words.insert(words.begin(), path);
  return std::vector{preload_line(words)};
}

std::vector<std::string> with_our_plugin(const std::string& path, const std::string& nccl,
                                         const std::vector<std::string_view>& environment) {
  return {"NCCL_NET_PLUGIN=" + path, preload_line(preloaded(environment, nccl))};
}

void add_exec(Command& app, const Context& context) {
  const auto options = std::make_shared<ExecOptions>();
  Command command = app.add("exec", "Start a program with our libnccl.so.2 in place of NCCL's");
  command.runs([options, context] { return exec(*options, context); });
  command.flag("--plugin", options->plugin, "leave it NCCL's own, with our net plugin");
  command.program(options->program, "what to start, after --");
}

void add_paths(Command& app, const Context& context) {
  const auto options = std::make_shared<PathsOptions>();
  Command command = app.add("paths", "Print where our libnccl.so.2, the net plugin and the headers lie");
  command.runs([options, context] { return print_paths(*options, context); });
  command.flag("--nccl", options->nccl, "only libnccl.so.2");
  command.flag("--plugin", options->plugin, "only the net plugin");
  command.flag("--include", options->headers, "only the folder of nccl.h and r2ccl.h");
}

}  // namespace r2ccl::apps
