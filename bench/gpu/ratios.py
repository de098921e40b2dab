"""A table of what ratios.sh prints: a line for every collective, number of ranks and size, as soon as it is complete."""
import collections
import statistics
import sys


def show(collective, ranks, times):
    for size in sorted({size for _, size in times}):
        sockets, plugin = times.get(("socket", size)), times.get(("r2ccl", size))
        if not sockets or not plugin:
            print(f"| {collective} | {ranks} | {size} | did not come to its end | | |", flush=True)
            continue
        a, b = statistics.median(sockets), statistics.median(plugin)
        print(f"| {collective} | {ranks} | {size} | {a:.1f} | {b:.1f} | {a / b:.2f} |", flush=True)


def main():
    print("| collective | ranks | bytes | sockets us | plugin us | ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    present, times = None, collections.defaultdict(list)
    for line in sys.stdin:
        transport, collective, ranks, size, micros = line.split()
        if present not in (None, (collective, ranks)):
            show(*present, times)
            times.clear()
        present = (collective, ranks)
        times[(transport, int(size))].append(float(micros))
    if present:
        show(*present, times)


main()
