#!/usr/bin/env python3
"""Ranks as processes of Python, with ctypes alone: allreduce.py [RANKS [LIBRARY]]

The parent asks for an id and hands it to its children; each sums one array with the others.
"""
import array
import ctypes
import multiprocessing
import sys

COUNT = 100_000
FLOAT32, SUM = 7, 0  # ncclFloat32, ncclSum


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def load(library):
    nccl = ctypes.CDLL(library)
    nccl.ncclGetLastError.restype = nccl.ncclGetErrorString.restype = ctypes.c_char_p
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    nccl.ncclGetUniqueId.argtypes = [ctypes.POINTER(UniqueId)]
    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(pointer), number, UniqueId, number]
    nccl.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    nccl.ncclCommFinalize.argtypes = nccl.ncclCommDestroy.argtypes = [pointer]

    def call(name, *arguments):
        result = getattr(nccl, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {nccl.ncclGetErrorString(result).decode()}: {nccl.ncclGetLastError(None).decode()}")

    return call


def run_rank(library, rank, ranks, id_from_rank_0):
    call = load(library)
    unique_id = UniqueId()
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(unique_id))
        for _ in range(ranks - 1):
            id_from_rank_0.put(bytes(unique_id))
    else:
        ctypes.memmove(ctypes.byref(unique_id), id_from_rank_0.get(), 128)
    comm = ctypes.c_void_p()
    call("ncclCommInitRank", ctypes.byref(comm), ranks, unique_id, rank)
    data = array.array("f", [rank + 1.0]) * COUNT
    place = data.buffer_info()[0]
    call("ncclAllReduce", place, place, COUNT, FLOAT32, SUM, comm, None)
    right = all(value == ranks * (ranks + 1) / 2 for value in data)
    print(f"rank {rank} of {ranks}: {'right' if right else 'wrong'}", flush=True)
    call("ncclCommFinalize", comm)
    call("ncclCommDestroy", comm)
    sys.exit(0 if right else 1)


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    library = sys.argv[2] if len(sys.argv) > 2 else "build/lib/libnccl.so.2"
    context = multiprocessing.get_context("spawn")  # a fork would share the library's threads and sockets
    id_from_rank_0 = context.Queue()
    children = [context.Process(target=run_rank, args=(library, rank, ranks, id_from_rank_0)) for rank in range(ranks)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return max(abs(child.exitcode) for child in children)


if __name__ == "__main__":
    sys.exit(main())
