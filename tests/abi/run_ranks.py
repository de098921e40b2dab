#!/usr/bin/env python3
"""Runs PROGRAM as every rank of a job: run_ranks.py PROGRAM RANKS. Each gets its rank, the number of ranks and a file
for the id."""
import pathlib
import subprocess
import sys
import tempfile


def main():
    program, ranks = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        id_file = str(pathlib.Path(folder) / "id")
        children = [subprocess.Popen([program, str(rank), str(ranks), id_file]) for rank in range(ranks)]
        return 1 if any([child.wait() != 0 for child in children]) else 0


if __name__ == "__main__":
    sys.exit(main())
