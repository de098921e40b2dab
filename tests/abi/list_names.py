#!/usr/bin/env python3
"""Writes the lists of names that stock NCCL exports, from NVIDIA's wheels on PyPI. By hand: each wheel has some 300 MB.

  list_names.py                 every version from 2.26 to the newest, those that have no list yet
  list_names.py 2.30.7 2.31.2   these, again
  list_names.py --torch 2.9.1   the names that this version of PyTorch wants of NCCL
  list_names.py --headers DIR   also keeps each version's headers, in DIR/VERSION

One wheel is on the disk at a time. A list is names/VERSION.txt: what the CUDA 12 and CUDA 13 wheels of that version
export together.

A host name is a dynamic symbol that is defined, that is named (p)nccl and a capital letter, and whose name, without
that p, is in the wheel's public headers: nccl*.h and nccl_device/. Everything else is left out, and the first line of
each list says what: C++'s mangled names, the linker's own, and insides that were exported by oversight (2.30.3 and
2.30.4 show a C++ registry whose layout nobody else can have). Kernels and other device functions are in the embedded
GPU code, not among the dynamic symbols.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
OLDEST = (2, 26)
PUBLIC_HEADERS = r"/include/(nccl[^/]*|nccl_device/.*)\.h$"
HOST_NAME = re.compile(r"p?nccl[A-Z]\w*")
NAMES = pathlib.Path(__file__).resolve().parent / "names"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def versions(package):
    line = re.search(r"^Available versions: (.*)$", output(*PIP, "index", "versions", package), re.M)
    return [version for version in line.group(1).split(", ") if order(version)[:2] >= OLDEST]


def order(version):
    return tuple(int(number) for number in re.findall(r"\d+", version))


def download(requirement, folder):
    output(*PIP, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement)
    (wheel,) = folder.glob("*.whl")
    return wheel


def extract(wheel, matching, folder):
    """The files of the wheel whose names match; the wheel is gone afterwards."""
    with zipfile.ZipFile(wheel) as archive:
        found = [archive.extract(name, folder) for name in archive.namelist() if re.search(matching, name)]
    wheel.unlink()
    return [pathlib.Path(name) for name in found]


def symbols(library, *options):
    lines = output("nm", "--dynamic", "--portability", *options, str(library)).splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def mentioned(headers):
    return {name for header in headers for name in re.findall(r"\w+", header.read_text(errors="replace"))}


def write(file, made_from, left_out, names):
    without = f" Left out: {' '.join(sorted(left_out))}." if left_out else ""
    lines = [f"# {made_from}{without}", "# Made by tests/abi/list_names.py.", *sorted(names)]
    file.write_text("".join(f"{line}\n" for line in lines))
    print(f"{file.name}: {len(names)} names.{without}", flush=True)


def list_nccl(version, packages, kept_headers):
    names, left_out = set(), set()
    for package in packages:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download(f"{package}=={version}", pathlib.Path(folder))
            files = extract(wheel, r"/libnccl\.so\.2$|" + PUBLIC_HEADERS, folder)
            (library,) = [file for file in files if file.name == "libnccl.so.2"]
            headers = [file for file in files if file != library]
            known = mentioned(headers)
            exported = symbols(library, "--defined-only")
            for header in headers if kept_headers else []:
                kept = kept_headers / version / str(header).partition("/include/")[2]
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(header, kept)
        mine = {name for name in exported if HOST_NAME.fullmatch(name) and name.removeprefix("p") in known}
        if names and mine != names:
            print(f"{version}: the packages differ in {' '.join(sorted(mine ^ names))}", flush=True)
        names |= mine
        left_out |= exported - mine
    made_from = f"What libnccl.so.2 of {' and '.join(packages)} {version} exports."
    write(NAMES / f"{version}.txt", made_from, left_out, names)


def list_torch(version):
    names = set()
    with tempfile.TemporaryDirectory() as folder:
        wheel = download(f"torch=={version}", pathlib.Path(folder))
        for library in extract(wheel, r"\.so$", folder):
            names |= {name for name in symbols(library, "--undefined-only") if HOST_NAME.fullmatch(name)}
    made_from = f"What the libraries of PyTorch {version} leave undefined and NCCL has to define."
    write(NAMES / f"torch-{version}.txt", made_from, [], names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--torch", metavar="VERSION")
    parser.add_argument("--headers", type=pathlib.Path)
    arguments = parser.parse_args()
    NAMES.mkdir(exist_ok=True)
    if arguments.torch:
        list_torch(arguments.torch)
        return
    offered = {package: versions(package) for package in PACKAGES}
    every = sorted(set().union(*offered.values()), key=order)
    wanted = arguments.versions or [version for version in every if not (NAMES / f"{version}.txt").exists()]
    for version in wanted:
        packages = [package for package in PACKAGES if version in offered[package]]
        if not packages:
            sys.exit(f"{version} is not on PyPI; there are {' '.join(every)}")
        list_nccl(version, packages, arguments.headers)


if __name__ == "__main__":
    main()
