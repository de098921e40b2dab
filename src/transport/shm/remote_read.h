#pragma once
// One copy out of another process's memory, where the kernel allows it (process_vm_readv).

#include <cstddef>
#include <cstdint>

namespace r2ccl {

// True: all bytes were copied. False: the process is gone, the memory is not there, or reading it is not allowed; `to`
// may then hold a part.
bool remote_read(std::uint32_t process, std::uint64_t address, std::byte* to, std::size_t bytes);

}  // namespace r2ccl
