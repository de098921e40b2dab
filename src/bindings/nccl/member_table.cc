#include <deque>
#include <shared_mutex>
#include <unordered_map>

#include "bindings/nccl/member.h"

// All that a handle points to. The members are in the table.
struct ncclComm {
  char unused = 0;
};

namespace r2ccl::bindings {
namespace {

struct HandleTable {
  std::shared_mutex mutex;
  std::deque<ncclComm> handles;  // never shrinks: one byte per communicator, so that no address names two of them
  std::unordered_map<ncclComm_t, MemberPtr> members;
};

// Kept until exit, like the World.
HandleTable& table() {
  static auto* const kTable = new HandleTable;
  return *kTable;
}

}  // namespace

ncclComm_t add_member(MemberPtr member) {
  const std::unique_lock lock(table().mutex);
  ncclComm_t handle = &table().handles.emplace_back();
  table().members[handle] = std::move(member);
  return handle;
}

MemberPtr find_member(ncclComm_t handle) {
  const std::shared_lock lock(table().mutex);
  const auto found = table().members.find(handle);
  return found == table().members.end() ? nullptr : found->second;
}

MemberPtr take_member(ncclComm_t handle) {
  const std::unique_lock lock(table().mutex);
  const auto node = table().members.extract(handle);
  return node.empty() ? nullptr : node.mapped();
}

std::vector<MemberPtr> local_members(const std::string& key) {
  std::vector<MemberPtr> members;
  const std::shared_lock lock(table().mutex);
  for (const auto& [handle, member] : table().members) {
    if (member->key == key) members.push_back(member);
  }
  return members;
}

}  // namespace r2ccl::bindings
