#include "apps/r2ccl/model/sim_papers_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "sim/study/papers.h"

namespace r2ccl::apps {
namespace {

struct SimPapersOptions {
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

Result<int> run(const SimPapersOptions& options, Console& console) {
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
  auto list = Json::array();
  for (const sim::PaperRow& row : *rows) {
    list.push_back({{"table", row.table},
                    {"case", row.name},
                    {"mode", to_text(row.model)},
                    {"paper", row.paper},
                    {"ours", row.ours},
                    {"relative_difference", row.relative_difference()}});
  }
  console.line(json_text(Json{{"rows", list}}));
  return kExitOk;
}

}  // namespace

void add_sim_papers(Command& sim, const Context& context) {
  const auto options = std::make_shared<SimPapersOptions>();
  Command command = sim.add("papers", "Our figures beside those of the R²CCL and OptCC papers");
  command.runs([options, &console = context.console] { return run(*options, console); });
  command.text("--table", options->table, "only tables with this in their name, e.g. OptCC").value_name("TEXT");
  command.integer({"--ranks", 1, 1'000'000, "only rows of at most so many ranks; the largest take longest"},
                  options->ranks);
  command.integer({"--threads", 1, 1024, "one per core by default"}, options->threads);
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
