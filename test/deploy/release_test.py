#!/usr/bin/env python3
"""Tests of deploy/release.sh and of the commit in programs: test/deploy/release_test.py

The release build must exist. MGPU_HELM_BINARY is the helm that reads the chart.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ARCHITECTURE, AS_ROOT, BUILD, EPOCH, ROOT, digest_of_folder, main, must_run, run

import release
import staging
import images
from problem import Problem

RELEASE_SH = ROOT / "deploy/release.sh"
VERSION = "0.1.0"
URL = "https://example.com/mgpu/v0.1.0"


def make_release(folder):
    must_run("bash", RELEASE_SH, "--base-url", f"{URL}/", "--build", BUILD, "--allow-changes", VERSION, folder,
             environment={"SOURCE_DATE_EPOCH": str(EPOCH)})
    return pathlib.Path(folder)


def setUpModule():
    """The release of all tests."""
    global scratch, made
    scratch = tempfile.TemporaryDirectory(prefix="mgpu-release-")
    unittest.addModuleCleanup(scratch.cleanup)
    made = make_release(f"{scratch.name}/made")


def names():
    return {path.name for path in made.iterdir()}


class Files(unittest.TestCase):
    def test_a_release_has_images_chart_and_manifests(self):
        architecture = ARCHITECTURE
        for image in ("mgpu-extender", "mgpu-device-plugin", "mgpu-mps"):
            for suffix in ("oci.tar", "docker.tar", "spdx.json"):
                self.assertIn(f"{image}-{VERSION}-linux-{architecture}.{suffix}", names())
        self.assertLessEqual({f"mgpu-{VERSION}.tgz", f"mgpu-{VERSION}.yaml", f"images-{VERSION}.json"}, names())

    def test_every_file_is_in_the_checksums(self):
        sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(sums), names() - {"SHA256SUMS"})
        for name, digest in sums.items():
            self.assertEqual(hashlib.sha256((made / name).read_bytes()).hexdigest(), digest, name)
        must_run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=made)

    def test_the_same_sources_give_the_same_files(self):
        again, before = digest_of_folder(make_release(f"{scratch.name}/again")), digest_of_folder(made)
        self.assertEqual(sorted(again), sorted(before))
        for name, data in before.items():
            self.assertTrue(again[name] == data, name)

    def test_the_chart_is_that_of_the_sources(self):
        shutil.unpack_archive(made / f"mgpu-{VERSION}.tgz", f"{scratch.name}/chart")
        expected = digest_of_folder(ROOT / "deploy/chart")
        self.assertEqual(digest_of_folder(f"{scratch.name}/chart/mgpu"), expected)

    @unittest.skipUnless(os.environ.get("MGPU_HELM_BINARY"), "MGPU_HELM_BINARY is not set")
    def test_helm_renders_the_archive_as_the_folder(self):
        helm = os.environ["MGPU_HELM_BINARY"]
        rendered = [must_run(helm, "template", "mgpu", chart, "--namespace", "mgpu-system",
                             "--set", "image.registry=registry.example.com/mgpu")
                    for chart in (made / f"mgpu-{VERSION}.tgz", ROOT / "deploy/chart")]
        self.assertEqual(rendered[0], rendered[1])
        self.assertIn("kind: DaemonSet", rendered[0])


class Refusals(unittest.TestCase):
    def test_release_sh_says_what_is_wrong(self):
        url = ["--base-url", URL]
        cases = [
            ([*url, "9.9.9", "out"], 'the version is "9.9.9"; CMakeLists.txt has "0.1.0"'),
            (["--base-url", "ftp://x", VERSION, "out"], '--base-url: "ftp://x" is not an address'),
            ([VERSION, "out"], '--base-url: "" is not an address'),
            ([*url, VERSION], "want the version and a folder after the flags, and not 1 arguments"),
            ([*url, "--sign", "x", VERSION, "out"], 'unknown flag "--sign"'),
            (["--base-url"], "--base-url needs a value"),
            ([*url, "--allow-changes", VERSION, made], "exists, and is not an empty folder"),
            ([*url, "--build", "/nowhere", VERSION, "out"], '--build: "/nowhere" is not a folder'),
        ]
        for arguments, sentence in cases:
            with self.subTest(sentence):
                status, output = run("bash", RELEASE_SH, *arguments, folder=scratch.name)
                self.assertEqual(status, 2)
                self.assertIn(sentence, output)
                self.assertEqual(output.count("\n"), 1, output)

    def test_changed_sources_are_refused(self):
        sources = pathlib.Path(scratch.name) / "changed"
        shutil.copytree(ROOT / "deploy", sources / "deploy")
        shutil.copy(ROOT / "CMakeLists.txt", sources)
        commit(sources)
        (sources / "CMakeLists.txt").write_text((sources / "CMakeLists.txt").read_text() + "# changed\n")
        status, output = run("bash", sources / "deploy/release.sh", "--base-url", URL, VERSION, sources / "out")
        self.assertEqual((status, output), (
            2, "release.sh: some sources have changes that are not committed, such as CMakeLists.txt\n"))

    def test_a_chart_of_another_version_is_refused(self):
        folder = pathlib.Path(scratch.name) / "old-chart"
        shutil.copytree(ROOT / "deploy/chart", folder)
        with self.assertRaisesRegex(Problem, 'Chart.yaml: version is "0.1.0"; want .* release, "0.2.0"'):
            release.chart_files(str(folder), "0.2.0")

    def test_a_version_without_an_entry_in_the_changes_is_refused(self):
        release.check_change_log(VERSION)
        with self.assertRaisesRegex(Problem, 'deploy/CHANGELOG.md has no entry "## 0.1"'):
            release.check_change_log("0.1")


class Cli(unittest.TestCase):
    """The archive of a program with its libraries. The extender stands for any program."""

    def setUp(self):
        tree = staging.stage(images.chosen(["mgpu-extender"])[0], str(ROOT), str(BUILD))
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=scratch.name))
        self.archive = release.archive(release.cli_files(tree, "mgpu-extender"), EPOCH)
        (self.folder / "cli.tar.gz").write_bytes(self.archive)
        shutil.unpack_archive(self.folder / "cli.tar.gz", self.folder / "cli")

    def test_runs_by_a_link_from_any_folder(self):
        os.symlink(self.folder / "cli/mgpu-extender", self.folder / "link")
        for folder in (self.folder, "/"):
            self.assertIn(f"mgpu {VERSION} (commit ", must_run(self.folder / "link", "--version", folder=folder))

    @unittest.skipUnless(AS_ROOT, "chroot needs root")
    def test_runs_where_no_library_is_installed(self):
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin")
        for name in ("sh", "dirname", "readlink"):
            os.symlink("busybox", root / "bin" / name)
        shutil.move(self.folder / "cli", root / "cli")
        output = must_run("chroot", root, "/cli/mgpu-extender", "--version", environment={"PATH": "/bin:/usr/sbin"})
        self.assertIn(f"mgpu {VERSION} (commit ", output)

    def test_has_the_licences(self):
        folder = self.folder / "cli/licenses"
        self.assertEqual((folder / "mgpu/copyright").read_bytes(), (ROOT / "LICENSE").read_bytes())
        self.assertTrue((folder / "libssl3/copyright").exists())
        self.assertTrue((folder / "common/Apache-2.0").exists())

    def test_the_krew_manifest_names_the_archive(self):
        name = "kubectl-mgpu-0.1.0-linux-amd64.tar.gz"
        text = release.krew_manifest(VERSION, "https://example.com", URL, {"amd64": (name, self.archive)})
        self.assertIn("\nmetadata:\n  name: mgpu\n", text)
        self.assertIn(f"\n  version: v{VERSION}\n", text)
        platform = text[text.index("  platforms:\n"):]
        self.assertEqual(platform, f"""  platforms:
  - selector:
      matchLabels:
        os: linux
        arch: amd64
    uri: {URL}/{name}
    sha256: {hashlib.sha256(self.archive).hexdigest()}
    bin: kubectl-mgpu
""")
        description = re.search(r"shortDescription: (.*)", text)[1]
        self.assertLessEqual(len(description), 50)

    def test_the_release_has_the_cli_with_its_manifest(self):
        listed = {name for name in names() if name.startswith("kubectl-mgpu-")}
        if not listed:
            self.skipTest("this build has no CLI")
        archive = f"kubectl-mgpu-{VERSION}-linux-{ARCHITECTURE}.tar.gz"
        digest = hashlib.sha256((made / archive).read_bytes()).hexdigest()
        manifest = (made / "mgpu.yaml").read_text()
        self.assertIn(f"    uri: {URL}/{archive}\n    sha256: {digest}\n", manifest)
        shutil.unpack_archive(made / archive, self.folder / "released")
        must_run(self.folder / "released/kubectl-mgpu", "--version")


def commit(folder):
    """Makes a repository of the files in a folder, and returns the commit."""
    git = ["git", "-C", folder, "-c", "user.name=test", "-c", "user.email=test@example.com"]
    must_run(*git, "init", "--quiet")
    must_run(*git, "add", "--all")
    must_run(*git, "commit", "--quiet", "--message", "test")
    return must_run(*git, "rev-parse", "HEAD").strip()


class Commit(unittest.TestCase):
    """The commit that programs print: common/base/commit.cmake."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=scratch.name))
        (self.folder / "common/base").mkdir(parents=True)
        for name in ("common/base/commit.cmake", "common/base/commit.txt", ".gitattributes"):
            shutil.copy(ROOT / name, self.folder / name)

    def written(self, folder=None, text=""):
        folder = folder or self.folder
        must_run("cmake", "-D", f"SOURCE={folder}", "-D", f"OUTPUT={self.folder}/commit.cc", "-D", f"COMMIT={text}",
                 "-P", folder / "common/base/commit.cmake")
        return re.search(r'kBuildCommit = "(.*)";', (self.folder / "commit.cc").read_text())[1]

    def test_is_that_of_the_repository(self):
        head = commit(self.folder)
        self.assertEqual(self.written(), head[:12])
        (self.folder / ".gitattributes").write_text("# changed\n")
        self.assertEqual(self.written(), f"{head[:12]}-dirty")

    def test_is_unknown_without_a_repository(self):
        self.assertEqual(self.written(), "unknown")

    def test_is_in_archives_of_git(self):
        head = commit(self.folder)
        must_run("git", "-C", self.folder, "archive", "--output", "../archive.tar", "HEAD")
        shutil.unpack_archive(self.folder.parent / "archive.tar", self.folder / "archive")
        self.assertEqual(self.written(self.folder / "archive"), head[:12])

    def test_can_be_given(self):
        commit(self.folder)
        self.assertEqual(self.written(text="0123abc"), "0123abc")
        self.assertEqual(self.written(text='a"; evil'), "unknown")

    def test_the_file_is_written_only_when_it_changes(self):
        self.written()
        os.utime(self.folder / "commit.cc", (1, 1))
        self.written()
        self.assertEqual((self.folder / "commit.cc").stat().st_mtime, 1)
        self.written(text="0123abc")
        self.assertNotEqual((self.folder / "commit.cc").stat().st_mtime, 1)

    def test_programs_print_the_commit_of_the_build(self):
        known = re.search(r'kBuildCommit = "(.*)";', (BUILD / "common/commit.cc").read_text())[1]
        for program in ("extender/mgpu-extender", "plugin/mgpu-device-plugin", "plugin/mgpu-mps",
                        "plugin/mgpu-set-limits"):
            output = subprocess.run([BUILD / program, "--version"], capture_output=True, text=True, check=True).stdout
            self.assertRegex(output, rf"^mgpu[a-z-]* 0\.1\.0 \(commit {known}[,)]", program)


if __name__ == "__main__":
    main(sys.modules[__name__])
