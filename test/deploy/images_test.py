#!/usr/bin/env python3
"""Tests of the images that deploy/images/build.sh makes: test/deploy/images_test.py

The release build must exist. SPDX's own checker is used if it is in PYTHONPATH, and containerd if
MGPU_RUNTIME_FOLDER names the folder with containerd and ctr.
"""
import copy
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import ARCHITECTURE, AS_ROOT, BUILD, EPOCH, ROOT, TRIPLES, Layout, digest_of_folder, main, must_run, run

import debian
import elf
import licenses

BUILD_SH = ROOT / "deploy/images/build.sh"
WAIT_SECONDS = 120
IMAGES = {image["name"]: image for image in json.loads((ROOT / "deploy/images/images.json").read_text())["images"]}


def setUpModule():
    """The images of all tests."""
    global scratch, made, layouts
    scratch = tempfile.TemporaryDirectory(prefix="mgpu-images-")
    unittest.addModuleCleanup(scratch.cleanup)
    made = pathlib.Path(scratch.name) / "made"
    must_run("bash", BUILD_SH, "--build", BUILD, "--repository", "example.com/mgpu", "--tag", "t1", "--source-url",
             "https://example.com/mgpu", made, environment={"SOURCE_DATE_EPOCH": str(EPOCH)})
    listed = json.loads((made / "images.json").read_text())["images"]
    layouts = {image["name"]: Layout(made / f'{image["name"]}.oci') for image in listed}


def each():
    return layouts.items()


def sbom(name):
    return json.loads((made / f"{name}.spdx.json").read_text())


class Reproducibility(unittest.TestCase):
    def test_the_same_content_has_the_same_digest_in_another_folder(self):
        """With other modes, times, language and time zone of the machine."""
        folder = pathlib.Path(scratch.name) / "other/sources"
        shutil.copytree(ROOT / "deploy/images", folder / "deploy/images")
        shutil.copy(ROOT / "LICENSE", folder)
        labels = layouts["mgpu-extender"].config["config"]["Labels"]
        command = ["python3", "-B", folder / "deploy/images/images.py", "build", "--build", BUILD,
                   "--version", labels["org.opencontainers.image.version"],
                   "--revision", labels["org.opencontainers.image.revision"], "--repository", "example.com/mgpu",
                   "--tag", "t1", "--source-url", "https://example.com/mgpu", "--epoch", str(EPOCH), folder / "made",
                   *layouts]
        must_run("bash", "-c", 'umask 077 && exec "$@"', "bash", *command,
                 environment={"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7"}, folder="/")
        again, before = digest_of_folder(folder / "made"), digest_of_folder(made)
        self.assertEqual(sorted(again), sorted(before))
        for path, data in before.items():
            self.assertTrue(again[path] == data, path)

    def test_programs_do_not_contain_the_folder_of_the_sources(self):
        source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
        for name, layout in each():
            contents = layout.contents
            for program in IMAGES[name]["programs"]:
                self.assertNotIn(f"{source}/".encode(), contents[f"usr/bin/{program}"], program)

    def test_an_archive_of_the_sources_has_commit_and_time(self):
        folder = pathlib.Path(scratch.name) / "archive"
        shutil.copytree(ROOT / "deploy/images", folder / "deploy/images")
        (folder / "common/base").mkdir(parents=True)
        for name in ("LICENSE", "CMakeLists.txt"):
            shutil.copy(ROOT / name, folder)
        for text, revision, created in [(f'{"ab" * 20} {EPOCH}\n', "ab" * 20, "2023-11-14T22:13:20Z"),
                                        ("$Format:%H %ct$\n", "unknown", "1970-01-01T00:00:00Z")]:
            (folder / "common/base/commit.txt").write_text(text)
            environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
            subprocess.run(["bash", folder / "deploy/images/build.sh", "--build", BUILD, folder / "made",
                            "mgpu-extender"], env=environment, check=True, capture_output=True)
            config = Layout(folder / "made/mgpu-extender.oci").config
            self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.revision"], revision)
            self.assertEqual(config["created"], created)

    def test_the_commit_gives_the_time(self):
        command = ["bash", BUILD_SH, "--build", BUILD, pathlib.Path(scratch.name) / "timed", "mgpu-extender"]
        environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        committed = must_run("git", "-C", ROOT, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
                             environment={"TZ": "UTC"})
        layout = Layout(pathlib.Path(scratch.name) / "timed/mgpu-extender.oci")
        self.assertEqual(layout.config["created"], committed.strip())


class Content(unittest.TestCase):
    def test_only_programs_and_the_loader_can_be_executed(self):
        for name, layout in each():
            executable = {path for path, member in layout.members.items() if member.isfile() and member.mode & 0o111}
            expected = {f"usr/bin/{program}" for program in IMAGES[name]["programs"]}
            loaders = {path for path in executable if re.search(r"/ld-linux-[^/]*$", path)}
            self.assertEqual(len(loaders), 1, executable)
            self.assertEqual(executable - loaders, expected)

    def test_files_belong_to_root_and_have_the_time_of_the_sources(self):
        for name, layout in each():
            for path, member in layout.members.items():
                owner = 65532 if path == "home/nonroot" else 0
                self.assertEqual((member.uid, member.gid, member.mtime), (owner, owner, EPOCH), f"{name} {path}")
                self.assertFalse(member.mode & 0o6000, f"{name} {path}")
                if not member.issym() and path != "tmp":
                    self.assertFalse(member.mode & 0o022, f"{name} {path}")

    def test_folders_are_before_what_they_contain(self):
        for name, layout in each():
            seen = set()
            for path in layout.members:
                above = os.path.dirname(path)
                self.assertTrue(above == "" or above in seen, f"{name} {path}")
                seen.add(path)

    @unittest.skipUnless(AS_ROOT, "chroot needs root")
    def test_programs_run_with_the_libraries_of_the_image(self):
        for name, layout in each():
            root = pathlib.Path(scratch.name) / f"root-{name}"
            layout.unpack(root)
            user = layout.config["config"]["User"]
            loader = next(path for path in layout.contents if "/ld-linux-" in path)
            for program in IMAGES[name]["programs"]:
                with self.subTest(program):
                    # The plugin of its own image alone runs it, and it has no version.
                    is_internal = program == "mgpu-check-share"
                    flag = "--help" if is_internal else "--version"
                    output = must_run("chroot", f"--userspec={user}", root, f"/usr/bin/{program}", flag)
                    self.assertRegex(output, r"^usage: " if is_internal else r"0\.1\.0 \(commit [0-9a-z-]+")
            of_containers = {f"usr/bin/{library}" for library in IMAGES[name].get("for_containers", {})}
            self.assertLessEqual(of_containers, layout.contents.keys())
            for path, data in layout.contents.items():
                if path not in of_containers and data.startswith(b"\x7fELF") and elf.Elf(root / path).needed:
                    output = must_run("chroot", root, f"/{loader}", "--list", f"/{path}")
                    self.assertNotIn("not found", output, f"{name} {path}")

    def test_programs_have_a_build_id_and_no_symbols(self):
        for name, layout in each():
            for program in IMAGES[name]["programs"]:
                path = pathlib.Path(scratch.name) / program
                path.write_bytes(layout.contents[f"usr/bin/{program}"])
                self.assertIn("Build ID: ", must_run("readelf", "--notes", path))
                self.assertNotIn(" .symtab", must_run("readelf", "--wide", "--sections", path))

    def test_images_with_the_drivers_libraries_have_what_these_need(self):
        folder = f"usr/lib/{TRIPLES[ARCHITECTURE]}"
        for name, layout in each():
            if IMAGES[name].get("driver"):
                for library in ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6", "libgcc_s.so.1"):
                    self.assertIn(f"{folder}/{library}", layout.members, name)

    def test_certificates_are_those_of_the_package(self):
        files = [path for path in must_run("dpkg-query", "-L", "ca-certificates").split() if path.endswith(".crt")]
        for name, layout in each():
            bundle = layout.contents["etc/ssl/certs/ca-certificates.crt"]
            self.assertEqual(bundle.count(b"-----BEGIN CERTIFICATE-----"), len(files), name)
            for file in files:
                self.assertIn(pathlib.Path(file).read_bytes().strip(), bundle, name)

    def test_user_names_and_services_of_the_c_library(self):
        for name, layout in each():
            contents = layout.contents
            self.assertIn(b"\nnonroot:x:65532:65532:", contents["etc/passwd"], name)
            self.assertIn(b"hosts: files dns\n", contents["etc/nsswitch.conf"], name)

    def test_every_package_has_its_licence_in_the_image(self):
        for name, layout in each():
            contents = layout.contents
            for package in sbom(name)["packages"][1:]:
                text = contents[f'usr/share/doc/{package["name"]}/copyright'].decode()
                self.assertGreater(len(text), 100, package["name"])
                for referred in debian.common_licenses_in(text):
                    self.assertIn(f"usr/share/common-licenses/{referred}", layout.members)


class Description(unittest.TestCase):
    def test_users_and_programs(self):
        for name, layout in each():
            config = layout.config["config"]
            self.assertEqual(config["Entrypoint"], [f"/usr/bin/{name}"])
            needs_root = name in ("mgpu-device-plugin", "mgpu-mps")
            self.assertEqual(config["User"], "0:0" if needs_root else "65532:65532")
            self.assertNotIn("Cmd", config)

    def test_labels(self):
        status, commit = run("git", "-C", ROOT, "rev-parse", "HEAD")
        for name, layout in each():
            labels = layout.config["config"]["Labels"]
            own = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
            self.assertEqual(own["version"], "0.1.0")
            self.assertEqual(own["revision"].removesuffix("-dirty"), commit.strip() if status == 0 else "unknown")
            self.assertEqual(own["licenses"], "Apache-2.0")
            self.assertEqual(own["created"], "2023-11-14T22:13:20Z")
            self.assertEqual(own["source"], "https://example.com/mgpu")
            self.assertEqual(layout.manifest["annotations"], labels, name)

    def test_the_layout_is_consistent(self):
        for name, layout in each():
            self.assertEqual(json.loads((layout.folder / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
            for descriptor in layout.descriptors():
                data = layout.blob(descriptor)
                self.assertEqual(descriptor["size"], len(data))
                self.assertEqual(descriptor["digest"], "sha256:" + hashlib.sha256(data).hexdigest())
            self.assertEqual(len(list((layout.folder / "blobs/sha256").iterdir())), len(layout.descriptors()))
            self.assertEqual(layout.entry["annotations"]["io.containerd.image.name"], f"example.com/mgpu/{name}:t1")
            uncompressed = subprocess.run(["gzip", "-dc"], input=layout.blob(layout.manifest["layers"][0]),
                                          capture_output=True, check=True).stdout
            self.assertEqual(layout.config["rootfs"]["diff_ids"],
                             ["sha256:" + hashlib.sha256(uncompressed).hexdigest()])

    def test_archives_have_the_content_of_the_layout(self):
        for name, layout in each():
            folder = pathlib.Path(scratch.name) / f"archive-{name}"
            shutil.unpack_archive(made / f"{name}.oci.tar", folder / "oci")
            self.assertEqual(digest_of_folder(folder / "oci"), digest_of_folder(layout.folder))
            shutil.unpack_archive(made / f"{name}.docker.tar", folder / "docker")
            entry = json.loads((folder / "docker/manifest.json").read_text())[0]
            self.assertEqual(entry["RepoTags"], [f"example.com/mgpu/{name}:t1"])
            self.assertEqual(json.loads((folder / "docker" / entry["Config"]).read_text()), layout.config)
            layers = [hashlib.sha256((folder / "docker" / path).read_bytes()).hexdigest() for path in entry["Layers"]]
            self.assertEqual([f"sha256:{layer}" for layer in layers], layout.config["rootfs"]["diff_ids"])

    def test_the_list_has_all_digests(self):
        listed = json.loads((made / "images.json").read_text())["images"]
        self.assertEqual([(image["reference"], image["digest"]) for image in listed],
                         [(f"example.com/mgpu/{name}:t1", layout.entry["digest"]) for name, layout in each()])


class Sbom(unittest.TestCase):
    def test_names_every_file_with_its_checksum(self):
        for name, layout in each():
            files = {file["fileName"]: {each["algorithm"]: each["checksumValue"] for each in file["checksums"]}
                     for file in sbom(name)["files"]}
            expected = {f"./{path}": {"SHA1": hashlib.sha1(data).hexdigest(),
                                      "SHA256": hashlib.sha256(data).hexdigest()}
                        for path, data in layout.contents.items()}
            self.assertEqual(files, expected)

    def test_every_file_is_in_one_package(self):
        for name, _ in each():
            document = sbom(name)
            files = {file["SPDXID"] for file in document["files"]}
            packages = {package["SPDXID"] for package in document["packages"]}
            contained = [each["relatedSpdxElement"] for each in document["relationships"]
                         if each["relationshipType"] == "CONTAINS" and each["relatedSpdxElement"] in files]
            self.assertEqual(sorted(contained), sorted(files))
            for relation in document["relationships"]:
                for end in ("spdxElementId", "relatedSpdxElement"):
                    self.assertIn(relation[end], files | packages | {"SPDXRef-DOCUMENT"})

    def test_packages_have_the_versions_of_dpkg(self):
        for name, _ in each():
            packages = {package["name"]: package for package in sbom(name)["packages"]}
            self.assertEqual(packages["libssl3"]["versionInfo"],
                             must_run("dpkg-query", "-W", "-f=${Version}", "libssl3"))
            self.assertEqual(packages["libssl3"]["licenseDeclared"], "Apache-2.0")
            self.assertIn("libboost1.81-dev", packages, "a library of headers")
            self.assertNotIn("linux-libc-dev", packages)

    def test_a_program_without_libraries_names_what_it_is_linked_with(self):
        document = sbom("mgpu-device-plugin")
        names = {each["SPDXID"]: each.get("name") or each["fileName"]
                 for each in document["packages"] + document["files"]}
        linked = {names[each["relatedSpdxElement"]] for each in document["relationships"]
                  if each["relationshipType"] == "STATIC_LINK"
                  and names[each["spdxElementId"]] == "./usr/bin/mgpu-set-limits"}
        self.assertLessEqual({"libc6-dev", "libstdc++-12-dev", "libgcc-12-dev"}, linked)

    def test_identifies_the_image(self):
        for name, layout in each():
            image = sbom(name)["packages"][0]
            self.assertEqual(image["checksums"][0]["checksumValue"], layout.entry["digest"].split(":")[1])

    def test_is_valid(self):
        try:
            from spdx_tools.spdx.parser.parse_anything import parse_file
            from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
        except ImportError:
            self.skipTest("spdx-tools is not in PYTHONPATH")

        def complaints(path):
            return [each.validation_message for each in validate_full_spdx_document(parse_file(str(path)))]

        for name, _ in each():
            self.assertEqual(complaints(made / f"{name}.spdx.json"), [], name)
        damaged = copy.deepcopy(sbom("mgpu-extender"))
        damaged["packages"][2]["licenseDeclared"] = "Unheard-of-1.0"
        path = pathlib.Path(scratch.name) / "damaged.spdx.json"
        path.write_text(json.dumps(damaged))
        self.assertNotEqual(complaints(path), [])


class Containerd(unittest.TestCase):
    """A containerd of its own, with the archives."""

    def setUp(self):
        folder = os.environ.get("MGPU_RUNTIME_FOLDER", "")
        if not folder or not AS_ROOT:
            self.skipTest("containerd needs root and MGPU_RUNTIME_FOLDER")
        self.runtime = pathlib.Path(folder)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mgpu-ctr-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "config.toml").write_text(
            f'version = 3\nroot = "{self.folder}/root"\nstate = "{self.folder}/state"\n'
            f'[grpc]\naddress = "{self.folder}/containerd.sock"\n[ttrpc]\naddress = "{self.folder}/ttrpc.sock"\n')
        self.environment = {"PATH": f"{self.runtime}:{os.environ['PATH']}"}
        with open(self.folder / "log", "wb") as log:
            containerd = subprocess.Popen(
                [self.runtime / "containerd", "--config", self.folder / "config.toml"], stdout=log, stderr=log,
                env={**os.environ, **self.environment})
        self.addCleanup(self.stop, containerd)
        deadline = time.monotonic() + WAIT_SECONDS
        while self.ctr("version")[0] != 0:
            self.assertLess(time.monotonic(), deadline, (self.folder / "log").read_text()[-2000:])
            time.sleep(0.2)

    @staticmethod
    def stop(process):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=WAIT_SECONDS)

    def ctr(self, *words):
        return run(self.runtime / "ctr", "--address", self.folder / "containerd.sock", "--namespace", "k8s.io", *words,
                   environment=self.environment)

    def test_imports_both_archives_and_runs_the_image(self):
        reference = "example.com/mgpu/mgpu-extender:t1"
        for archive in ("oci.tar", "docker.tar"):
            with self.subTest(archive):
                status, output = self.ctr("images", "import", made / f"mgpu-extender.{archive}")
                self.assertEqual(status, 0, output)
                _, listed = self.ctr("images", "list", f"name=={reference}")
                self.assertIn(reference, listed)
                if archive == "oci.tar":
                    self.assertIn(layouts["mgpu-extender"].entry["digest"], listed)
                status, output = self.ctr("run", "--rm", "--read-only", "--snapshotter", "native", reference,
                                          f"mgpu-{archive}", "/usr/bin/mgpu-extender", "--version")
                self.assertEqual(status, 0, output)
                self.assertIn("mgpu 0.1.0 (commit ", output)
                self.assertEqual(self.ctr("images", "remove", "--sync", reference)[0], 0)


class WrongArguments(unittest.TestCase):
    def test_build_sh_says_what_is_wrong(self):
        cases = [
            (["--tag", "a b", "out"], '--tag: "a b" is not a tag of an image'),
            (["--repository", "Upper/case", "out"], '--repository: "Upper/case" is not the name of a repository'),
            (["--platform", "x", "out"], 'unknown flag "--platform"'),
            (["--tag"], "--tag needs a value"),
            ([], "the folder for the images is missing"),
            (["--build", "/nowhere", "out"], '--build: "/nowhere" is not a folder'),
            (["--build", BUILD, "out", "nginx"], '"nginx" is not an image; want mgpu-extender, '),
        ]
        for arguments, sentence in cases:
            with self.subTest(sentence):
                status, output = run("bash", BUILD_SH, *arguments, folder=scratch.name)
                self.assertNotEqual(status, 0)
                self.assertIn(sentence, output)
                self.assertEqual(output.count("\n"), 1, output)

    def test_a_time_that_is_none_is_refused(self):
        status, output = run("bash", BUILD_SH, "out", environment={"SOURCE_DATE_EPOCH": "now"})
        self.assertNotEqual(status, 0)
        self.assertIn('SOURCE_DATE_EPOCH: "now" is not a time in seconds', output)

    def test_a_program_that_was_not_built_is_named(self):
        empty = pathlib.Path(scratch.name) / "empty"
        empty.mkdir()
        status, output = run("python3", "-B", ROOT / "deploy/images/images.py", "build", "--build", empty, "--version",
                             "0.1.0", "--revision", "r", "--repository", "r", "--tag", "t", "--epoch", "0", empty / "out",
                             "mgpu-mps")
        self.assertEqual((status, output), (1, f"images.py: {empty}/plugin/mgpu-mps does not exist; build it first\n"))


class Licenses(unittest.TestCase):
    """What the copyright files of Debian's packages say."""

    class Package:
        def __init__(self, text):
            self.name, self.text = "libdemo1", text

        def copyright(self):
            return self.text

    def found(self, paragraphs, form="https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"):
        return licenses.of(self.Package(f"Format: {form}\n\n{paragraphs}"))

    def test_names_of_debian_become_those_of_spdx(self):
        for name, expected in [("Expat", "MIT"), ("LGPL-2.1+", "LGPL-2.1-or-later"), ("GPL-2", "GPL-2.0-only"),
                               ("LGPL-3+ or GPL-2+", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
                               ("BSD-3-clause and Expat", "BSD-3-Clause AND MIT")]:
            self.assertEqual(self.found(f"Files: *\nLicense: {name}\n").declared, expected)

    def test_other_names_refer_to_their_text(self):
        found = self.found("Files: *\nLicense: Odd-1 or Expat\n\nLicense: Odd-1\n Do what is odd.\n .\n Then stop.\n")
        self.assertEqual(found.declared, "LicenseRef-libdemo1-Odd-1 OR MIT")
        self.assertEqual(found.extracted, {"LicenseRef-libdemo1-Odd-1": ("Odd-1", "Do what is odd.\n\nThen stop.")})

    def test_an_expression_that_mixes_words_is_kept_as_text(self):
        found = self.found("Files: *\nLicense: Expat and GPL-2 or GPL-3\n")
        self.assertEqual(found.declared, "LicenseRef-libdemo1-Expat-and-GPL-2-or-GPL-3")

    def test_licences_of_other_files_are_listed(self):
        found = self.found("Files: *\nLicense: Expat\n\nFiles: debian/*\nLicense: GPL-2+\n")
        self.assertEqual((found.declared, found.others), ("MIT", ["GPL-2+"]))

    def test_a_text_of_another_form_says_nothing(self):
        self.assertEqual(self.found("Files: *\nLicense: Expat\n", form="free text").declared, "")
        self.assertEqual(licenses.of(self.Package("This is free software.\n")).declared, "")


if __name__ == "__main__":
    main(sys.modules[__name__])
