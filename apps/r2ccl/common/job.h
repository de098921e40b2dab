#pragma once
// Several processes of this tool as one job: what a child and its parent say to each other until the children have
// found each other. Everything a child tells its parent is one JSON object per line; {"error": sentence} means that it
// gave up.

#include <cstdint>
#include <functional>
#include <string_view>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/common/json.h"
#include "base/result.h"
#include "base/time.h"
#include "control/unique_id.h"

namespace r2ccl::apps {

inline constexpr Duration kJoinMax = 20s;

// Runs the body of a child; the sentence of its error, or of a bug that it met, is sent to the parent as
// {"error": ...}. The exit status of the child.
int run_reporting(LineChannel& parent, const std::function<Status()>& body);

// What child `index` says next; an error when it gave up, ended or is late.
Result<Json> next_report(Children& children, std::size_t index, Instant deadline);

// In a child: what the parent says next under this key. `job` is what a complaint calls the job.
Result<Json> await_word(LineChannel& parent, std::string_view key, std::string_view job);

// In every child: the id of their job. Rank 0 makes it and tells its parent, which passes it to the rest with
// pass_id().
Result<UniqueId> share_id(LineChannel& parent, std::uint32_t rank, const std::function<Result<UniqueId>()>& make,
                          std::string_view job);
Status pass_id(Children& children, Instant deadline);

}  // namespace r2ccl::apps
