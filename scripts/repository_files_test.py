#!/usr/bin/env python3
"""Goal: files that only hosting sites and editors read are not broken without a word. Method: what they name must exist."""
import json
import os
import pathlib
import re
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKFLOW = ROOT / ".github/workflows/ci.yml"
FORMS = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
YAML_FILES = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".clangd"]
# A word of a command that can only be a file of ours: a relative path with a slash in it.
OUR_PATH = re.compile(r"(?<![\w/$\"'.-])((?:\./)?\.?\w[\w.-]*(?:/[\w.-]+)+)(?![\w/])")


def commands(text):
    """Every `run:` of a workflow, a block (`run: |`) as its lines."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"( *)(?:- )?run: *(.*)", line)
        if not found:
            continue
        if not found.group(2).startswith(("|", ">")):
            yield found.group(2)
            continue
        for follower in lines[number + 1:]:
            if follower.strip() and len(follower) - len(follower.lstrip()) <= len(found.group(1)):
                break
            yield follower.strip()


def missing(command, root):
    """Files of ours that the command names and that are not there, or that it starts and that can not be executed."""
    paths = OUR_PATH.findall(command)
    gone = [path for path in paths if not (root / path).exists()]
    first = command.split()[0] if command.split() else ""
    if first in paths and first not in gone and not os.access(root / first, os.X_OK):
        gone.append(first)
    return gone


class Workflow(unittest.TestCase):
    def test_what_it_runs_is_in_the_tree(self):
        found = list(commands(WORKFLOW.read_text()))
        self.assertIn(".ci/run", found)
        for command in found:
            self.assertEqual(missing(command, ROOT), [], command)

    def test_a_command_that_is_not_there_is_found(self):
        self.assertEqual(missing(".ci/jump --all", ROOT), [".ci/jump"])
        self.assertEqual(missing("make && scripts/no_such_script", ROOT), ["scripts/no_such_script"])
        self.assertEqual(missing("README.md/x", ROOT), ["README.md/x"])
        self.assertEqual(missing("docs/testing.md", ROOT), ["docs/testing.md"])  # there, but nothing to execute
        self.assertEqual(missing("apt-get update && git config --global --add safe.directory \"$HOME/x\"", ROOT), [])

    def test_all_lines_of_a_block_are_seen(self):
        text = "    steps:\n      - run: |\n          a/b\n          c\n      - uses: x\n      - run: d\n"
        self.assertEqual(list(commands(text)), ["a/b", "c", "d"])

    def test_it_has_the_whole_history_and_an_end(self):
        text = WORKFLOW.read_text()
        self.assertRegex(text, r"fetch-depth: 0\b")
        self.assertRegex(text, r"timeout-minutes: 90\b")
        self.assertRegex(text, r"image: debian:12\b")
        self.assertRegex(text, r"(?m)^concurrency:$")


class Parsing(unittest.TestCase):
    def test_indentation_is_of_spaces(self):
        for path in YAML_FILES:
            self.assertNotIn("\t", path.read_text(), path)

    @unittest.skipIf(yaml is None, "python3-yaml is not installed, so YAML is not parsed")
    def test_everything_parses(self):
        for path in YAML_FILES:
            self.assertIsInstance(yaml.safe_load(path.read_text()), dict, path)

    @unittest.skipIf(yaml is None, "python3-yaml is not installed, so forms are not looked into")
    def test_forms_are_forms(self):
        self.assertTrue(FORMS)
        for path in FORMS:
            form = yaml.safe_load(path.read_text())
            self.assertTrue(form["name"] and form["description"], path)
            ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
            self.assertEqual(len(ids), len(set(ids)), path)
            for field in form["body"]:
                self.assertIn(field["type"], ("markdown", "textarea", "input", "dropdown", "checkboxes"), path)
                self.assertIn("value" if field["type"] == "markdown" else "label", field["attributes"], path)
                self.assertEqual("options" in field["attributes"], field["type"] == "dropdown", path)


class Names(unittest.TestCase):
    def test_clangd_reads_a_folder_that_a_preset_makes(self):
        folder = re.search(r"CompilationDatabase: (\S+)", (ROOT / ".clangd").read_text()).group(1)
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        self.assertIn("${sourceDir}/" + folder, [preset.get("binaryDir") for preset in presets])

    def test_what_the_security_page_names_exists(self):
        text = (ROOT / "SECURITY.md").read_text()
        settings = (ROOT / "src/env/settings.cc").read_text()
        for name in re.findall(r"R2CCL_\w+", text):
            self.assertIn(f'"{name}"', settings)
        for path in re.findall(r"\]\(([\w./]+)\)|`(tests/\w+)`", text):
            self.assertTrue((ROOT / (path[0] or path[1])).exists(), path)


if __name__ == "__main__":
    unittest.main()
