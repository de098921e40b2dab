"""What the plugin's file needs and shows: nothing but the C and C++ run-time, and NCCL's symbols."""
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
SHOWN = {f"ncclNetPlugin_v{version}" for version in range(8, 13)}


def main(path):
    dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    symbols = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    shown = {line.split()[-1] for line in symbols.splitlines()}
    wrong = []
    if not needed or needed - ALLOWED:
        wrong.append(f"needs {sorted(needed - ALLOWED) or 'nothing'}")
    if shown != SHOWN:
        wrong.append(f"shows {sorted(shown ^ SHOWN)} too much or not")
    for line in wrong:
        print(f"{path} {line}")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1]))
