"""What the tests of images and of the release share."""
import functools
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/images"))
EPOCH = 1700000000
# The programs of a release build, which exist before the tests begin.
BUILD = pathlib.Path(os.environ.get("MGPU_BUILD_FOLDER", ROOT / "build/release"))
AS_ROOT = os.geteuid() == 0
ARCHITECTURE = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


def run(*command, environment=None, folder=None):
    """The exit status and all output of a command."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def must_run(*command, **settings):
    status, output = run(*command, **settings)
    if status != 0:
        raise AssertionError(f"{command} ended with {status}:\n{output}")
    return output


def main(module):
    """Runs the tests of a module. The last line is what test/run.sh counts."""
    words = sys.argv[1:]
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(words, module) if words else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


class Layout:
    """An OCI image layout in a folder, with one image."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.index = json.loads((self.folder / "index.json").read_text())
        self.entry = self.index["manifests"][0]
        self.manifest = json.loads(self.blob(self.entry))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor):
        return (self.folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()

    def descriptors(self):
        return [self.entry, self.manifest["config"], *self.manifest["layers"]]

    def layer(self):
        return tarfile.open(fileobj=io.BytesIO(self.blob(self.manifest["layers"][0])), mode="r:gz")

    @functools.cached_property
    def members(self):
        with self.layer() as tar:
            return {member.name: member for member in tar.getmembers()}

    @functools.cached_property
    def contents(self):
        """The bytes of all files."""
        with self.layer() as tar:
            return {member.name: tar.extractfile(member).read() for member in tar.getmembers() if member.isfile()}

    def unpack(self, folder):
        with self.layer() as tar:
            tar.extractall(folder, numeric_owner=True)


def digest_of_folder(folder):
    """All files of a folder: {path: bytes}."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
