#!/usr/bin/env python3
"""Goal: a test over its budget is found, and no other. Method: times and budgets by hand."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import tempfile
import unittest

path = str(pathlib.Path(__file__).resolve().parent / "run_tests")
loader = importlib.machinery.SourceFileLoader("run_tests", path)
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(run_tests)

BUDGETS = run_tests.read_budgets("""
# pattern seconds
slow/*   60   # why
*        10
""")


def over(times, factor=1.0):
    with contextlib.redirect_stdout(io.StringIO()):
        return run_tests.report(run_tests.compare(times, BUDGETS, factor))


class Budgets(unittest.TestCase):
    def test_the_first_row_that_matches_counts(self):
        self.assertEqual(run_tests.budget_of("slow/A.b", BUDGETS), 60)
        self.assertEqual(run_tests.budget_of("fast/A.b", BUDGETS), 10)

    def test_a_test_over_its_budget_is_found(self):
        self.assertEqual(over({"fast/A.b": 10.1, "fast/A.c": 9.9, "slow/A.d": 59}), ["fast/A.b"])

    def test_slower_programs_get_more(self):
        self.assertEqual(over({"fast/A.b": 49}, 5), [])
        self.assertEqual(over({"fast/A.b": 51}, 5), ["fast/A.b"])

    def test_all_that_are_over_are_named_however_many(self):
        self.assertEqual(len(over({f"fast/A.t{i}": 11 for i in range(30)})), 30)

    def test_no_budget_at_all_is_over(self):
        self.assertEqual([row[0] for row in run_tests.compare({"x": 0.1}, [])], [float("inf")])

    def test_times_are_read_as_ctest_writes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "junit.xml"
            file.write_text('<testsuite><testcase name="a/B.c" time="1.5" status="run"/></testsuite>')
            self.assertEqual(run_tests.read_times(file), {"a/B.c": 1.5})


if __name__ == "__main__":
    unittest.main()
