#pragma once
// Ends TCP connections of a namespace from outside, as a network that sends resets would.

#include <cstddef>
#include <string>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace r2ccl::lab {

// Resets every connection whose local address is this one; both ends see it. Says how many. A kernel without
// CONFIG_INET_DIAG_DESTROY can not: kMisuse with one sentence.
Result<std::size_t> reset_connections(const Fd& name_space, const std::string& where, const Address& local);

}  // namespace r2ccl::lab
