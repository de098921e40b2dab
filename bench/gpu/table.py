"""Puts runs of one nccl-tests program side by side:  table.py COLLECTIVE RANKS SOCKET_FILE PLUGIN_FILE FAULTS_FILE"""
import sys


def rows(path):
    """size -> (time in us, bus bandwidth in GB/s, wrong values), out of place."""
    found = {}
    try:
        lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) < 9 or not words[0].isdigit():
            continue
        wrong = sum(int(word) for word in (words[8], words[-1]) if word.isdigit())
        found[int(words[0])] = (float(words[5]), float(words[7]), wrong)
    return found


def main(collective, ranks, socket_file, plugin_file, faults_file):
    socket, plugin, faults = rows(socket_file), rows(plugin_file), rows(faults_file)
    print(f"\n{collective}, {ranks} ranks")
    print(f"{'bytes':>11} | {'sockets us':>10} {'GB/s':>7} | {'plugin us':>10} {'GB/s':>7} {'ratio':>6} | {'faults us':>10} {'GB/s':>7} | wrong")
    for size in sorted(set(socket) | set(plugin) | set(faults)):
        nothing = (float("nan"), float("nan"), 0)
        a, b, c = socket.get(size, nothing), plugin.get(size, nothing), faults.get(size, nothing)
        ratio = a[0] / b[0] if b[0] else float("nan")
        print(f"{size:>11} | {a[0]:>10.1f} {a[1]:>7.3f} | {b[0]:>10.1f} {b[1]:>7.3f} {ratio:>6.2f} | {c[0]:>10.1f} {c[1]:>7.3f} | "
              f"{a[2]}/{b[2]}/{c[2]}")


main(*sys.argv[1:6])
