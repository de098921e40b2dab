"""For the tests of an installation: a prefix that was moved after it was installed."""
import contextlib
import pathlib
import subprocess
import tempfile


def output(*command, **options):
    """What a command says; where it fails, that and what it said is the test's failure."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def moved_prefix(cmake, build):
    """(folder for the test's own files, prefix). Both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="r2ccl-install-") as folder:
        folder = pathlib.Path(folder)
        output(cmake, "--install", build, "--prefix", folder / "first")
        (folder / "first").rename(folder / "moved")
        yield folder, folder / "moved"


def run_ranks(program, id_file, ranks=2, before=(), **options):
    """Runs `program RANK RANKS ID_FILE` as every rank, with `before` in front of it; all must end well. The id file
    must not exist yet."""
    children = [subprocess.Popen([str(word) for word in (*before, program, rank, ranks, id_file)], **options)
                for rank in range(ranks)]
    if any([child.wait(60) != 0 for child in children]):
        raise SystemExit(f"a rank of {program} failed")
