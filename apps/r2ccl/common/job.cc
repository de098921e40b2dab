#include "apps/r2ccl/common/job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

template <class T>
T or_gone(Result<T> result) {
  if (!result) throw Gone(result.error().what);
  return std::move(*result);
}

UniqueId id_from_parent(LineChannel& parent) {
  const std::optional<std::string> line = parent.receive(steady_now() + kJoinMax);
  if (!line) throw Gone("the job's id did not come");
  const Json object = parse_json(*line);
  if (!object.is_object() || !object.contains("id")) throw Gone("the parent said something else than the job's id");
  return or_gone(UniqueId::from_hex(object["id"].get<std::string>()));
}

}  // namespace

int run_reporting(LineChannel& parent, const std::function<void()>& body) {
  try {
    body();
    return kExitOk;
  } catch (const std::exception& error) {
    parent.send(json_text(Json{{"error", error.what()}}));
    return kExitFailed;
  }
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

JobEnd join_job(const Settings& settings, const JobPlace& place, LineChannel& parent) {
  JobEnd end;
  ProcessOptions options;
  options.rank = place.rank;
  end.process = or_gone(Process::create(settings, options));
  UniqueId id;
  if (place.rank == 0) {
    id = or_gone(end.process->host(place.size));
    parent.send(json_text(Json{{"id", id.to_hex()}}));
  } else {
    id = id_from_parent(parent);
  }
  if (const Status joined = end.process->join(id, kJoinMax); !joined) throw Gone(joined.error().what);
  end.secret = id.secret;
  end.process->driver().with_engine([&](Engine& engine) { end.roster = engine.roster(); });
  return end;
}

Status pass_id(Children& children, Instant deadline) {
  const Result<Json> report = next_report(children, 0, deadline);
  if (!report) return std::unexpected(report.error());
  for (std::size_t i = 1; i < children.count(); ++i) children.channel(i).send(json_text(*report));
  return {};
}

}  // namespace r2ccl::apps
