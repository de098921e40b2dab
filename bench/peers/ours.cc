// R²CCL's side: its NCCL interface, started by `r2ccl run` or any launcher that sets RANK and WORLD_SIZE.
#include <nccl.h>

#include <cstring>

#include "measure.h"

namespace {

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

int number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = number("RANK");
  const int size = number("WORLD_SIZE");
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));  // as NCCL_COMM_ID says
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, size, id, rank));
  peers::measure(peers::bytes_of(argc, argv), rank, [&](float* data, std::size_t count) {
    check(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, nullptr));
  });
  check(ncclCommDestroy(comm));
}
