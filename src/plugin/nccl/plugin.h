#pragma once
// The net plugin without NCCL's version numbers. Every interface version (versions.cc) is an adapter of it.
//
// There is one plugin per process, made by the first init() and gone with the last finalize(). Versions 8 to 10 have no
// finalize: there it stays until the process ends, and says goodbye then.
//
// Failure    As NCCL's codes: remote error when the other end is gone or has closed, system error when our own NICs
//            are. Whatever is thrown below ends here, as an internal error with one line in the log.
// Threads    Any, as NCCL's contract says: one connection from one thread at a time.

#include <cstddef>

#include "plugin/nccl/nccl_net.h"

namespace r2ccl::plugin {

// What all versions of the properties are made of; pointers stay valid until the plugin goes.
struct Properties {
  char* name;
  char* pci_path;  // null: none
  std::uint64_t guid;
  int speed_mbit_s;
  int rail;
};

nccl::NetResult init(nccl::Logger logger, nccl::Profiler profiler);  // the profiler may be null
nccl::NetResult finalize();
nccl::NetResult devices(int* count);
nccl::NetResult properties(int device, Properties* out);

nccl::NetResult listen(int device, void* handle, void** listener);
nccl::NetResult connect(int device, void* handle, void** sender);
nccl::NetResult accept(void* listener, void** receiver);
nccl::NetResult close_connection(void* connection);
nccl::NetResult close_listener(void* listener);

nccl::NetResult register_memory(void* data, std::size_t size, int type, void** memory);
// `parent` and `parents` are what the profiler wants back; they may be null.
nccl::NetResult send(void* sender, void* data, std::size_t size, int tag, void* parent, void** request);
nccl::NetResult receive(void* receiver, int count, void* const* data, const std::size_t* sizes, const int* tags,
                        void* const* parents, void** request);
nccl::NetResult test(void* request, int* done, int* sizes);

}  // namespace r2ccl::plugin
