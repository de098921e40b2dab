#!/usr/bin/env python3
"""Refuses what the architecture forbids, naming file, line and rule.

  includes   src/<folder>, and apps/, include only what their row of layers.txt allows; include paths start at src/ or at apps/;
             only tests include src/testing
  habits     no clock, sleep, environment, thread or printing below runtime/threads, except where the outside world begins
  commas     one statement does one thing: `a = 1, b = 2;` is two
  size       files stop at 800 lines and are mentioned above 400; lines of C++ at 120 columns; folders of src/ and apps/ at 25 files
  names      no two types at the level of a namespace and no two headers share a name: what links fine in one program is silently
             merged in the next (tests may name what is theirs as they like)
  headers    start with #pragma once; x.cc includes x.h before all else, which shows that x.h stands alone
  paths      no file names a place on somebody's machine
  promises   every test that docs/failure-model.md names exists

Prints one line per finding and exits 1 if there is any; warnings alone exit 0.
"""
import pathlib
import re
import sys

LINES_MAX = 800
LINES_AIM = 400
COLUMNS_MAX = 120
FILES_MAX = 25  # in a folder

# Where the outside world begins: only here may code read clocks, sleep, start threads, read the environment or print.
# (sim/side_by_side runs whole simulations side by side; each of them stays on one thread.)
OUTSIDE = ("env/real/", "apps/", "bindings/", "transport/tcp/", "runtime/threads/", "sim/side_by_side")
BANNED = {
    r"\b(?:steady|system|high_resolution)_clock\s*::\s*now\b": "reads a clock; take `now` as a parameter",
    r"\b(?:clock_gettime|gettimeofday)\s*\(": "reads a clock; take `now` as a parameter",
    r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b": "sleeps; return when to be called again instead",
    r"\b(?:getenv|secure_getenv|setenv)\s*\(": "touches the environment; settings are handed in",
    r"\b(?:f|v|vf)?printf\s*\(|\bputs\s*\(|\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b": "prints; use env's Log",
    r"\bstd::(?:jthread|thread|async)\b": "starts a thread; threads live in runtime/threads",
    r"\b(?:s?rand)\s*\(|\bstd::random_device\b": "draws random numbers; use env's Random",
}
BANNED = {re.compile(pattern): why for pattern, why in BANNED.items()}

# Namespaces do not indent, so what is declared inside one starts its line.
TYPE = re.compile(r"^(?:template\s*<[^\n]*>\s*)?(?:class|struct|union|enum(?:\s+class)?)\s+(?:alignas\([^)]*\)\s*)?(\w+)"
                  r"(?:\s+final)?\s*(?::[^:;{][^;{]*)?\{|^using\s+(\w+)\s*=", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# Spelt in parts so that this file passes its own check.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:" + "|".join(["home", "root", "work", "Users"]) + r")/\w")
# Of statements without what their brackets hold. A block ends one, but not a list of values behind a name, or a lambda.
BLOCK = re.compile(r"(?:^|\)|\b(?:else|do|try|const|override|noexcept|final)|namespace [\w:]*|struct \w+)\s*\{\}$")
HEADER = re.compile(r"^(?:(?:if|for|while|switch)(?: constexpr)? ?\(\)|else\b|do\b|"
                    r"(?:case [\w:]+|default|public|private|protected) ?:(?!:)) *")
TEMPLATE_ARGUMENTS = re.compile(r"(?<=\w)<[^<>;=]*>")
# What is done, and not the first of several names that are declared.
PLACE = r"[\w:.>\[\]()-]+"
DONE = re.compile(r"^(?:(?:return|throw)\b.*|(?:\+\+|--).*|.*(?:\+\+|--)|" + PLACE + r"\(\)|"
                  r"\*?" + PLACE + r" ?(?:[-+*/|&^%]|<<|>>)?=(?!=).*)$")

NAMED_TEST = re.compile(r"`([A-Z]\w+\.[A-Z]\w+)`")
TEST_DEFINITION = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)
TEXT_SUFFIXES = {".h", ".cc", ".cu", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yml", ".svg", ""}


def read_layers(text):
    """{folder: [allowed folder or folder/header]} from layers.txt."""
    rows = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, _, allowed = line.partition(":")
            rows[folder.strip()] = allowed.split()
    return rows


def strip_comments_and_strings(text):
    """Blanks comments, string and character literals; keeps line breaks."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def check_includes(path, text, layers):
    """`path` is relative to src/, or starts with apps/."""
    folder = path.split("/")[0]
    may_test = folder == "testing" or path.endswith("_test.cc")
    row = layers.get(folder)
    if row is None:
        yield 1, f"folder {folder} has no row in layers.txt"
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        included = found.group(1)
        target = included.split("/")[0]
        if "/" not in included or ".." in included:
            yield number, f'"{included}": include paths start at src/'
        elif target == "testing":
            if not may_test:
                yield number, f'"{included}": only tests include testing'
        elif target != folder and target not in row and included not in row:
            yield number, f'"{included}": {folder} may include only {" ".join(row) or "itself"}'


def check_habits(path, text):
    if path.startswith(OUTSIDE):
        return
    for number, line in enumerate(strip_comments_and_strings(text).splitlines(), 1):
        for pattern, why in BANNED.items():
            found = pattern.search(line)
            if found:
                yield number, f"`{found.group(0).strip(' (')}` {why}"


def statements(text):
    """(line, statement) of what ends with a semicolon outside parentheses. What brackets hold is left out of it; blocks among that
    are looked at by themselves."""
    text = re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\\n)*", "", strip_comments_and_strings(text))
    outer, said, line = [], [], 1  # outer: what was said before each bracket that is open
    for char in text:
        if char in "([{":
            outer.append((char, said + [(line, char)]))
            said = []
        elif char in ")]}" and outer:
            said = outer.pop()[1] + [(line, char)]
        elif char == ";" and (not outer or outer[-1][0] == "{"):
            words = "".join(char for _, char in said)
            first = next((number for number, char in said if not char.isspace()), line)
            yield first, " ".join(words.split())
            said = []
            continue
        else:
            said.append((line, char))
        if char == "\n":
            line += 1
        if char == "}" and (not outer or outer[-1][0] == "{") and BLOCK.search("".join(char for _, char in said)):
            said = []


def check_commas(text):
    for number, statement in statements(text):
        while (rest := HEADER.sub("", statement, count=1)) != statement:
            statement = rest
        while (rest := TEMPLATE_ARGUMENTS.sub("", statement)) != statement:
            statement = rest
        first, comma, _ = statement.partition(",")
        if comma and DONE.match(first.strip()):
            yield number, f"`{first.strip()}, …` is two statements; in braces where there is one"


def check_header(text):
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("//"):
            if line.strip() != "#pragma once":
                yield number, "a header starts with #pragma once"
            return


def check_own_header(path, text):
    """`path` is relative to src/, or starts with apps/, and has a header beside it."""
    own = path.removesuffix(".cc") + ".h"
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*#\s*include\b", line):
            found = INCLUDE.match(line)
            if not found or found.group(1) != own:
                yield number, f'the first include is "{own}": so each header is shown to stand alone'
            return


def check_columns(text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns; lines stop at {COLUMNS_MAX}"


def types_of(text):
    """(line, name) of every type at the level of a namespace that this source defines."""
    bare = strip_comments_and_strings(text)
    for found in TYPE.finditer(bare):
        yield bare.count("\n", 0, found.start()) + 1, found.group(1) or found.group(2)


def check_names(sources):
    """`sources`: {path: text} of the product. Finds a second type or header of the same name."""
    headers, types = {}, {}
    for path, text in sorted(sources.items()):
        if path.endswith(".h"):
            first = headers.setdefault(path.rsplit("/", 1)[-1], path)
            if first != path:
                yield path, 1, f"a header of this name is at {first}, too"
        for number, name in types_of(text):
            first = types.setdefault(name, path)
            if first != path:
                yield path, number, f"`{name}` is a type of {first}, too"


def check_machine_paths(text):
    for number, line in enumerate(text.splitlines(), 1):
        found = MACHINE_PATH.search(line)
        if found:
            yield number, f"`{found.group(0)}` names a place on one machine"


def check_named_tests(text, tests):
    """`Suite.Test` in backquotes must be one of `tests`."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAMED_TEST.findall(line):
            if name not in tests:
                yield number, f"there is no test {name}"


def findings_of_source(path, text, layers):
    """All errors of one file of src/ or apps/; `path` is relative to src/, or starts with apps/."""
    yield from check_includes(path, text, layers)
    yield from check_habits(path, text)
    yield from check_commas(text)


def check_tree(root):
    """(errors, warnings) of the whole project, as printable lines."""
    errors, warnings = [], []
    layers = read_layers((root / "layers.txt").read_text())
    tests, promises, product = set(), [], {}
    files_in = {}
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = list(check_machine_paths(text))
        if path.suffix == ".h":
            found += check_header(text)
        if name.startswith(("src/", "apps/")) and path.suffix in (".h", ".cc"):
            found += findings_of_source(name.removeprefix("src/"), text, layers)
            if not name.endswith("_test.cc"):
                product[name] = text
            if path.suffix == ".cc" and path.with_suffix(".h").exists():
                found += check_own_header(name.removeprefix("src/"), text)
        if path.suffix in (".h", ".cc", ".cu"):
            found += check_columns(text)
        if name.startswith(("src/", "apps/")):
            files_in[path.parent] = files_in.get(path.parent, 0) + 1
        if path.name.endswith("_test.cc"):
            tests.update(f"{suite}.{test}" for suite, test in TEST_DEFINITION.findall(text))
        if path.name == "failure-model.md":
            promises.append((name, text))
        lines = text.count("\n")
        if path.suffix in (".h", ".cc", ".cu", ".py") and lines > LINES_MAX:
            found.append((LINES_MAX, f"{lines} lines; files stop at {LINES_MAX}"))
        elif path.suffix in (".h", ".cc", ".cu", ".py") and lines > LINES_AIM:
            warnings.append(f"{name}: warning: {lines} lines; aim under {LINES_AIM}")
        errors += [f"{name}:{number}: {what}" for number, what in sorted(found)]
    errors += [f"{name}:{number}: {what}" for name, number, what in check_names(product)]
    errors += [f"{folder.relative_to(root)}: {count} files; folders stop at {FILES_MAX}"
               for folder, count in sorted(files_in.items()) if count > FILES_MAX]
    for name, text in promises:
        errors += [f"{name}:{number}: {what}" for number, what in check_named_tests(text, tests)]
    return errors, warnings


def files_of(root):
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if parts[0] in (".git", ".cache") or parts[0].startswith("build") or "__pycache__" in parts:
            continue
        if path.is_file() and path.suffix in TEXT_SUFFIXES:
            yield path


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    errors, warnings = check_tree(root)
    for line in warnings + errors:
        print(line)
    print(f"layers: {len(errors)} findings, {len(warnings)} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
