#include "apps/r2ccl/common/json.h"

#include <nlohmann/json.hpp>

namespace r2ccl::apps {

std::string json_text(const Json& value, int indent) {
  return value.dump(indent);
}

Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

}  // namespace r2ccl::apps
