#!/usr/bin/env python3
"""Makes the other files of a release, beside images that build.sh has made. deploy/release.sh calls it.

  release.py VERSION IMAGES OUT       IMAGES is the folder of build.sh, OUT that of the release
"""
import argparse
import fnmatch
import hashlib
import io
import json
import os
import re
import sys
import tarfile

import debian
import elf
import images
import oci
import staging
from problem import Problem

CLI = "kubectl-mgpu"
# What the archive of the CLI has in place of the program. The libraries are those of the archive, so that
# the program runs on any Linux. kubectl and krew call it by a link.
WRAPPER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")") || exit 1
exec "$here/lib/{loader}" --argv0 "$0" --library-path "$here/lib" "$here/lib/{program}" "$@"
"""
KREW = """apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: mgpu
spec:
  version: v{version}
  homepage: {homepage}
  shortDescription: Check and inspect mgpu, which shares GPUs
  description: |
    Shows the cards of a cluster in which mgpu shares GPUs between pods: nodes,
    cards, pods and what they use. Explains why a pod waits and what would help,
    simulates where the pods of a manifest would be placed, and keeps new pods
    from a card. "kubectl mgpu doctor" checks the installation, and says for each
    finding what to do.
  platforms:
"""
KREW_PLATFORM = """  - selector:
      matchLabels:
        os: linux
        arch: {architecture}
    uri: {uri}
    sha256: {sha256}
    bin: {program}
"""


def archive(files, epoch):
    """A tar archive that is compressed: {path: (mode, bytes)}; a text in place of bytes is the target of a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, (mode, data) in sorted(files.items()):
            info = oci.member(path, mode, epoch)
            if isinstance(data, str):
                info.type, info.linkname, data = tarfile.SYMTYPE, data, b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return oci.compressed(out.getvalue())


def field_of(text, name):
    match = re.search(rf"^{name}: *\"?([^\"\n]*?)\"? *$", text, re.MULTILINE)
    return match[1] if match else ""


def chart_files(folder, version):
    """What `helm package` puts into its archive. Its own archives have the time at which they were made."""
    with open(f"{folder}/Chart.yaml", encoding="utf-8") as file:
        text = file.read()
    for name in ("version", "appVersion"):
        found = field_of(text, name)
        if found != version:
            raise Problem(f'Chart.yaml: {name} is "{found}"; want the version of the release, "{version}"')
    files = {}
    ignored = staging.read(f"{folder}/.helmignore").decode().split()
    for above, _, names in os.walk(folder):
        for name in names:
            if any(fnmatch.fnmatch(name, pattern) for pattern in ignored):
                continue
            path = f"{above}/{name}"
            files[f"mgpu/{os.path.relpath(path, folder)}"] = (0o644, staging.read(path))
    return files


def cli_files(tree, program):
    """The program of an image with its libraries and licences, below one folder each."""
    triple = f"usr/lib/{elf.TRIPLES[tree.architecture]}/"
    documents = "usr/share/doc/"
    texts = f"{debian.COMMON_LICENSES[1:]}/"
    files, loader = {}, ""
    for path, entry in tree.entries.items():
        name = os.path.basename(path)
        data = entry.target or entry.data
        if entry.folder:
            continue
        if path == f"usr/bin/{program}" or path.startswith(triple):
            files[f"lib/{name}"] = (entry.mode, data)
            loader = name if name.startswith("ld-") else loader
        elif path.startswith(documents):
            files[f"licenses/{path[len(documents):]}"] = (entry.mode, data)
        elif path.startswith(texts):
            files[f"licenses/common/{name}"] = (entry.mode, data)
    files[program] = (0o755, WRAPPER.format(loader=loader, program=program).encode())
    return files


def krew_manifest(version, homepage, base_url, archives):
    """`archives` has the name and the bytes for each architecture."""
    text = KREW.format(version=version, homepage=homepage)
    for architecture, (name, data) in sorted(archives.items()):
        text += KREW_PLATFORM.format(architecture=architecture, uri=f"{base_url}/{name}",
                                     sha256=hashlib.sha256(data).hexdigest(), program=CLI)
    return text


def check_change_log(version):
    with open(f"{images.SOURCE}/deploy/CHANGELOG.md", encoding="utf-8") as file:
        if not re.search(rf"^## {re.escape(version)}( |$)", file.read(), re.MULTILINE):
            raise Problem(f'deploy/CHANGELOG.md has no entry "## {version}"')


def image_files(folder, version):
    """The files of build.sh under names that say what they are for: {name: bytes}."""
    made = json.loads(staging.read(f"{folder}/images.json"))
    files = {f"images-{version}.json": staging.read(f"{folder}/images.json")}
    for image in made["images"]:
        name = f'{image["name"]}-{version}-linux-{image["architecture"]}'
        for suffix in ("oci.tar", "docker.tar", "spdx.json"):
            files[f"{name}.{suffix}"] = staging.read(f'{folder}/{image["name"]}.{suffix}')
    return files


def release_files(arguments):
    version, epoch = arguments.version, arguments.epoch
    check_change_log(version)
    files = image_files(arguments.images, version)
    files[f"mgpu-{version}.tgz"] = archive(chart_files(f"{images.SOURCE}/deploy/chart", version), epoch)
    files[f"mgpu-{version}.yaml"] = staging.read(f"{images.SOURCE}/deploy/manifests/mgpu.yaml")
    if any(name.startswith(f"{CLI}-{version}-linux-") for name in files):
        tree = staging.stage(images.chosen([CLI])[0], images.SOURCE, arguments.build)
        name = f"{CLI}-{version}-linux-{tree.architecture}.tar.gz"
        files[name] = archive(cli_files(tree, CLI), epoch)
        files["mgpu.yaml"] = krew_manifest(version, arguments.homepage or arguments.base_url, arguments.base_url,
                                           {tree.architecture: (name, files[name])}).encode()
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    files["SHA256SUMS"] = "".join(sums).encode()
    return files


def main():
    parser = argparse.ArgumentParser(description="Makes the files of a release.")
    parser.add_argument("version")
    parser.add_argument("images")
    parser.add_argument("out")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--homepage", default="")
    parser.add_argument("--build", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    arguments = parser.parse_args()
    try:
        for name, data in release_files(arguments).items():
            oci.write_file(f"{arguments.out}/{name}", data)
    except (Problem, OSError) as failed:
        print(f"release.py: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
