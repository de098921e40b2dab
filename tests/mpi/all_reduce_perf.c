// A program with the habits of nccl-tests' all_reduce_perf, on host memory: one process per rank under mpirun. Rank 0
// makes the id and MPI hands it out. After warm-up calls of the largest and of the smallest size come 20 timed ones of
// each size, out of place and in place; every element is checked. At the end rank 0 says which NICs of its server carry
// nothing at each rank, and which plan the last call had.
//
//   mpirun -np 4 ./all_reduce_perf -b 8K -e 1M -f 2 -t 1 -g 1

#include <mpi.h>
#include <nccl.h>
#include <r2ccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWarmups = 5, kIterations = 20, kLine = 256 };

static int rank, ranks;

static void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "rank %d: %s: %s: %s\n", rank, what, ncclGetErrorString(result), ncclGetLastError(NULL));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

static size_t bytes_of(const char* text) {
  char* unit = NULL;
  const double number = strtod(text, &unit);
  const char* const units = "KMG";
  const char* const at = *unit != 0 ? strchr(units, *unit) : NULL;
  return (size_t)(number * (double)(at != NULL ? (size_t)1 << (10 * (at - units + 1)) : 1));
}

static size_t wrong_in(const float* data, size_t count) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != (float)(ranks * (int)(i % 97) + ranks * (ranks - 1) / 2);
  return wrong;
}

static void fill(float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = (float)((int)(i % 97) + rank);
}

// Microseconds per call.
static double time_calls(const float* in, float* out, size_t count, int calls, ncclComm_t comm) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) CHECK(ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, NULL));
  return (MPI_Wtime() - begin) * 1e6 / calls;
}

// Prints one row of the table; returns how many elements are wrong at any rank.
static unsigned long long measure(float* in, float* out, size_t count, ncclComm_t comm) {
  fill(in, count);
  const double apart = time_calls(in, out, count, kIterations, comm);
  CHECK(ncclAllReduce(in, in, count, ncclFloat, ncclSum, comm, NULL));
  unsigned long long wrong = wrong_in(out, count) + wrong_in(in, count), all = 0;
  const double in_place = time_calls(out, out, count, kIterations, comm);
  MPI_Allreduce(&wrong, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%12zu %12zu float sum %10.1f us %10.1f us %llu wrong\n", count * 4, count, apart, in_place, all);
  return all;
}

static void tell_nics(ncclComm_t comm) {
  char line[kLine] = "";
  int nics = 0;
  CHECK(r2cclCommNicCount(comm, &nics));
  for (int i = 0; i < nics; ++i) {
    r2cclNicInfo_t info = R2CCL_NIC_INFO_INITIALIZER;
    CHECK(r2cclCommNicInfo(comm, i, &info));
    const size_t used = strlen(line);
    if (info.state == r2cclNicDown) snprintf(line + used, sizeof(line) - used, " %s", info.name);
  }
  char* const lines = malloc((size_t)ranks * kLine);
  MPI_Gather(line, kLine, MPI_CHAR, lines, kLine, MPI_CHAR, 0, MPI_COMM_WORLD);
  r2cclStats_t stats = R2CCL_STATS_INITIALIZER;
  CHECK(r2cclCommStats(comm, &stats));
  for (int r = 0; rank == 0 && r < ranks; ++r) printf("# rank %d lost:%s\n", r, lines + (size_t)r * kLine);
  if (rank == 0) printf("# plan: %s for map %llu\n", stats.algorithm, (unsigned long long)stats.healthVersion);
  free(lines);
}

int main(int argc, char** argv) {
  size_t least = 32 << 20, most = 32 << 20, factor = 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "-b") == 0) least = bytes_of(argv[i + 1]);
    if (strcmp(argv[i], "-e") == 0) most = bytes_of(argv[i + 1]);
    if (strcmp(argv[i], "-f") == 0) factor = bytes_of(argv[i + 1]);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* const in = malloc(most);
  float* const out = malloc(most);
  if (in == NULL || out == NULL || factor < 2) {
    fprintf(stderr, "rank %d: no memory for twice %zu bytes, or no factor of at least 2\n", rank, most);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  ncclUniqueId id;
  if (rank == 0) CHECK(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = NULL;
  CHECK(ncclGroupStart());
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  CHECK(ncclGroupEnd());
  memset(in, 0, most);
  for (int i = 0; i < kWarmups; ++i) CHECK(ncclAllReduce(in, out, most / 4, ncclFloat, ncclSum, comm, NULL));
  for (int i = 0; i < kWarmups; ++i) CHECK(ncclAllReduce(in, out, least / 4, ncclFloat, ncclSum, comm, NULL));
  unsigned long long wrong = 0;
  for (size_t bytes = least; bytes <= most; bytes *= factor) wrong += measure(in, out, bytes / 4, comm);
  tell_nics(comm);
  if (rank == 0) printf("# Out of bounds values : %llu %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
  free(in);
  free(out);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
