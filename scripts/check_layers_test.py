#!/usr/bin/env python3
"""Goal: check_layers.py refuses what it says it refuses, and nothing else. Method: small texts, one rule each."""
import pathlib
import tempfile
import unittest

import check_layers as check

LAYERS = check.read_layers("""
# comment
base:
transport: base
session:   base transport/link.h   # one header only
""")


def includes(path, text):
    return list(check.check_includes(path, text, LAYERS))


def habits(path, text):
    return list(check.check_habits(path, text))


class Includes(unittest.TestCase):
    def test_row_and_own_folder_are_allowed(self):
        text = '#include <vector>\n#include "base/id.h"\n#include "transport/tcp/socket.h"\n'
        self.assertEqual(includes("transport/tcp/socket.cc", text), [])

    def test_upward_include_names_line_and_row(self):
        self.assertEqual(includes("base/id.cc", '\n#include "session/session.h"\n'),
                         [(2, '"session/session.h": base may include only itself')])

    def test_one_header_permission_covers_that_header_only(self):
        self.assertEqual(includes("session/a.cc", '#include "transport/link.h"\n'), [])
        self.assertEqual(len(includes("session/a.cc", '#include "transport/stream/frame.h"\n')), 1)

    def test_paths_start_at_src(self):
        self.assertEqual(len(includes("base/id.cc", '#include "id.h"\n#include "base/../session/a.h"\n')), 2)

    def test_folder_without_row_is_refused(self):
        self.assertEqual(len(includes("extra/a.cc", "")), 1)


class Testing(unittest.TestCase):
    def test_only_tests_include_test_equipment(self):
        self.assertEqual(includes("session/a_test.cc", '#include "testing/net.h"\n'), [])
        self.assertEqual(includes("session/a.cc", '#include "testing/net.h"\n'),
                         [(1, '"testing/net.h": only tests include testing')])


class Names(unittest.TestCase):
    def test_a_planted_second_type_is_found_wherever_it_hides(self):
        first = "namespace r2ccl {\nclass Shelf final {\n};\n}\n"
        for second in ["namespace r2ccl::plugin {\nstruct Shelf {};\n}\n", "namespace {\nenum class Shelf : char {\n};\n}\n",
                       "using Shelf = int;\n", "template <class T>\nclass Shelf : Base<T> {\n};\n",
                       "struct alignas(16) Shelf {\n};\n"]:
            found = list(check.check_names({"src/comm/a.h": first, "src/plugin/b.cc": second}))
            self.assertEqual([(path, what) for path, _, what in found],
                             [("src/plugin/b.cc", "`Shelf` is a type of src/comm/a.h, too")], second)

    def test_nested_types_declarations_and_words_in_comments_may_repeat(self):
        text = "class Path;\nstruct Session {\n  struct Path {};\n};\n// class Path {\nenum Word : int;\n"
        self.assertEqual(list(check.check_names({"src/a.h": "class Path {\n};\n", "src/b.h": text})), [])

    def test_a_planted_second_header_is_found(self):
        found = list(check.check_names({"src/comm/world.h": "", "src/sim/world.h": ""}))
        self.assertEqual(found, [("src/sim/world.h", 1, "a header of this name is at src/comm/world.h, too")])


class Columns(unittest.TestCase):
    def test_one_column_more_is_found(self):
        self.assertEqual(list(check.check_columns("é" * 120)), [])
        self.assertEqual(list(check.check_columns("\n" + "x" * 121)), [(2, "121 columns; lines stop at 120")])


class Commas(unittest.TestCase):
    def commas(self, text):
        return [line for line, _ in check.check_commas(text)]

    def test_each_comma_between_things_that_are_done_is_found(self):
        for statement in ["a = b, c = d;", "return x(), y;", "++a, ++b;", "a++, b();", "throw a(), b;", "f(1, 2), g();",
                          "p->list[i].value += 2, *q = 3;", "if (a) b = 1, c = 2;", "for (int i = 0; i < 3; ++i) f(i), g(i);",
                          "if (a) {\n} else b = 1, c = 2;", "case Kind::kOne: f(), g();", "while (a())\n  b(), c();",
                          "auto f = [&](int x) { a = x, b = x; };", "run([&] { f(), g(); }, 3);", "x = y<int, long>(), z = 1;",
                          "void f() { a = 1, b = 2; }", "struct A {\n  void f() { a_ = 1, b_ = 2; }\n};"]:
            self.assertEqual(len(self.commas(statement)), 1, statement)

    def test_it_is_named_by_its_line(self):
        self.assertEqual(self.commas("int a;\n\nvoid f() {\n  g();\n  a = 1,\n  b = 2;\n}\n"), [5])

    def test_headers_lists_and_declarations_may_have_commas(self):
        for statement in ["for (a = 1, b = 2; a < b; ++a, --b) f(a, b);", "int a = 1, b = 2;", "std::map<int, int> a, b;",
                          "const auto [a, b] = f(1, 2);", "Foo x(1), y{2};", "std::size_t a = f(1), *b = nullptr;",
                          "enum class E { kA = 1, kB };", "A::A() : a_(1), b_(2) { f(); }", "struct A final : B, C { int x; };",
                          "f(a = 1, b = 2);", "x = {1, 2, 3};", "return {a, b};", "template <class A, class B> void f();",
                          "std::uint64_t a_ = 0, b_ = 0;", "a = b ? f(c, d) : g<int, int>(e);", "// a = 1, b = 2;",
                          "#define TWO(a, b) a = 1, b = 2;", "auto f = [a, b](int c, int d) { return c; };",
                          "using A = std::function<void(int, int)>;", "public:\n  int a = 0, b = 0;",
                          "const bool same = a < b, other = c > d;"]:
            self.assertEqual(self.commas(statement), [], statement)


class Habits(unittest.TestCase):
    def test_each_banned_call_is_found(self):
        for call in ["std::chrono::steady_clock::now()", "std::this_thread::sleep_for(1ms)", "usleep(5)", "std::getenv(\"A\")",
                     "printf(\"x\")", "std::cout << 1", "fmt::print(\"x\")", "std::thread t", "rand()"]:
            self.assertEqual(len(habits("session/a.cc", call)), 1, call)

    def test_outside_world_may(self):
        for folder in check.OUTSIDE:
            self.assertEqual(habits(folder + "a.cc", "usleep(5); printf(\"\");"), [])

    def test_comments_and_strings_do_not_count(self):
        text = '// usleep(5)\n/* printf(\n rand() */ auto s = "std::thread"; auto r = R"(getenv("A"))"; auto c = \'"\';\n'
        self.assertEqual(habits("session/a.cc", text), [])

    def test_code_after_a_digit_separator_still_counts(self):
        self.assertEqual(len(habits("session/a.cc", "int n = 1'000; usleep(n); char c = 'x';")), 1)

    def test_similar_names_do_not_count(self):
        self.assertEqual(habits("session/a.cc", "operand(); strand(); snprintf(b, 1, f); on_thread();"), [])


class Files(unittest.TestCase):
    def test_header_needs_pragma_once_first(self):
        self.assertEqual(list(check.check_header("// words\n\n#pragma once\n")), [])
        self.assertEqual(len(list(check.check_header("#include <a>\n#pragma once\n"))), 1)

    def test_a_source_includes_its_own_header_first(self):
        self.assertEqual(list(check.check_own_header("a/x.cc", '// words\n#include "a/x.h"\n\n#include <vector>\n')), [])
        for text in ('#include <vector>\n#include "a/x.h"\n', '#include "a/y.h"\n'):
            self.assertEqual([number for number, _ in check.check_own_header("a/x.cc", text)], [1])

    def test_machine_paths_are_found(self):
        self.assertEqual(len(list(check.check_machine_paths("see /" + "home/someone/x"))), 1)
        self.assertEqual(list(check.check_machine_paths("https://example.org/" + "work/x and src/" + "root/x")), [])

    def test_promises_name_tests_that_exist(self):
        text = "| cut | `Sweep.CutAtEveryChunk`, `Sweep.NotThere` | `session/rules.h` |"
        self.assertEqual(list(check.check_named_tests(text, {"Sweep.CutAtEveryChunk"})),
                         [(1, "there is no test Sweep.NotThere")])

    def test_whole_tree_reports_size_and_place(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "layers.txt").write_text("base:\n")
            (root / "src/base/long.cc").write_text("\n" * 801)
            (root / "src/base/longish.cc").write_text("\n" * 401)
            (root / "src/base/up.cc").write_text('#include "session/a.h"\n')
            errors, warnings = check.check_tree(root)
        self.assertEqual(errors, ["src/base/long.cc:800: 801 lines; files stop at 800",
                                  'src/base/up.cc:1: "session/a.h": base may include only itself'])
        self.assertEqual(warnings, ["src/base/longish.cc: warning: 401 lines; aim under 400"])


if __name__ == "__main__":
    unittest.main()
