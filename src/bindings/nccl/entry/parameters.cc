// Settings by their names, as programs of NCCL 2.30 may ask for them: the values in force, of the names `r2ccl
// settings` lists. A secret shows only that it is set.
//
// A handle points at its row and lives as long as the process.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/units.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/entry/later_names.h"
#include "bindings/nccl/process_world.h"
#include "env/real/real.h"
#include "env/settings.h"

struct ncclParamHandle {
  std::string key;
  r2ccl::SettingType type;
};

namespace r2ccl::bindings {
namespace {

std::vector<ncclParamHandle>& parameters() {
  static auto* const kAll = [] {
    auto* const all = new std::vector<ncclParamHandle>;
    for (const SettingInfo& info : Settings::list()) all->push_back({std::string(info.name), info.type});
    return all;
  }();
  return *kAll;
}

Outcome find_parameter(const char* name, const char* key, ncclParamHandle_t& out) {
  if (key == nullptr) return invalid_argument(fmt::format("{}: key is null", name));
  const auto known = std::ranges::find(parameters(), key, &ncclParamHandle::key);
  if (known == parameters().end()) {
    return invalid_argument(
        fmt::format("{}: there is no setting {}; 'r2ccl settings' lists those there are", name, key));
  }
  out = &*known;
  return {};
}

// The value of a handle as it would be written.
Outcome read_text(const char* name, ncclParamHandle_t handle, std::string& text) {
  const auto same = [&](const ncclParamHandle& parameter) { return &parameter == handle; };
  if (std::ranges::none_of(parameters(), same)) {
    return invalid_argument(fmt::format("{}: the handle is not one of ncclParamBind", name));
  }
  const auto in = world();
  if (!in) return to_outcome(in.error());
  text = (*in)->settings().value_text(handle->key);
  return {};
}

Outcome read_number(const char* name, ncclParamHandle_t handle, std::uint64_t& out) {
  std::string text;
  if (auto bad = read_text(name, handle, text); !bad.ok()) return bad;
  if (text.empty()) return invalid_usage(fmt::format("{}: {} is not set", name, handle->key));
  if (handle->type == SettingType::kBoolean) {
    out = text == "on" ? 1 : 0;
    return {};
  }
  if (handle->type != SettingType::kInteger && handle->type != SettingType::kBytes) {
    return invalid_usage(
        fmt::format("{}: {} is a {}, not a number; use ncclParamGetStr", name, handle->key, to_text(handle->type)));
  }
  const auto number = handle->type == SettingType::kBytes ? parse_bytes(text) : parse_integer(text);
  if (!number) return to_outcome(number.error());
  out = *number;
  return {};
}

template <class Number>
ncclResult_t get_number(const char* name, ncclParamHandle_t handle, Number* out) {
  return guarded([&]() -> Outcome {
    std::uint64_t number = 0;
    if (out == nullptr) return invalid_argument(fmt::format("{}: out is null", name));
    if (auto bad = read_number(name, handle, number); !bad.ok()) return bad;
    if (number > static_cast<std::uint64_t>(std::numeric_limits<Number>::max())) {
      return invalid_usage(
          fmt::format("{}: {} is {}, which does not fit into {} bits", name, handle->key, number, 8 * sizeof(Number)));
    }
    *out = static_cast<Number>(number);
    return {};
  });
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclParamBind, ncclParamHandle_t* out, const char* key) {
  return guarded([&]() -> Outcome {
    if (out == nullptr) return invalid_argument("ncclParamBind: out is null");
    return find_parameter("ncclParamBind", key, *out);
  });
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetI8, ncclParamHandle_t handle, int8_t* out) {
  return get_number("ncclParamGetI8", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetI16, ncclParamHandle_t handle, int16_t* out) {
  return get_number("ncclParamGetI16", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetI32, ncclParamHandle_t handle, int32_t* out) {
  return get_number("ncclParamGetI32", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetI64, ncclParamHandle_t handle, int64_t* out) {
  return get_number("ncclParamGetI64", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetU8, ncclParamHandle_t handle, uint8_t* out) {
  return get_number("ncclParamGetU8", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetU16, ncclParamHandle_t handle, uint16_t* out) {
  return get_number("ncclParamGetU16", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetU32, ncclParamHandle_t handle, uint32_t* out) {
  return get_number("ncclParamGetU32", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetU64, ncclParamHandle_t handle, uint64_t* out) {
  return get_number("ncclParamGetU64", handle, out);
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetStr, ncclParamHandle_t handle, const char** out) {
  return guarded([&]() -> Outcome {
    thread_local std::string kept;
    if (out == nullptr) return invalid_argument("ncclParamGetStr: out is null");
    if (auto bad = read_text("ncclParamGetStr", handle, kept); !bad.ok()) return bad;
    *out = kept.c_str();
    return {};
  });
}

// Which bytes a value has is NCCL's own affair, which a program can only know of NCCL's own parameters.
R2CCL_ENTRY(ncclResult_t, ncclParamGet, ncclParamHandle_t, void*, int, int*) {
  return guarded([&] {
    return invalid_usage(
        "ncclParamGet (of NCCL 2.30): settings have no binary form; use ncclParamGetStr or ncclParamGetI64");
  });
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetParameter, const char* key, const char** value, int* value_length) {
  return guarded([&]() -> Outcome {
    thread_local std::string kept;
    ncclParamHandle_t handle = nullptr;
    if (value == nullptr) return invalid_argument("ncclParamGetParameter: value is null");
    if (auto bad = find_parameter("ncclParamGetParameter", key, handle); !bad.ok()) return bad;
    if (auto bad = read_text("ncclParamGetParameter", handle, kept); !bad.ok()) return bad;
    *value = kept.c_str();
    if (value_length != nullptr) *value_length = static_cast<int>(kept.size());
    return {};
  });
}

R2CCL_ENTRY(ncclResult_t, ncclParamGetAllParameterKeys, const char*** table, int* table_length) {
  return guarded([&]() -> Outcome {
    thread_local std::vector<const char*> keys;
    if (table == nullptr || table_length == nullptr) {
      return invalid_argument("ncclParamGetAllParameterKeys: a place for the answer is null");
    }
    keys.clear();
    for (const ncclParamHandle& parameter : parameters()) keys.push_back(parameter.key.c_str());
    *table = keys.data();
    *table_length = static_cast<int>(keys.size());
    return {};
  });
}

// Where the log goes, but whatever its level: this was asked for.
R2CCL_ENTRY(void, ncclParamDumpAll, void) {
  guarded([&]() -> Outcome {
    const auto in = world();
    if (!in) return to_outcome(in.error());
    const r2ccl::Settings& settings = (*in)->settings();
    r2ccl::StderrLog log(r2ccl::LogLevel::kInfo, settings.debug_file);
    for (const ncclParamHandle& parameter : parameters()) {
      log.write(r2ccl::LogLevel::kInfo, fmt::format("{}={}", parameter.key, settings.value_text(parameter.key)));
    }
    return {};
  });
}
