#!/usr/bin/env python3
"""A bare Debian 12, without any package of ours: the libraries load there, and two ranks run.

  chroot_test.py BUILD SOURCE CMAKE CC CXX

Needs root, debootstrap and the Debian mirror that apt is configured with. If one is missing it says so and ends with
77. It mounts only in a mount namespace of its own, and removes the chroot afterwards.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

from prefix import moved_prefix, output, run_ranks

RELEASE = "bookworm"
OURS = "/opt/r2ccl"
PRIVATE = ["unshare", "--mount", "--propagation", "private"]


def skip(sentence):
    print(f"skipped: {sentence}")
    sys.exit(77)


def mirror():
    """Where apt gets this release, if that answers."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
                             f"Release: {RELEASE}",
                             "Component: main"], capture_output=True, text=True).stdout.split()
    address = listed[0].rstrip("/") if listed else "http://deb.debian.org/debian"
    try:
        urllib.request.urlopen(f"{address}/dists/{RELEASE}/Release", timeout=20).close()
    except OSError as error:
        skip(f"the Debian mirror {address} does not answer: {error}")
    return address


def make_chroot(root):
    debootstrap = ["debootstrap", "--variant=minbase", RELEASE, str(root), mirror()]
    output(*PRIVATE, *debootstrap)
    present = [path.name for path in root.glob("usr/lib/*/*") if re.match(r"lib(sodium|hwy|fmt|nccl|r2ccl)", path.name)]
    if present:
        raise SystemExit(f"the bare system is not bare: it has {present}")


def main():
    build, source, cmake, compiler, _ = sys.argv[1:]
    if os.geteuid() != 0:
        skip("making a chroot needs root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without taking the chroot away
    with moved_prefix(cmake, build) as (folder, prefix):
        root = folder / "root"
        make_chroot(root)
        shutil.copytree(prefix, root / OURS.lstrip("/"), symlinks=True)
        drop_in = next(root.glob(f"{OURS.lstrip('/')}/lib*/**/libnccl.so.2")).parent
        output(compiler, pathlib.Path(source) / "examples/allreduce.c", f"-I{prefix}/include/r2ccl", f"-L{drop_in}",
               "-lnccl", "-o", root / "ranks")
        inside = [*PRIVATE, "chroot", root]
        for library in sorted(root.glob(f"{OURS.lstrip('/')}/**/*.so*")):
            place = f"/{library.relative_to(root)}"
            missing = [line for line in output(*inside, "ldd", "-r", place).splitlines()
                       if "not found" in line or "undefined" in line]
            if missing:
                raise SystemExit(f"{place} does not load in a bare Debian: {missing}")
            print(f"{place} loads")
        searched = f"LD_LIBRARY_PATH=/{drop_in.relative_to(root)}"
        proc = "mount -t proc proc proc && exec chroot . \"$@\""
        run_ranks("/ranks", "/ranks.id", before=[*PRIVATE, "sh", "-c", proc, "sh", "env", searched], cwd=root)
    if folder.exists():
        raise SystemExit(f"{folder} was left behind")


if __name__ == "__main__":
    sys.exit(main())
