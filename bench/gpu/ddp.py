"""A small, deterministic data-parallel training: every rank of it may be on the same GPU. Rank 0 writes the losses, bit for bit.

    RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 ddp.py --steps 200 --out losses.txt

Ranks are taken from RANK, or from what mpirun or `r2ccl lab run` set. With --graph the step after warm-up is an all-reduce captured in a
CUDA graph and replayed.
"""
import argparse
import os
import statistics
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.distributed as dist


def place(*names, default):
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    return default


def train(options, rank, size):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    width = options.width
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)).cuda()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    data = torch.Generator(device="cpu").manual_seed(100 + rank)
    losses, times = [], []
    for _ in range(options.steps):
        inputs = torch.randn(64, width, generator=data).cuda()
        wanted = inputs.sum(dim=1, keepdim=True) / width
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(wrapped(inputs), wanted)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        losses.append((mean / size).item())
    return losses, times


def replay(options, rank, size):
    """Every replay sums what the step wrote; the sum is known."""
    value = torch.zeros(options.width * options.width, device="cuda")
    step = torch.zeros(1, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            value.fill_(1.0)
            dist.all_reduce(value)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        step += 1
        value.copy_(step * (rank + 1) + torch.zeros_like(value))
        dist.all_reduce(value)
    losses, times = [], []
    for number in range(1, options.steps + 1):
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        expected = float(number * size * (size + 1) // 2)
        if not bool((value == expected).all()):
            raise SystemExit(f"replay {number}: {value[0].item()} instead of {expected}")
        losses.append(expected)
    return losses, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--out", default="")
    parser.add_argument("--graph", action="store_true")
    options = parser.parse_args()
    rank = place("RANK", "OMPI_COMM_WORLD_RANK", "R2CCL_RANK", default=0)
    size = place("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "R2CCL_SIZE", default=1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    losses, times = (replay if options.graph else train)(options, rank, size)
    if rank == 0:
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                file.writelines(f"{loss.hex()}\n" for loss in losses)
        times = sorted(times[len(times) // 10:])
        print(f"{len(losses)} steps: median {statistics.median(times) * 1e3:.2f} ms, longest {times[-1] * 1e3:.1f} ms, "
              f"last loss {losses[-1]:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
