#pragma once
// JSON as the commands print it and as processes of one job say it to each other: keys stay in their order.
//
// Reading and writing are compiled once, in json.cc: the library would compile them in every file that does either.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace r2ccl::apps {

using Json = nlohmann::ordered_json;

std::string json_text(const Json& value, int indent = -1);  // -1: on one line
Json parse_json(std::string_view text);                     // is_discarded() where it is none

}  // namespace r2ccl::apps
