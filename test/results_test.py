#!/usr/bin/env python3
"""Tests results.py: python3 test/results_test.py"""

import unittest

import results


class Counts(unittest.TestCase):
    def test_of_a_program_that_passes(self):
        self.assertEqual(results.counts("Running main()\n[  PASSED  ] 33 tests.\n", True), (33, 0))

    def test_of_a_program_with_failed_tests(self):
        output = "[  FAILED  ] A.B (1 ms)\n[  FAILED  ] A.C, where x = 1 (20 ms)\n[  PASSED  ] 3 tests.\n"
        self.assertEqual(results.counts(output, False), (3, 2))

    def test_of_a_program_that_crashes(self):
        self.assertEqual(results.counts("Segmentation fault", False), (0, 1))

    def test_of_a_program_that_fails_after_its_tests(self):
        self.assertEqual(results.counts("[  PASSED  ] 3 tests.\nLeakSanitizer: detected", False), (3, 1))

    def test_of_a_command(self):
        self.assertEqual(results.counts("... ok\n5 passed, 0 failed, 2 skipped\n", True), (5, 0))
        self.assertEqual(results.counts("5 passed, 2 failed\n", False), (5, 2))
        self.assertEqual(results.counts("mgpu-extender 0.1.0\n", True), (1, 0))

    def test_of_go(self):
        output = "=== RUN   TestA\n--- PASS: TestA (1.0s)\n--- SKIP: TestB (0s)\n--- FAIL: TestC (0.1s)\nFAIL\n"
        self.assertEqual(results.counts(output, False), (1, 1))
        self.assertEqual(results.counts("--- SKIP: TestB (0s)\nPASS\n", True), (0, 0))


class FailuresOfGo(unittest.TestCase):
    def test_names_what_each_failed_test_has_written_first(self):
        output = ("=== RUN   TestA\n    a.go:1: text of A\n--- PASS: TestA (1.0s)\n=== RUN   TestB\n=== RUN   TestB/one\n"
                  "    b.go:2: text of one\n=== CONT  TestB\n    b.go:3: text of B\n"
                  "--- FAIL: TestB (0.1s)\n    --- FAIL: TestB/one (0.1s)\nFAIL\n")
        self.assertEqual(results.failures_of_go(output), ["failed: TestB", "    b.go:3: text of B", "failed: TestB/one",
                                                          "    b.go:2: text of one"])


if __name__ == "__main__":
    unittest.main(argv=["results_test.py", "-q"])
