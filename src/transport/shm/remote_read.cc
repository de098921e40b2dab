#include "transport/shm/remote_read.h"

#include <sys/uio.h>

#include <algorithm>
#include <bit>

namespace r2ccl {

bool remote_read(std::uint32_t process, std::uint64_t address, std::byte* to, std::size_t bytes) {
  constexpr std::size_t kMost = 1 << 30;  // per call
  while (bytes > 0) {
    const iovec here{to, std::min(bytes, kMost)};
    const iovec there{std::bit_cast<void*>(address), here.iov_len};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
    if (got <= 0) return false;
    to += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace r2ccl
