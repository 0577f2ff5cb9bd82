#!/usr/bin/env python3
"""Makes container images of the programs in a build folder. deploy/images/build.sh calls it.

  images.py targets NAME...           prints the program of each image that the build folder must have
  images.py build OUT NAME...         writes images to the folder OUT
"""
import argparse
import datetime
import json
import os
import sys

import oci
import sbom
import staging
from problem import Problem

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))


def images():
    with open(f"{HERE}/images.json", encoding="utf-8") as file:
        return {image["name"]: image for image in json.load(file)["images"]}


def chosen(names):
    known = images()
    for name in names:
        if name not in known:
            raise Problem(f'"{name}" is not an image; want {", ".join(known)}')
    return [known[name] for name in names or known]


def print_targets(arguments):
    for image in chosen(arguments.names):
        print(image["name"], *image["programs"].values(), *image.get("for_containers", {}).values())


def time_text(epoch):
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels_of(image, arguments):
    name = "org.opencontainers.image."
    labels = {
        name + "title": image["title"],
        name + "description": image["description"],
        name + "version": arguments.version,
        name + "revision": arguments.revision,
        name + "created": time_text(arguments.epoch),
        name + "vendor": "The mgpu Authors",
        # Of the programs; the SBOM has those of the libraries.
        name + "licenses": "Apache-2.0",
    }
    if arguments.source_url:
        labels[name + "source"] = arguments.source_url
    return labels


def build(arguments):
    digests = []
    for image in chosen(arguments.names):
        tree = staging.stage(image, SOURCE, arguments.build)
        reference = f'{arguments.repository}/{image["name"]}:{arguments.tag}'
        process = {"Entrypoint": [f'/usr/bin/{image["entrypoint"]}'], "User": staging.USERS[image["user"]]}
        made = oci.Image(tree, reference, labels_of(image, arguments), process, arguments.epoch)
        made.write(arguments.out, image["name"])
        document = sbom.document(image, tree, made.digest(), arguments.version, time_text(arguments.epoch))
        oci.write_file(f'{arguments.out}/{image["name"]}.spdx.json', sbom.as_text(document))
        digests.append({"name": image["name"], "reference": reference, "digest": made.digest(),
                        "architecture": tree.architecture})
        print(f'{reference}@{made.digest()} {len(made.layer) >> 20} MiB')
    text = json.dumps({"images": digests}, indent=2, sort_keys=True) + "\n"
    oci.write_file(f"{arguments.out}/images.json", text.encode())


def parsed():
    parser = argparse.ArgumentParser(description="Makes container images of the programs in a build folder.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("targets")
    command.set_defaults(run=print_targets)
    command.add_argument("names", nargs="*")
    command = commands.add_parser("build")
    command.set_defaults(run=build)
    command.add_argument("--build", default=f"{SOURCE}/build/release")
    for flag in ("--version", "--revision", "--repository", "--tag"):
        command.add_argument(flag, required=True)
    command.add_argument("--epoch", type=int, required=True)
    command.add_argument("--source-url", default="")
    command.add_argument("out")
    command.add_argument("names", nargs="*")
    return parser.parse_args()


def main():
    arguments = parsed()
    try:
        arguments.run(arguments)
    except (Problem, OSError) as failed:
        print(f"images.py: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
