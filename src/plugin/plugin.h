#pragma once
// The net plugin without NCCL's version numbers: what every interface version is an adapter of.
//
// One object per process, made by the first init() and gone with the last finalize(); versions 8 to 10 have no finalize, there it
// stays until the process ends, and says goodbye then.
//
// Failure    As NCCL's codes: remote error when the other end is gone or has closed, system error when our own NICs are. Whatever is
//            thrown below ends here, as an internal error with one line in the log.
// Threads    Any, as NCCL's contract says: one connection from one thread at a time.

#include <cstddef>

#include "plugin/nccl_net.h"

namespace r2ccl::plugin {

// What all versions of the properties are made of; pointers stay valid until the plugin goes.
struct Properties {
  char* name;
  char* pci_path;  // null: none
  std::uint64_t guid;
  int speed_mbit_s;
  int rail;
};

nccl::Result init(nccl::Logger logger, nccl::Profiler profiler);  // the profiler may be null
nccl::Result finalize();
nccl::Result devices(int* count);
nccl::Result properties(int device, Properties* out);

nccl::Result listen(int device, void* handle, void** listener);
nccl::Result connect(int device, void* handle, void** sender);
nccl::Result accept(void* listener, void** receiver);
nccl::Result close_connection(void* connection);
nccl::Result close_listener(void* listener);

nccl::Result register_memory(void* data, std::size_t size, int type, void** memory);
// `parent` and `parents` are what the profiler wants back; they may be null.
nccl::Result send(void* sender, void* data, std::size_t size, int tag, void* parent, void** request);
nccl::Result receive(void* receiver, int count, void* const* data, const std::size_t* sizes, const int* tags,
                     void* const* parents, void** request);
nccl::Result test(void* request, int* done, int* sizes);

}  // namespace r2ccl::plugin
