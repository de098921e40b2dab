#!/usr/bin/env python3
"""Compares what two builds of table.cc print: compare.py OURS THEIRS. Names the lines that differ and exits 1."""
import difflib
import subprocess
import sys


def lines(program):
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    ours, theirs = lines(sys.argv[1]), lines(sys.argv[2])
    different = [line for line in difflib.unified_diff(theirs, ours, "NCCL", "R2CCL", n=0, lineterm="")]
    print("\n".join(different) or f"{len(ours)} facts are the same")
    return 1 if different or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
