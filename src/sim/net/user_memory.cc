#include "sim/net/user_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl::sim {

UserMemory::UserMemory(std::size_t bytes, bool mapped)
    : data_(bytes + 2 * kGuardBytes, kFresh), bytes_(bytes), mapped_(mapped) {}

void UserMemory::end() {
  busy_ = false;
  over_ = true;
  std::ranges::fill(bytes(), kOver);
}

bool UserMemory::untouched_after(std::size_t used) const {
  const auto fresh = [](std::byte byte) { return byte == kFresh; };
  const ByteView all(data_);
  return std::ranges::all_of(all.first(kGuardBytes), fresh) &&
         std::ranges::all_of(all.subspan(kGuardBytes + used), fresh);
}

std::string UserMemory::complaint() const {
  if (!complaint_.empty() || !over_) return complaint_;
  const ByteView inside = ByteView(data_).subspan(kGuardBytes, bytes_);
  const auto bad = std::ranges::find_if(inside, [](std::byte byte) { return byte != kOver; });
  if (bad == inside.end()) return {};
  return fmt::format("byte {} of {} was written after completion", bad - inside.begin(), bytes_);
}

void UserMemory::read(std::size_t offset, std::span<std::byte> out) {
  if (!busy_ && !out.empty() && complaint_.empty())
    complaint_ = fmt::format("{} bytes were read while no operation used them", out.size());
  std::memcpy(out.data(), data_.data() + offset, out.size());
}

void UserMemory::write(std::size_t offset, ByteView in) {
  if (!busy_ && !in.empty() && complaint_.empty())
    complaint_ = fmt::format("{} bytes were written while no operation used them", in.size());
  std::memcpy(data_.data() + offset, in.data(), in.size());
}

}  // namespace r2ccl::sim
