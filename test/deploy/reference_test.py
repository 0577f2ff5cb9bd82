#!/usr/bin/env python3
"""Tests of the list of all flags, deploy/REFERENCE.md: test/deploy/reference_test.py

The release build must exist, with all programs.
"""
import pathlib
import re
import sys
import tempfile
import unittest

from support import BUILD, ROOT, main, must_run, run

SCRIPT = ROOT / "deploy/reference.py"
PAGE = ROOT / "deploy/REFERENCE.md"
# Only scripts of bench/ run these, and no release has them.
BENCHMARKS = ("mgpu-parts",)
# Pages for users. Flags of other programs are written there only within commands, or with their program.
DOCUMENTS = ["README.md", "extender/kubectl/README.md",
             *(f"deploy/{name}.md" for name in ("COMPARISON", "EXTENDER", "INSTALL", "LIMITS", "METRICS", "MIGRATION", "NODE", "OPERATIONS",
                                               "PROBLEMS", "REQUESTS", "SECURITY", "TROUBLESHOOTING"))]
# Flags that the pages name in sentences, and that are not of these programs alone.
OTHERS = {
    "all programs": {"--help"},
    "kube-scheduler": {"--config", "--feature-gates", "--v"},
    "files.sh": set(re.findall(r"^#   (--[a-z-]+)", (ROOT / "deploy/scheduler/files.sh").read_text(), re.MULTILINE)),
    "helm": {"--reuse-values", "--reset-then-reuse-values"},
    "kubeadm": {"--patches"},
    "etcdutl": {"--name", "--initial-cluster", "--initial-advertise-peer-urls"},
    "the device plugin of aliyun gpushare": {"--memory-unit"},
    "vLLM and SGLang": {"--kv-cache-memory-bytes", "--mem-fraction-static"},
}


def flags_of_programs():
    return set(re.findall(r"^\| (?:`-\w`, )?`(--[a-z0-9-]+)`", PAGE.read_text(), re.MULTILINE))


def program(folder, name, text):
    path = pathlib.Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    path.chmod(0o755)


class Reference(unittest.TestCase):
    def test_the_page_has_what_the_programs_print(self):
        self.assertEqual(must_run(SCRIPT, BUILD), PAGE.read_text(), "deploy/reference.py writes deploy/REFERENCE.md")

    def test_every_program_with_flags_is_on_the_page(self):
        headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
        for folder in ("extender", "plugin", "bench"):
            for path in (BUILD / folder).iterdir():
                # Libraries for containers, and the program of the self test.
                other = ".so" in path.name or path.name in (*BENCHMARKS, "mgpu-check-share")
                if not other and path.is_file() and path.stat().st_mode & 0o100:
                    with self.subTest(path.name):
                        name = path.name.replace("kubectl-", "kubectl ")
                        self.assertTrue(name in headings or f"`{name}` has no flags" in PAGE.read_text())

    def test_the_documentation_names_flags_that_exist(self):
        known = flags_of_programs().union(*OTHERS.values())
        for document in DOCUMENTS:
            if not (ROOT / document).exists():
                continue
            prose = re.sub(r"^```.*?^ *```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
            named = set(re.findall(r"`(--[a-z0-9-]+)[=`]", prose))
            with self.subTest(document):
                self.assertEqual(named - known, set(), f"{document} names flags that no program has")

    def test_a_line_that_is_not_understood_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            program(folder, "extender/mgpu-extender", "mgpu-extender: x\n\nFlags:\n  neither flag nor text\n")
            status, output = run(SCRIPT, folder)
            self.assertEqual(status, 1)
            self.assertIn("reference.py:   neither flag nor text", output)

    def test_a_program_that_is_missing_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output = run(SCRIPT, folder)
            self.assertEqual(status, 1)
            self.assertIn("extender/mgpu-extender", output)


if __name__ == "__main__":
    main(sys.modules[__name__])
