// Loads the library as a program does and calls every function that the lists of newer NCCLs have but that of
// 2.28.9 has not: call_names LIBRARY NAMES_FOLDER. None gets a communicator, so none may succeed, and each must say
// why in ncclGetLastError():
//   those with a meaning here    ncclInvalidArgument, a sentence with the name of the call
//   all others                   ncclInvalidUsage, and the sentence names the version of NCCL, too
// A name that a later list brings is tested without a change here.

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bindings/nccl/entry/later_names.h"

namespace {

using Names = std::set<std::string>;

const Names kWork = {  // src/bindings/nccl/entry/later_names_test.cc shows what they do
    "ncclAllGatherConfig",
    "ncclAllReduceConfig",
    "ncclAlltoAllConfig",
    "ncclBroadcastConfig",
    "ncclGatherConfig",
    "ncclReduceConfig",
    "ncclReduceScatterConfig",
    "ncclScatterConfig",
    "ncclCommMemStats",
    "ncclCommQueryProperties",
    "ncclSetEncryption",
    "ncclParamBind",
    "ncclParamGetI8",
    "ncclParamGetI16",
    "ncclParamGetI32",
    "ncclParamGetI64",
    "ncclParamGetU8",
    "ncclParamGetU16",
    "ncclParamGetU32",
    "ncclParamGetU64",
    "ncclParamGetStr",
    "ncclParamGetParameter",
    "ncclParamGetAllParameterKeys"};
const Names kAnswerTeams = {"ncclTeamCft", "ncclTeamCftMultimem"};
const Names kAnswerNothing = {"ncclParamDumpAll"};

// Without their twins.
Names read_list(const std::filesystem::path& file) {
  Names names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("nccl")) names.insert(line);
  }
  return names;
}

Names later_names(const std::filesystem::path& folder) {
  const Names known = read_list(folder / "2.28.9.txt");
  Names later;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) later.merge(read_list(entry.path()));
  std::erase_if(later, [&](const std::string& name) { return known.contains(name); });
  return later;
}

// At least as many arguments as the longest list of parameters: who takes fewer does not look at the rest.
using AnyFunction = ncclResult_t (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
                                     void*);

class Caller {
 public:
  explicit Caller(void* library)
      : library_(library), last_error_(find<const char* (*)(ncclComm_t)>("ncclGetLastError")) {}

  // What is wrong with the function, or nothing.
  std::string check(const std::string& name) {
    if (dlsym(library_, name.c_str()) == nullptr) return "is not exported";
    find<ncclResult_t (*)(int*)>("ncclGetVersion")(nullptr);  // its sentence is not the one we look for
    const bool works = kWork.contains(name);
    if (kAnswerNothing.contains(name)) {
      find<void (*)()>(name)();
      return "";
    }
    if (kAnswerTeams.contains(name)) {
      const ncclTeam team = find<ncclTeam (*)(ncclComm_t, int)>(name)(nullptr, 0);
      if (team.nRanks != 0 || team.rank != -1) return "answers with a team that has ranks";
    } else {
      const int expected = works ? ncclInvalidArgument : ncclInvalidUsage;
      const int result = find<AnyFunction>(name)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                                 nullptr, nullptr, nullptr, nullptr);
      if (result != expected) return "answers " + std::to_string(result) + ", not " + std::to_string(expected);
    }
    const std::string sentence = last_error_(nullptr);
    const std::string plain = name.ends_with("Config") ? name.substr(0, name.size() - 6) : name;
    const bool named = sentence.starts_with(name) || (works && sentence.starts_with(plain + ": "));
    const bool reasoned = works || (sentence.starts_with(name + " (of NCCL 2.") && sentence.contains("; "));
    return named && reasoned ? "" : "says '" + sentence + "'";
  }

 private:
  template <class Function>
  Function find(const std::string& name) {
    return reinterpret_cast<Function>(dlsym(library_, name.c_str()));
  }

  void* const library_;
  const char* (*const last_error_)(ncclComm_t);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::puts(dlerror()), 1;
  const Names names = later_names(argv[2]);
  Caller caller(library);
  std::size_t bad = 0;
  for (const std::string& name : names) {
    for (const std::string& called : {name, "p" + name}) {
      std::string what = called == name ? caller.check(name) : "";
      if (called != name && dlsym(library, called.c_str()) == nullptr) what = "is not exported";
      if (what.empty()) continue;
      std::printf("%s %s\n", called.c_str(), what.c_str());
      ++bad;
    }
  }
  std::printf("%zu names that 2.28.9 has not: %zu are not as they should be\n", names.size(), bad);
  return bad != 0 || names.size() < 40 ? 1 : 0;
}
