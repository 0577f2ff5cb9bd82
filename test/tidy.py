#!/usr/bin/env python3
"""Runs clang-tidy over the sources of the product: python3 test/tidy.py BUILD_FOLDER

Reading headers takes clang-tidy ten times as long as reading the source that includes them. So it
checks what builds with sanitizers compile: one file for each library, which includes its sources.

Such a file is not checked again until one of its sources, a header, its compiler flags, .clang-tidy or
clang-tidy itself changes: ~/.cache/mgpu/tidy/HASH says that it passed, in any checkout, and is removed
after 30 days.

Prints what was found, and ends with status 1 if there was anything.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

TIDY = "clang-tidy-16"
PRODUCT = ("common", "extender", "plugin")
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "mgpu/tidy"
KEEP_SECONDS = 30 * 24 * 3600


def files(build):
    """What is compiled: the sources in each file, and its compiler flags, from CMake's list of commands."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file, words = pathlib.Path(entry["file"]), shlex.split(entry["command"])
        output = pathlib.Path(words[words.index("-o") + 1])
        sources = [file]
        if file.parent.name == "Unity":
            sources = [pathlib.Path(path) for path in re.findall(r'#include "(.+)"', file.read_text())]
        is_product = output.parts[0] in PRODUCT and sources[0].is_relative_to(ROOT / output.parts[0])
        if is_product and file.suffix != ".S":
            flags = [word for word in words if re.match(r"-[DIW]|-std=", word)]
            yield file, sources, flags + system_folders(words)


def system_folders(words):
    return [part for at, word in enumerate(words) if word == "-isystem" for part in words[at : at + 2]]


def fingerprint(common, sources, flags):
    digest = hashlib.sha256(common + " ".join(flags).replace(str(ROOT), ".").encode())
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


def forget_old():
    for passed in CACHE.iterdir():
        if passed.stat().st_mtime < time.time() - KEEP_SECONDS:
            passed.unlink(missing_ok=True)


def check(file, flags):
    """What clang-tidy prints about a file; nothing if it finds nothing."""
    run = subprocess.run(
        [TIDY, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(file), "--", *flags],
        capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return ""
    return run.stdout.replace(f"{ROOT}/", "") or run.stderr


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    CACHE.mkdir(parents=True, exist_ok=True)
    forget_old()
    common = common_fingerprint()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {}
        for file, sources, flags in files(build):
            passed = CACHE / fingerprint(common, sources, flags)
            if passed.exists():
                passed.touch()
            else:
                running[pool.submit(check, file, flags)] = passed
        for done in concurrent.futures.as_completed(running):
            found = done.result()
            if found:
                failed += 1
                print(found, flush=True)
            else:
                running[done].touch()
    print(f"clang-tidy: {len(running)} files checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
