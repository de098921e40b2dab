#!/usr/bin/env python3
"""Prints the sources that clang-tidy has to see for this tree, one a line; why, to stderr.

All that differ from the commit in .ci/passed, where .ci/run passed last, and of the others every tenth, another tenth each time that
file has changed: so every source is seen at least once in ten recorded runs. A header is seen through the source that goes with it, or
through the first one that includes it. Where that commit is not known here, or the rules themselves have changed: all sources.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSED = ".ci/passed"
RULES = {".clang-tidy"}
SHARES = 10
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def choose(sources, changed, share):
    """`sources`: {path: headers it includes, as they are written}; `changed`: paths; `share`: which tenth of the rest."""
    if changed is None or changed & RULES:
        return sorted(sources)
    chosen = {path for path in sources if path in changed}
    for header in sorted(path for path in changed if path.startswith(("src/", "apps/")) and path.endswith(".h")):
        own = header[:-2] + ".cc"
        users = sorted(path for path, includes in sources.items() if header.removeprefix("src/") in includes)
        chosen.update([own] if own in sources else users[:1])
    rest = sorted(set(sources) - chosen)
    return sorted(chosen | set(rest[share % SHARES::SHARES]))


def git(*arguments):
    ran = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return ran.stdout if ran.returncode == 0 else None


def changed_since(commit):
    """Paths that differ from the commit, those that git does not know yet included; nothing where it is not in this history."""
    if not commit or git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    differ, unknown = git("diff", "--name-only", commit), git("ls-files", "--others", "--exclude-standard")
    return None if differ is None or unknown is None else set((differ + unknown).splitlines())


def read_sources():
    found = {}
    for path in (*(ROOT / "src").rglob("*.cc"), *(ROOT / "apps").rglob("*.cc")):
        if not path.name.endswith("_test.cc"):
            found[path.relative_to(ROOT).as_posix()] = set(INCLUDE.findall(path.read_text()))
    return found


def main():
    passed = ROOT / PASSED
    commit = passed.read_text().split()[0] if passed.exists() else ""
    changed = changed_since(commit)
    share = len((git("log", "--format=%h", "--", PASSED) or "").split())
    sources = read_sources()
    chosen = choose(sources, changed, share)
    why = "all: no commit that passed is known here" if changed is None else (
        f"{len(chosen)} of {len(sources)}: what changed since {commit[:9]} and share {share % SHARES} of {SHARES} of the rest")
    print(f"tidy: {why}", file=sys.stderr)
    print("\n".join(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
