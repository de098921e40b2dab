// One rank of a job of several processes; the id travels in a file that all of them can read.
//
//   cc -Iinclude examples/allreduce.c -Lbuild/lib -lr2ccl -Wl,-rpath,$PWD/build/lib -o allreduce
//   rm -f id; for r in 0 1 2; do ./allreduce $r 3 id & done; wait

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 1000000

static void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}
#define CHECK(call) check(call, #call)

// Written under another name first, so that nobody reads half an id.
static void write_id(const char* path, const ncclUniqueId* id) {
  char partial[4096];
  snprintf(partial, sizeof(partial), "%s.partial", path);
  FILE* file = fopen(partial, "wb");
  if (file == NULL || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) != 0 || rename(partial, path) != 0) {
    perror(path);
    exit(1);
  }
}

static void read_id(const char* path, ncclUniqueId* id) {
  FILE* file = NULL;
  while ((file = fopen(path, "rb")) == NULL) usleep(10000);
  if (fread(id, sizeof(*id), 1, file) != 1) exit(1);
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: %s RANK RANKS ID_FILE\n", argv[0]), 2;
  const int rank = atoi(argv[1]);
  const int ranks = atoi(argv[2]);
  ncclUniqueId id;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    write_id(argv[3], &id);
  } else {
    read_id(argv[3], &id);
  }
  ncclComm_t comm = NULL;
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));

  int* data = malloc(COUNT * sizeof(int));
  for (int i = 0; i < COUNT; ++i) data[i] = rank + i;
  CHECK(ncclAllReduce(data, data, COUNT, ncclInt, ncclSum, comm, NULL));
  for (int i = 0; i < COUNT; ++i) {
    if (data[i] != ranks * i + ranks * (ranks - 1) / 2) return printf("rank %d: wrong at %d\n", rank, i), 1;
  }
  printf("rank %d of %d: right\n", rank, ranks);
  free(data);
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
  return 0;
}
