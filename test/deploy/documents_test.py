#!/usr/bin/env python3
"""Tests of all pages in Markdown: test/deploy/documents_test.py"""
import re
import subprocess
import sys
import unittest

from support import ROOT, main

FENCE = re.compile(r"^```.*?^ *```$", re.MULTILINE | re.DOTALL)


def tracked(*patterns):
    listed = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                                     cwd=ROOT, text=True)
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).exists()]


PAGES = tracked("*.md")


def prose(page):
    return FENCE.sub("", page.read_text())


def anchor(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)}


class Documents(unittest.TestCase):
    def test_the_tests_that_are_named_exist(self):
        sources = "\n".join(path.read_text() for path in tracked("test/cluster/*_test.go"))
        known = set(re.findall(r"^func (Test\w+)\(", sources, re.MULTILINE))
        for page in PAGES:
            named = set(re.findall(r"`(Test[A-Z]\w+)`", prose(page)))
            with self.subTest(page.relative_to(ROOT)):
                # A page may also name several tests by their beginning.
                missing = {name for name in named if not any(one.startswith(name) for one in known)}
                self.assertEqual(missing, set(), "no test in test/cluster has this name")

    def test_the_sources_of_tests_that_are_named_exist(self):
        known = [str(path.relative_to(ROOT)) for path in tracked("test/*_test.*", "test/**/*_test.*")]
        for page in PAGES:
            for name in set(re.findall(r"`([\w/]+_test\.(?:cc|go|py))`", prose(page))):
                with self.subTest(page=page.relative_to(ROOT), name=name):
                    self.assertTrue(any(path.endswith("/" + name) or path == name for path in known))

    def test_links_lead_to_files_and_headings_that_exist(self):
        for page in PAGES:
            for link in set(re.findall(r"\]\(([^)\s]+)\)", prose(page))):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, heading = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                with self.subTest(page=page.relative_to(ROOT), link=link):
                    self.assertTrue(target.exists(), "the file does not exist")
                    if heading:
                        self.assertIn(heading, anchors(target), "the heading does not exist")

    def test_references_of_links_are_defined(self):
        for page in PAGES:
            text = prose(page)
            defined = set(re.findall(r"^\[([^\]]+)\]: \S+$", text, re.MULTILINE))
            used = set(re.findall(r"\[([\w-]+#\d+)\](?!:)", text))
            with self.subTest(page.relative_to(ROOT)):
                self.assertEqual(used - defined, set(), "the link has no address")
                self.assertEqual(defined - used, set(), "the address has no link")

    def test_troubleshooting_has_every_event_and_reason(self):
        page = (ROOT / "deploy/TROUBLESHOOTING.md").read_text()
        text = "\n".join(path.read_text() for path in tracked("common/*.cc", "common/*.h", "extender/*.cc", "plugin/*.cc", "plugin/*.h"))
        conditions = {"MGPUReady", "MGPUCardsExclusive"}
        # The drift detector of the plugin adds the kind of a drift to a prefix.
        drifts = {"MGPU" + kind for kind in ("ProcessWithoutShare", "ChangedAnnotations") if f'"{kind}"' in text}
        events = (set(re.findall(r'"(MGPU[A-Z]\w+)"', text)) | drifts) - conditions
        self.assertGreater(len(events), 20)
        for event in events:
            with self.subTest(event):
                self.assertIn(f"`{event}`", page)
        waiting = r'(?:set_waiting_for|waiting_for\.(?:push_back|emplace_back))\(\s*"([^"]+)"'
        waits = {*re.findall(waiting, text), *re.findall(r'case Step::\w+:\s+return "([^"]+)"', text)}
        self.assertGreater(len(waits), 8)
        for wait in waits:
            with self.subTest(wait):
                self.assertIn("`" + wait.rstrip(" :").split(";")[0], page)

    def test_pages_for_first_readers_are_short(self):
        for page, most in (("README.md", 1500), ("bench/README.md", 3000)):
            with self.subTest(page):
                self.assertLessEqual(len((ROOT / page).read_text().split()), most)

    def test_pages_for_users_say_each_thing_once(self):
        # Nobody reads more. Whoever adds a paragraph looks for one that is said twice (deploy/README.md).
        builders = {"README.md", "REFERENCE.md"}
        pages = [ROOT / "README.md", *(page for page in (ROOT / "deploy").glob("*.md") if page.name not in builders)]
        self.assertGreater(len(pages), 10)
        self.assertLessEqual(sum(len(page.read_text().split()) for page in pages), 25_000)

    def test_the_readme_installs_as_the_page_about_the_installation_does(self):
        # Tests of the stage install run the commands of that page.
        commands = re.findall(r"^(?:helm|kubectl label) (?:.*\\\n)*.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
        page = (ROOT / "deploy/INSTALL.md").read_text()
        self.assertEqual(len(commands), 2)
        for command in commands:
            self.assertTrue(f"```\n{command}\n```" in page, command)

    def test_the_readme_has_the_commands_of_a_fresh_machine(self):
        readme = (ROOT / "README.md").read_text()
        for command in ("\ndeploy/demo.sh ", "\ntest/run.sh "):
            self.assertIn(command, readme)


if __name__ == "__main__":
    main(sys.modules[__name__])
