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


if __name__ == "__main__":
    unittest.main(argv=["results_test.py", "-q"])
