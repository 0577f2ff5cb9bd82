#!/usr/bin/env python3
"""Prints how many tests passed and failed in each test that ctest ran: python3 test/results.py FILE

FILE is from ctest --output-junit. A line of the output is "NAME PASSED FAILED". A test of ctest may be a program
with many tests, which prints the lines of googletest, or "N passed, N failed" at the end. Any other is one test.
One that fails without a failed test of its own, for example because it crashed, counts as one failed test.
"""

import re
import sys
import xml.etree.ElementTree

PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] .* \(\d+ ms\)$", re.MULTILINE)
LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?\s*\Z", re.MULTILINE)


def counts(output, succeeded):
    """The numbers of passed and failed tests."""
    passed, failed = sum(map(int, PASSED.findall(output))), len(FAILED.findall(output))
    if last := LAST_LINE.search(output):
        passed, failed = map(int, last.groups())
    elif succeeded and passed == 0:
        passed = 1
    return passed, failed if succeeded else max(failed, 1)


def main():
    for test in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
        print(test.get("name"), *counts(test.findtext("system-out") or "", test.get("status") == "run"))


if __name__ == "__main__":
    main()
