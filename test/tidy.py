#!/usr/bin/env python3
"""Runs clang-tidy over the sources of the product: python3 test/tidy.py BUILD_FOLDER

Reading headers takes clang-tidy ten times as long as reading the source that includes them. So all
sources of a library are included into one file, and that file is checked. This is why names in the
unnamed namespaces of one library have to differ: the compiler reports a second definition.

A library is not checked again until one of its sources, a header, its compiler flags, .clang-tidy or
clang-tidy itself changes: ~/.cache/mgpu/tidy-HASH says that it passed.

Prints what was found, and ends with status 1 if there was anything.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

TIDY = "clang-tidy-16"
PRODUCT = ("common", "extender", "plugin")
# Each source of these folders defines functions of the same names.
ONE_BY_ONE = ("policies",)
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "mgpu"


def libraries(build):
    """The sources and the compiler flags of each library, from CMake's list of commands."""
    sources, flags = collections.defaultdict(list), {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.relative_to(ROOT).parts[0] not in PRODUCT:
            continue
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        library = re.search(r"CMakeFiles/(.+)\.dir/", output).group(1)
        if source.parent.name in ONE_BY_ONE:
            library += "-" + source.stem
        sources[library].append(source)
        flags[library] = [word for word in words if re.match(r"-[DIW]|-std=", word)] + system_folders(words)
    return {name: (sorted(paths), flags[name]) for name, paths in sources.items()}


def system_folders(words):
    return [part for at, word in enumerate(words) if word == "-isystem" for part in words[at : at + 2]]


def fingerprint(common, sources, flags):
    digest = hashlib.sha256(common + " ".join(flags).encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def common_fingerprint():
    """Of what every library depends on."""
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(version + (ROOT / ".clang-tidy").read_bytes())
    for folder in PRODUCT:
        for header in sorted((ROOT / folder).rglob("*.h")):
            digest.update(header.read_bytes())
    return digest.digest()


def check(library, sources, flags, folder):
    """What clang-tidy prints about a library; nothing if it finds nothing."""
    unit = folder / f"{library}.cc"
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    run = subprocess.run(
        [TIDY, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(unit), "--", *flags],
        capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return ""
    return run.stdout.replace(f"{ROOT}/", "") or run.stderr


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    common = common_fingerprint()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {}
        for library, (sources, flags) in libraries(build).items():
            passed = CACHE / f"tidy-{fingerprint(common, sources, flags)}"
            if not passed.exists():
                running[pool.submit(check, library, sources, flags, folder)] = passed
        for done in concurrent.futures.as_completed(running):
            found = done.result()
            if found:
                failed += 1
                print(found, flush=True)
            else:
                running[done].touch()
    print(f"clang-tidy: {len(running)} libraries checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
