#!/usr/bin/env python3
"""Installs into a prefix, moves it, and uses it as strangers do.

  install_test.py BUILD SOURCE CMAKE CC CXX
"""
import pathlib
import re
import subprocess
import sys

from prefix import moved_prefix, output, run_ranks
from shape import too_new

HERE = pathlib.Path(__file__).resolve().parent


def expect(right, sentence):
    if not right:
        raise SystemExit(sentence)


def files(folder):
    """Relative to it. CMake's files for the type of this build have the name of those for all."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return {re.sub(r"-[a-z]+\.cmake$", ".cmake", name) for name in names}


def check_components(cmake, build, folder, prefix, libraries):
    """Each part alone brings its files, all together bring all, and no two bring the same."""
    package = f"{libraries}/cmake/r2ccl"
    version = (HERE / "../../VERSION").read_text().strip()
    parts = {
        "runtime": {f"{libraries}/libr2ccl.so.{version}", f"{libraries}/libr2ccl.so.0"},
        "development": {"include/r2ccl/nccl.h", "include/r2ccl/r2ccl.h", f"{libraries}/libr2ccl.so",
                        f"{libraries}/r2ccl/libnccl.so", f"{libraries}/pkgconfig/r2ccl.pc",
                        f"{package}/r2cclConfig.cmake", f"{package}/r2cclConfigVersion.cmake",
                        f"{package}/r2cclTargets.cmake"},
        "drop-in": {f"{libraries}/r2ccl/libnccl.so.2", f"{package}/r2cclDropIn.cmake"},
        "plugin": {f"{libraries}/libnccl-net-r2ccl.so"},
        "tools": {"bin/r2ccl"},
    }
    for component, wanted in parts.items():
        output(cmake, "--install", build, "--prefix", folder / component, "--component", component)
        found = files(folder / component)
        expect(found == wanted, f"component {component} brings {sorted(found ^ wanted)} too much or not")
    found = files(prefix)
    expect(found == set().union(*parts.values()),
           f"the components do not bring {sorted(found ^ set().union(*parts.values()))}")
    return version


def check_headers(compilers, folder, prefix):
    """Each alone, as C and as C++, on a machine that also has another nccl.h."""
    (folder / "foreign").mkdir()
    (folder / "foreign/nccl.h").write_text("#error this is not the one beside r2ccl.h\n")
    for header in sorted((prefix / "include/r2ccl").iterdir()):
        for compiler, language, standard in ((compilers[0], "c", "c99"), (compilers[1], "c++", "c++11")):
            output(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   f"-I{folder / 'foreign'}", "-x", language, "-", input=f'#include "{header}"\n')


def check_programs(compilers, folder, prefix, libraries, source, version):
    """One in C, one in C++, by pkg-config; then a CMake project."""
    environment = {"PKG_CONFIG_PATH": str(prefix / libraries / "pkgconfig"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    expect(output("pkg-config", "--modversion", "r2ccl", env=environment).strip() == version,
           "r2ccl.pc has another version")
    flags = output("pkg-config", "--cflags", "--libs", "r2ccl", env=environment).split()
    rpath = f"-Wl,-rpath,{prefix / libraries}"
    output(compilers[0], source / "examples/allreduce.c", "-o", folder / "in_c", *flags, rpath)
    output(compilers[1], "-std=c++11", HERE / "use.cc", "-o", folder / "in_cxx", *flags, rpath)
    for program in ("in_c", "in_cxx"):
        run_ranks(folder / program, folder / f"{program}.id")


def check_project(cmake, compilers, folder, prefix, libraries, version):
    options = [f"-DCMAKE_CXX_COMPILER={compilers[1]}", f"-Dr2ccl_ROOT={prefix}"]
    output(cmake, "-S", HERE / "project", "-B", folder / "project", *options, f"-DWANTED={version}")
    output(cmake, "--build", folder / "project")
    for name, library in (("r2ccl", f"{libraries}/libr2ccl.so.0"), ("nccl", f"{libraries}/r2ccl/libnccl.so.2")):
        program = folder / "project" / f"use_{name}"
        expect(f"=> {prefix / library} (" in output("ldd", program), f"{program} does not load {library} of the prefix")
        run_ranks(program, folder / f"{name}.id")
    refused = subprocess.run([cmake, "-S", HERE / "project", "-B", folder / "refused", *options, "-DWANTED=0.1"],
                             capture_output=True)
    expect(refused.returncode != 0, "version 0.1 was asked for, and this one, which promises nothing to it, was taken")


def check_tool(prefix, libraries, source, version):
    """It says the version of everything that is there, and works."""
    tool = prefix / "bin/r2ccl"
    expect(not too_new(tool), f"the tool needs glibc {too_new(tool)}")
    nccl = ".".join(re.findall(r"^#define NCCL_(?:MAJOR|MINOR|PATCH) (\d+)$", (source / "include/nccl.h").read_text(),
                               re.M))
    symbols = output("nm", "-D", "--defined-only", prefix / libraries / "libnccl-net-r2ccl.so")
    plugin = sorted(map(int, re.findall(r"ncclNetPlugin_v(\d+)$", symbols, re.M)))
    expect(plugin == list(range(plugin[0], plugin[-1] + 1)), f"the plugin offers {plugin}")
    wire = re.search(r"kProtocolVersion = (\d+)", (source / "src/transport/stream/handshake.h").read_text()).group(1)
    wanted = f"r2ccl {version} (NCCL API {nccl}, net plugin v{plugin[0]}-v{plugin[-1]}, wire protocol {wire})\n"
    said = output(tool, "--version")
    expect(said == wanted, f"--version says {said!r} instead of {wanted!r}")
    wanted = [prefix / libraries / "r2ccl/libnccl.so.2", prefix / libraries / "libnccl-net-r2ccl.so",
              prefix / "include/r2ccl"]
    expect(output(tool, "paths").split() == list(map(str, wanted)), f"paths says {output(tool, 'paths')}")
    for option, path in zip(("--nccl", "--plugin", "--include"), wanted):
        expect(output(tool, "paths", option) == f"{path}\n", f"paths {option} says {output(tool, 'paths', option)}")
    output(tool, "perf", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "-w", "1", "--servers", "2", "--nics", "2")


def check_version_is_refused(cmake, folder, source):
    """A header with another version than VERSION does not configure."""
    copy = folder / "versions"
    for name in ("cmake/Version.cmake", "include/r2ccl.h", "VERSION"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text((source / name).read_text())
    output(cmake, "-P", copy / "cmake/Version.cmake")
    (copy / "VERSION").write_text("0.2.1\n")
    refused = subprocess.run([cmake, "-P", copy / "cmake/Version.cmake"], capture_output=True, text=True)
    expect(refused.returncode != 0 and "VERSION says 0.2.1" in refused.stderr, "a header of another version was taken")


def main():
    build, source, cmake, *compilers = sys.argv[1:]
    source = pathlib.Path(source)
    libraries = re.search(r"^CMAKE_INSTALL_LIBDIR:PATH=(.*)$", (pathlib.Path(build) / "CMakeCache.txt").read_text(),
                          re.M).group(1)
    with moved_prefix(cmake, build) as (folder, prefix):
        version = check_components(cmake, build, folder, prefix, libraries)
        check_headers(compilers, folder, prefix)
        check_programs(compilers, folder, prefix, libraries, source, version)
        check_project(cmake, compilers, folder, prefix, libraries, version)
        check_tool(prefix, libraries, source, version)
        check_version_is_refused(cmake, folder, source)
    print(f"version {version}: installed, moved and used")


if __name__ == "__main__":
    sys.exit(main())
