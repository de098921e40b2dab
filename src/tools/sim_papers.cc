#include "tools/sim_papers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/cluster/papers.h"
#include "tools/table.h"

namespace r2ccl::tools {
namespace {

struct Options {
  std::string table;
  std::uint64_t ranks = 0;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
};

void print_rows(const std::vector<sim::PaperRow>& rows, Console& console) {
  Table table({{"table"},
               {"case"},
               {"mode"},
               {"paper", Align::kRight},
               {"ours", Align::kRight},
               {"difference", Align::kRight}});
  for (const sim::PaperRow& row : rows) {
    const double difference = row.relative_difference();
    const Colour colour = std::abs(difference) <= 0.01 ? Colour::kGreen : Colour::kYellow;
    table.add({row.table, row.name, std::string(to_text(row.model)), fmt::format("{:.4f}", row.paper),
               fmt::format("{:.4f}", row.ours), Cell(fmt::format("{:+.2f} %", 100 * difference), colour)});
  }
  console.out(table.text(console));
  console.line(
      "Ours: schedules that the checker accepted, timed without latency and port cost, as the papers' models have it.");
}

Result<int> run(const Options& options, Console& console) {
  const Result<std::vector<sim::PaperRow>> rows =
      sim::paper_rows({.table = options.table,
                       .ranks = static_cast<std::uint32_t>(options.ranks),
                       .threads = static_cast<unsigned>(options.threads),
                       .progress = [&](std::size_t done, std::size_t of) {
                         console.progress(fmt::format("{} of {} rows", done, of));
                       }});
  console.progress("");
  if (!rows) return std::unexpected(rows.error());
  if (rows->empty()) return fail(Fault::kMisuse, fmt::format("no table has '{}' in its name", options.table));
  if (!options.json) {
    print_rows(*rows, console);
    return kExitOk;
  }
  auto list = nlohmann::ordered_json::array();
  for (const sim::PaperRow& row : *rows) {
    list.push_back({{"table", row.table},
                    {"case", row.name},
                    {"mode", to_text(row.model)},
                    {"paper", row.paper},
                    {"ours", row.ours},
                    {"relative_difference", row.relative_difference()}});
  }
  console.line(nlohmann::ordered_json{{"rows", list}}.dump());
  return kExitOk;
}

}  // namespace

void add_sim_papers(CLI::App& sim, const Context& context, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = add_command(sim, chosen, "papers", "Our figures beside those of the R²CCL and OptCC papers",
                                  options, [&console = context.console](const Options& o) { return run(o, console); });
  command->add_option("--table", options->table, "only tables with this in their name, e.g. OptCC")->type_name("TEXT");
  add_integer(*command, {"--ranks", 1, 1'000'000, "only rows of at most so many ranks; the largest take minutes"},
              options->ranks);
  add_integer(*command, {"--threads", 1, 1024, "one per core by default"}, options->threads);
  command->add_flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::tools
