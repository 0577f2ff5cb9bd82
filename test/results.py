#!/usr/bin/env python3
"""Prints how many tests passed and failed in each test that ctest ran: python3 test/results.py REPORT FAILURES

REPORT is from ctest --output-junit. A line of the output is "NAME PASSED FAILED". A test of ctest may be a program
with many tests, which prints the lines of googletest or of Go, or "N passed, N failed" at the end. Any other is one
test. One that fails without a failed test of its own, for example because it crashed, counts as one failed test.
What failed tests of Go have written first is added to the file FAILURES.
"""

import collections
import re
import sys
import xml.etree.ElementTree

PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] .* \(\d+ ms\)$", re.MULTILINE)
LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?\s*\Z", re.MULTILINE)

GO = re.compile(r"^--- (PASS|FAIL|SKIP): ", re.MULTILINE)
GO_TEST = re.compile(r"^=== (?:RUN|NAME|CONT) +(\S+)$")
GO_FAILED = re.compile(r"^ *--- FAIL: (\S+)")
LINES_MAX = 20  # of a failed test of Go
LINE_LENGTH_MAX = 300


def counts(output, succeeded):
    """The numbers of passed and failed tests."""
    passed, failed = sum(map(int, PASSED.findall(output))), len(FAILED.findall(output))
    if last := LAST_LINE.search(output):
        passed, failed = map(int, last.groups())
    elif ends := GO.findall(output):
        passed, failed = ends.count("PASS"), ends.count("FAIL")
    elif succeeded and passed == 0:
        passed = 1
    return passed, failed if succeeded else max(failed, 1)


def failures_of_go(output):
    """What each failed test has written first. Tests that run side by side mix their lines."""
    test, lines, failed = "", collections.defaultdict(list), []
    for line in output.splitlines():
        if begun := GO_TEST.match(line):
            test = begun[1]
        elif end := GO_FAILED.match(line):
            failed.append(end[1])
        elif line not in ("PASS", "FAIL") and not line.lstrip().startswith(("---", "===")) and len(lines[test]) < LINES_MAX:
            lines[test].append(line[:LINE_LENGTH_MAX])
    return [line for name in failed if lines[name] for line in (f"failed: {name}", *lines[name])]


def main():
    with open(sys.argv[2], "a", encoding="utf-8") as failures:
        for test in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
            output = test.findtext("system-out") or ""
            print(test.get("name"), *counts(output, test.get("status") == "run"))
            for line in failures_of_go(output):
                print(line, file=failures)


if __name__ == "__main__":
    main()
