#pragma once
// What listen() gives NCCL to carry to the connecting process: the ticket of a rendezvous of two, in NCCL's 128 bytes.
//
//   magic "R2NH" u32, version u16, addresses u16, secret 32, 2 addresses of 18, CRC-32C of all before it; zeros

#include <array>
#include <span>

#include "base/result.h"
#include "control/unique_id.h"
#include "plugin/nccl/nccl_net.h"

namespace r2ccl::plugin {

inline constexpr std::size_t kHandleAddressesMax = 2;

// Writes all kHandleBytes. Addresses beyond the second are left out.
void write_handle(const UniqueId& id, std::span<std::byte, nccl::kHandleBytes> out);
// Misuse when it is not one of ours, or damaged.
Result<UniqueId> read_handle(std::span<const std::byte, nccl::kHandleBytes> in);

}  // namespace r2ccl::plugin
