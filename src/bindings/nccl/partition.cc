#include "bindings/nccl/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "bindings/nccl/arguments.h"

namespace r2ccl::bindings {

SplitPlace place_in_split(std::span<const ColorKey> all, std::uint32_t rank) {
  SplitPlace place;
  std::vector<std::tuple<int, std::uint32_t>> same;
  for (std::uint32_t other = 0; other < all.size(); ++other) {
    if (all[other].color == all[rank].color) same.emplace_back(all[other].key, other);
  }
  std::sort(same.begin(), same.end());
  place.first = std::get<1>(same.front());
  place.size = static_cast<std::uint32_t>(same.size());
  const auto mine = std::find(same.begin(), same.end(), std::tuple(all[rank].key, rank));
  place.rank = static_cast<std::uint32_t>(mine - same.begin());
  return place;
}

Outcome ranks_that_stay(std::span<const int> exclude, std::uint32_t rank, std::uint32_t size,
                        std::vector<std::uint32_t>& stay) {
  std::vector<bool> out(size);
  for (const int excluded : exclude) {
    std::uint32_t index = 0;
    if (auto bad = check_rank("ncclCommShrink", "excluded rank", excluded, size, index); !bad.ok()) return bad;
    if (out[index]) return invalid_argument(fmt::format("ncclCommShrink: rank {} is excluded twice", excluded));
    out[index] = true;
  }
  if (out[rank])
    return invalid_usage(fmt::format("ncclCommShrink: rank {} is excluded itself and must not call", rank));
  for (std::uint32_t index = 0; index < size; ++index) {
    if (!out[index]) stay.push_back(index);
  }
  return {};
}

}  // namespace r2ccl::bindings
