// A program of users: one rank of a job, in C++, with the headers as an installation offers them.
#include <r2ccl/r2ccl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

// In a file that is renamed when it is whole.
ncclUniqueId meet(int rank, const std::string& path) {
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "id");
    std::ofstream(path + ".partial", std::ios::binary).write(id.internal, sizeof id.internal);
    std::rename((path + ".partial").c_str(), path.c_str());
    return id;
  }
  std::ifstream file;
  while (!file.is_open()) {
    file.open(path, std::ios::binary);
    std::this_thread::yield();
  }
  file.read(id.internal, sizeof id.internal);
  return id;
}

}  // namespace

int main(int, char** argv) {
  const int rank = std::atoi(argv[1]);
  const int ranks = std::atoi(argv[2]);
  int version = 0;
  check(r2cclGetVersion(&version), "version");
  if (version != R2CCL_VERSION_CODE) return std::printf("library %d, header %s\n", version, R2CCL_VERSION), 1;
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, ranks, meet(rank, argv[3]), rank), "join");
  std::vector<double> data(100000, rank + 1.0);
  check(ncclAllReduce(data.data(), data.data(), data.size(), ncclDouble, ncclSum, comm, nullptr), "sum");
  for (const double value : data) {
    if (value != ranks * (ranks + 1) / 2.0) return std::printf("rank %d: wrong\n", rank), 1;
  }
  check(ncclCommFinalize(comm), "finalize");
  check(ncclCommDestroy(comm), "destroy");
  std::printf("rank %d of %d: right\n", rank, ranks);
}
