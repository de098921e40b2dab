#!/usr/bin/env python3
"""`r2ccl exec` from a build tree and from a prefix that was moved: whose libnccl.so.2 a program gets.

  exec_test.py BUILD SOURCE CMAKE CC CXX

The program is linked with a library that needs libnccl.so.2 and brings its own path to a stand-in for NVIDIA's, as
PyTorch's libraries do: once as DT_RPATH, which the loader asks before LD_LIBRARY_PATH, once as DT_RUNPATH, which it
asks after.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from prefix import moved_prefix, output

THEIRS = "99999"
STAND_IN = "int ncclGetVersion(int* version) { *version = %s; return 0; }\n" % THEIRS
FRAMEWORK = ("int ncclGetVersion(int*);\n"
             "int nccl_version(void) { int version = 0; ncclGetVersion(&version); return version; }\n")
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  if (argc > 2 && dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) == NULL) return puts(dlerror()), 1;
  void* framework = dlopen(argv[1], RTLD_NOW);
  if (framework == NULL) return puts(dlerror()), 1;
  printf("%d\\n", ((int (*)(void))dlsym(framework, "nccl_version"))());
  return 0;
}
"""


def expect(right, sentence):
    if not right:
        raise SystemExit(sentence)


def build_programs(folder, compiler):
    """Returns {kind: the framework's library}, and the program that loads one of them, after another library if one is
    named."""
    (folder / "theirs").mkdir()
    sources = {"theirs": STAND_IN, "framework": FRAMEWORK, "program": PROGRAM, "other": "int other_preload = 1;\n"}
    for name, text in sources.items():
        (folder / f"{name}.c").write_text(text)
    stand_in = folder / "theirs/libnccl.so.2"
    shared = [compiler, "-shared", "-fPIC"]
    output(*shared, folder / "theirs.c", "-Wl,-soname,libnccl.so.2", "-o", stand_in)
    output(*shared, folder / "other.c", "-o", folder / "libother.so")
    frameworks = {}
    for kind, tags in (("DT_RPATH", "--disable-new-dtags"), ("DT_RUNPATH", "--enable-new-dtags")):
        frameworks[kind] = folder / f"lib{kind}.so"
        output(*shared, folder / "framework.c", stand_in, f"-Wl,{tags},-rpath,{folder / 'theirs'}", "-o",
               frameworks[kind])
        tagged = re.findall(r"\((RPATH|RUNPATH)\)", output("readelf", "-dW", frameworks[kind]))
        expect(tagged == [kind.removeprefix("DT_")], f"the linker made {tagged} of {tags}")
    output(compiler, folder / "program.c", "-o", folder / "program", "-ldl")
    return frameworks, folder / "program"


def check_whose(tool, frameworks, program, ours):
    """The table: how ours is offered, and whose it then is."""
    nccl = output(tool, "paths", "--nccl").strip()
    plain = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    searched = {**plain, "LD_LIBRARY_PATH": str(pathlib.Path(nccl).parent)}
    table = [
        ("nothing offered", [], plain, [], (THEIRS, THEIRS)),
        ("LD_LIBRARY_PATH", [], searched, [], (THEIRS, ours)),
        ("r2ccl exec", [tool, "exec", "--"], plain, [], (ours, ours)),
        ("LD_PRELOAD", [], {**plain, "LD_PRELOAD": nccl}, [], (ours, ours)),
        ("loaded first by its path", [], plain, [nccl], (ours, ours)),
        ("r2ccl exec --plugin", [tool, "exec", "--plugin", "--"], plain, [], (THEIRS, THEIRS)),
        ("r2ccl exec --plugin within r2ccl exec", [tool, "exec", "--", tool, "exec", "--plugin", "--"], plain, [],
         (THEIRS, THEIRS)),
    ]
    for way, before, environment, after, wanted in table:
        got = tuple(output(*before, program, frameworks[kind], *after, env=environment).strip()
                    for kind in ("DT_RPATH", "DT_RUNPATH"))
        expect(got == wanted, f"{way}: {got} instead of {wanted}")


def check_environment(tool, folder):
    nccl, plugin = (output(tool, "paths", option).strip() for option in ("--nccl", "--plugin"))
    other = folder / "libother.so"

    def variable(name, *command, **more):
        return output(*command, "sh", "-c", f'echo "${name}"', env={**os.environ, **more}).strip()

    run = [tool, "exec", "--"]
    expect(variable("LD_PRELOAD", *run) == nccl, "LD_PRELOAD is not our library alone")
    expect(variable("LD_PRELOAD", *run, LD_PRELOAD=str(other)) == f"{nccl}:{other}",
           "what was preloaded is not kept, after ours")
    expect(variable("LD_PRELOAD", *run, *run, LD_PRELOAD=f" {other}  {nccl}") == f"{nccl}:{other}",
           "ours is preloaded twice")
    with_plugin = [tool, "exec", "--plugin", "--"]
    expect(variable("NCCL_NET_PLUGIN", *with_plugin, NCCL_NET_PLUGIN="none") == plugin,
           "NCCL_NET_PLUGIN is not our plugin's path")
    expect(variable("LD_PRELOAD", *with_plugin, LD_PRELOAD=f"{other}") == str(other),
           "--plugin changes what is preloaded")
    output(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).ncclNetPlugin_v12", plugin)


def check_end(tool):
    """The program takes the tool's place: same process, its own status."""
    child = subprocess.Popen([tool, "exec", "--", "sh", "-c", "echo $$; exit 37"], stdout=subprocess.PIPE, text=True)
    pid = child.communicate()[0].strip()
    expect(child.returncode == 37, f"exit 37 came back as {child.returncode}")
    expect(pid == str(child.pid), "the program is not the process that was started")
    killed = subprocess.run([tool, "exec", "--plugin", "--", "sh", "-c", "kill -9 $$"]).returncode
    expect(killed == -9, f"a program that was killed came back as {killed}")


def check_sentences(tool, folder):
    def refused(status, words, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        lines = done.stderr.splitlines()
        said = len(lines) == 1 and all(word in lines[0] for word in words)
        expect(done.returncode == status and said and not done.stdout,
               f"{command} ended with {done.returncode}: {done.stderr}{done.stdout}")

    refused(127, ["/no/such/program", "No such file"], tool, "exec", "--", "/no/such/program")
    refused(127, [str(folder), "denied"], tool, "exec", "--plugin", "--", folder)
    refused(2, ["program"], tool, "exec")
    alone = folder / "alone/bin/r2ccl"
    alone.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(tool, alone)
    lost = str(folder / "alone/lib")
    refused(2, ["our libnccl.so.2 is not beside this tool", lost, "drop-in"], alone, "exec", "--", "true")
    refused(2, ["the net plugin is not beside this tool", lost, "--component plugin"], alone, "exec", "--plugin",
            "--", "true")
    refused(2, ["headers", "--component development"], alone, "paths", "--include")
    spaced = folder / "a place/bin/r2ccl"
    spaced.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(tool, spaced)
    (spaced.parent.parent / "lib/r2ccl").mkdir(parents=True, exist_ok=True)
    shutil.copy(output(tool, "paths", "--nccl").strip(), spaced.parent.parent / "lib/r2ccl")
    refused(2, ["a place", "space"], spaced, "exec", "--", "true")


def main():
    build, source, cmake, compiler, _ = sys.argv[1:]
    header = (pathlib.Path(source) / "include/nccl.h").read_text()
    ours = re.search(r"^#define NCCL_VERSION_CODE (\d+)$", header, re.M).group(1)
    with moved_prefix(cmake, build) as (folder, prefix):
        frameworks, program = build_programs(folder, compiler)
        for tool in (pathlib.Path(build).resolve() / "bin/r2ccl", prefix / "bin/r2ccl"):
            check_whose(tool, frameworks, program, ours)
            check_environment(tool, folder)
            check_end(tool)
            check_sentences(tool, folder)
    print("exec: from the build tree and from a moved prefix")


if __name__ == "__main__":
    sys.exit(main())
