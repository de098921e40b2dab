#include "apps/r2ccl/common/job.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

Status run_caught(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const std::exception& bug) {
    return fail(Fault::kBug, bug.what());
  }
}

}  // namespace

int run_reporting(LineChannel& parent, const std::function<Status()>& body) {
  const Status done = run_caught(body);
  if (done) return kExitOk;
  parent.send(json_text(Json{{"error", done.error().what}}));
  return kExitFailed;
}

Result<Json> next_report(Children& children, std::size_t index, Instant deadline) {
  LineChannel& channel = children.channel(index);
  const std::optional<std::string> line = channel.receive(deadline);
  if (!line && channel.closed()) return fail(Fault::kPeerDown, fmt::format("process {} ended without a word", index));
  if (!line) return fail(Fault::kPeerDown, fmt::format("process {} did not answer in time", index));
  Json object = parse_json(*line);
  if (!object.is_object()) return fail(Fault::kBug, fmt::format("process {} said '{}'", index, *line));
  if (object.contains("error"))
    return fail(Fault::kPeerDown, fmt::format("process {}: {}", index, object["error"].get<std::string>()));
  return object;
}

Result<Json> await_word(LineChannel& parent, std::string_view key, std::string_view job) {
  const std::optional<std::string> line = parent.receive(steady_now() + kJoinMax);
  if (!line) return fail(Fault::kPeerDown, fmt::format("{}'s {} did not come", job, key));
  const Json object = parse_json(*line);
  if (!object.is_object() || !object.contains(key))
    return fail(Fault::kBug, fmt::format("the parent said something else than {}'s {}", job, key));
  return object[key];
}

Result<UniqueId> share_id(LineChannel& parent, std::uint32_t rank, const std::function<Result<UniqueId>()>& make,
                          std::string_view job) {
  if (rank == 0) {
    Result<UniqueId> id = make();
    if (id) parent.send(json_text(Json{{"id", id->to_hex()}}));
    return id;
  }
  const Result<Json> id = await_word(parent, "id", job);
  if (!id) return std::unexpected(id.error());
  return UniqueId::from_hex(id->get<std::string>());
}

Status pass_id(Children& children, Instant deadline) {
  const Result<Json> report = next_report(children, 0, deadline);
  if (!report) return std::unexpected(report.error());
  for (std::size_t i = 1; i < children.count(); ++i) children.channel(i).send(json_text(*report));
  return {};
}

}  // namespace r2ccl::apps
