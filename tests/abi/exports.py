#!/usr/bin/env python3
"""Checks what a library of ours exports.

  exports.py LIBRARY HEADERS... [--functions FILE] [--stock LIBRARY]

  every nccl* function that the headers declare is exported, with its pnccl* twin; r2ccl* functions as they are
  nothing else than nccl*, pnccl*, r2ccl* is
  functions.inc, from which the table of types is made, names all of them
  what the stock library exports is there, but for what no header of NCCL declares
"""
import argparse
import pathlib
import re
import subprocess
import sys

UNDECLARED = {"ncclResetDebugInitInternal"}
TWINS = re.compile(r"^R2CCL_TWINS\(.*?, (nccl[A-Z]\w*),", re.M)
EXTENSION = re.compile(r"^ncclResult_t (r2ccl[A-Z]\w*)\(", re.M)


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def declared(header):
    text = pathlib.Path(header).read_text()
    twins = set(TWINS.findall(text))
    return twins | {"p" + name for name in twins} | set(EXTENSION.findall(text))


def findings(arguments):
    ours = exported(arguments.library)
    wanted = set().union(*(declared(header) for header in arguments.headers))
    if len(wanted) < 80:
        yield f"only {len(wanted)} declarations were found; the headers look different from what this script expects"
    for name in sorted(wanted - ours):
        yield f"{name} is declared and not exported"
    for name in sorted(ours):
        if not re.match(r"p?nccl[A-Z]|r2ccl[A-Z]", name):
            yield f"{name} is exported and should not be"
    if arguments.functions:
        listed = set(re.findall(r"^FUNCTION\((\w+)\)", pathlib.Path(arguments.functions).read_text(), re.M))
        for name in sorted(listed ^ {name for name in wanted if name.startswith("nccl")}):
            yield f"{name} is in only one of {arguments.functions} and the headers"
    if arguments.stock:
        for name in sorted(exported(arguments.stock) - ours - UNDECLARED):
            yield f"{name} is exported by the stock library and not by ours"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("headers", nargs="+")
    parser.add_argument("--functions")
    parser.add_argument("--stock")
    found = list(findings(parser.parse_args()))
    print("\n".join(found) or "the exports are as declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
