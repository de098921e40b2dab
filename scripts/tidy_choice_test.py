#!/usr/bin/env python3
"""Goal: nothing that changed escapes clang-tidy, and all of the rest comes up in ten runs. Method: trees by hand."""
import unittest

import tidy_choice

SOURCES = {f"src/a/f{i}.cc": {f"a/f{i}.h", "a/common.h"} for i in range(25)}


class Choice(unittest.TestCase):
    def test_a_changed_source_is_seen_in_every_share(self):
        for share in range(10):
            self.assertIn("src/a/f3.cc", tidy_choice.choose(SOURCES, {"src/a/f3.cc"}, share))

    def test_a_changed_header_is_seen_through_its_source(self):
        for share in range(10):
            self.assertIn("src/a/f7.cc", tidy_choice.choose(SOURCES, {"src/a/f7.h"}, share))

    def test_a_changed_header_without_a_source_is_seen_through_one_that_includes_it(self):
        for share in range(10):
            self.assertIn("src/a/f0.cc", tidy_choice.choose(SOURCES, {"src/a/common.h"}, share))

    def test_ten_shares_are_everything(self):
        seen = set()
        for share in range(40, 50):
            chosen = tidy_choice.choose(SOURCES, set(), share)
            self.assertLessEqual(len(chosen), 3)
            seen.update(chosen)
        self.assertEqual(seen, set(SOURCES))

    def test_changed_rules_or_an_unknown_past_mean_everything(self):
        self.assertEqual(tidy_choice.choose(SOURCES, {".clang-tidy"}, 0), sorted(SOURCES))
        self.assertEqual(tidy_choice.choose(SOURCES, None, 0), sorted(SOURCES))


if __name__ == "__main__":
    unittest.main()
