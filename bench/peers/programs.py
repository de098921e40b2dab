"""The programs that are measured beside each other: built where their packages are, and what they print."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "bench" / "peers"
BUILD = ROOT / "build"
TOOL = BUILD / "bin" / "r2ccl"
LIMIT_S = 600  # of one program


def build(folder):
    """Those that can be built here, by name; ours must."""
    flags = ["-O3", "-march=native", "-std=c++17"]
    commands = {
        "r2ccl": ["g++", *flags, f"-I{ROOT}/include", PEERS / "ours.cc", f"-L{BUILD}/lib", "-lr2ccl", f"-Wl,-rpath,{BUILD}/lib"],
        "Open MPI": ["mpicxx", *flags, PEERS / "mpi.cc"],
        "Gloo": ["g++", *flags, PEERS / "gloo.cc", "-lgloo", "-pthread"],
    }
    made = {}
    for name, command in commands.items():
        program = folder / name.replace(" ", "_")
        found = shutil.which(command[0])
        done = found and subprocess.run([*map(str, command), "-o", str(program)], capture_output=True, text=True)
        if done and done.returncode == 0:
            made[name] = program
        elif name == "r2ccl":
            sys.exit("bench: the library is not built; run `make` first" + (f"\n{done.stderr}" if done else ""))
        else:
            print(f"bench: {name} is left out: it is not installed", file=sys.stderr)
    return made


def start(command, **options):
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **options)


def time_of(processes, limit_s=LIMIT_S):
    """Microseconds, from the line that one of them prints; None if none did."""
    micros = None
    for process in processes:
        try:
            out, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            for one in processes:
                one.kill()
            sys.exit("bench: a program did not end in time")
        for line in out.splitlines():
            micros = float(line.split()[1])
    return micros


def show_progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def ladder(first, last):
    """By fours, and the last."""
    sizes = []
    while first < last:
        sizes.append(first)
        first *= 4
    return [*sizes, last]
