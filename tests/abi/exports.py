#!/usr/bin/env python3
"""Checks what a library of ours exports.

  exports.py LIBRARY HEADERS... [--functions FILE] [--stock LIBRARY] [--names FOLDER]

  every nccl* function that the headers declare is exported, with its pnccl* twin; r2ccl* functions as they are
  nothing else than nccl*, pnccl*, r2ccl* is
  functions.inc, from which the table of types is made, names all of them
  what the stock library exports is there, but for what no header of NCCL declares
  so is every name of every list in FOLDER (list_names.py made them: other versions of NCCL, what PyTorch wants)
  every nccl* function is weak and has a strong twin pnccl* at the same place: a profiler may replace the one and call
  the other
"""
import argparse
import pathlib
import re
import subprocess
import sys

# Lists that must be there: without them nothing would be compared.
OLDEST_LIST, NEWEST_LIST = "2.26.2.txt", "2.32.3.txt"
UNDECLARED = {"ncclResetDebugInitInternal"}
TWINS = re.compile(r"^R2CCL_TWINS\(.*?, (nccl[A-Z]\w*),", re.M)
EXTENSION = re.compile(r"^ncclResult_t (r2ccl[A-Z]\w*)\(", re.M)


def symbols(library):
    """{name: (kind, address)}"""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {name.split("@")[0]: (kind, address) for address, kind, name in map(str.split, out.splitlines())}


def exported(library):
    return set(symbols(library))


def listed(file):
    return {line for line in file.read_text().splitlines() if line and not line.startswith("#")}


def lists_without(ours, folder):
    lists = {file.name: listed(file) for file in sorted(pathlib.Path(folder).glob("*.txt"))}
    for name in (OLDEST_LIST, NEWEST_LIST):
        if len(lists.get(name, ())) < 60:
            yield f"{folder}/{name} is missing or nearly empty"
    missing = {}
    for file, names in lists.items():
        for name in names - ours:
            missing.setdefault(name, []).append(file.removesuffix(".txt"))
    for name, files in sorted(missing.items()):
        yield f"{name} is in the lists of {', '.join(files)} and not exported"


def bad_twins(found):
    for name, (kind, address) in sorted(found.items()):
        if not name.startswith("nccl"):
            continue
        if kind != "W" or found.get("p" + name) != ("T", address):
            yield f"{name} is not weak, or has no strong twin p{name} at the same place"


def declared(header):
    text = pathlib.Path(header).read_text()
    twins = set(TWINS.findall(text))
    return twins | {"p" + name for name in twins} | set(EXTENSION.findall(text))


def findings(arguments):
    found = symbols(arguments.library)
    ours = set(found)
    wanted = set().union(*(declared(header) for header in arguments.headers))
    if len(wanted) < 80:
        yield f"only {len(wanted)} declarations were found; the headers look different from what this script expects"
    for name in sorted(wanted - ours):
        yield f"{name} is declared and not exported"
    for name in sorted(ours):
        if not re.match(r"p?nccl[A-Z]|r2ccl[A-Z]", name):
            yield f"{name} is exported and should not be"
    yield from bad_twins(found)
    if arguments.names:
        yield from lists_without(ours, arguments.names)
    if arguments.functions:
        in_table = set(re.findall(r"^FUNCTION\((\w+)\)", pathlib.Path(arguments.functions).read_text(), re.M))
        for name in sorted(in_table ^ {name for name in wanted if name.startswith("nccl")}):
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
    parser.add_argument("--names")
    found = list(findings(parser.parse_args()))
    print("\n".join(found) or "the exports are as declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
