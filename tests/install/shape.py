#!/usr/bin/env python3
"""What a library that programs load needs and shows.

  shape.py LIBRARY SHOWN     SHOWN: a regular expression; every symbol that the library shows matches it

  it needs nothing but libc, libm, libstdc++ and libgcc (and the loader), and no glibc newer than 2.34
  nothing of what is linked into it is to be seen, or is looked for elsewhere
"""
import re
import sys

from prefix import output

ALLOWED = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
GLIBC = (2, 34)
LINKED_IN = re.compile(r"\b(fmt|hwy)::|^(sodium|crypto|randombytes)_")


def too_new(program):
    """The versions of glibc that it names and that are newer than those we promise to do with."""
    versions = {tuple(map(int, text.split(".")))
                for text in re.findall(r"GLIBC_([0-9.]+)", output("objdump", "-T", program))}
    if not versions:
        raise SystemExit(f"objdump finds no glibc in {program}")
    return [".".join(map(str, version)) for version in sorted(versions) if version > GLIBC]


def findings(library, shown):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", library)))
    if not needed or needed - ALLOWED:
        yield f"needs {sorted(needed - ALLOWED) or 'nothing at all'}"
    if too_new(library):
        yield f"needs glibc {too_new(library)}"
    symbols = [line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    wrong = [name for name in symbols if not re.fullmatch(shown, name)]
    if not symbols or wrong:
        yield f"shows {wrong or 'nothing'}"
    for line in output("nm", "-DC", "--undefined-only", library).splitlines():
        name = line.split(maxsplit=1)[1]
        if LINKED_IN.search(name):
            yield f"looks for {name} elsewhere"


def main():
    library, shown = sys.argv[1:]
    found = [f"{library} {finding}" for finding in findings(library, shown)]
    print("\n".join(found) or f"{library}: as it should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
