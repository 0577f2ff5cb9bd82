"""Programs and libraries: what they need, and where that is."""
import os
import re
import tempfile

from problem import Problem, output_of

TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
MACHINES = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}


class Elf:
    """The dynamic section of a file."""

    def __init__(self, path):
        text = output_of("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", path)
        self.machine = first(r"Machine:\s+(.*)", text)
        self.interpreter = first(r"Requesting program interpreter: ([^\]]*)\]", text)
        self.soname = first(r"\(SONAME\)\s+Library soname: \[([^\]]*)\]", text)
        self.needed = re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]*)\]", text)


def first(pattern, text):
    match = re.search(pattern, text)
    return match[1].strip() if match else ""


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def library_folders(architecture):
    """Where the loader searches without a cache."""
    triple = TRIPLES[architecture]
    return [f"/lib/{triple}", f"/usr/lib/{triple}"]


def find_library(name, architecture):
    for folder in library_folders(architecture):
        if os.path.isfile(f"{folder}/{name}"):
            return f"{folder}/{name}"
    raise Problem(f'the library "{name}" was not found in {" or ".join(library_folders(architecture))}')


def closure(files, architecture, names=()):
    """The libraries that the files need, and these names need, directly or not: {name: path}."""
    found = {}
    waiting = list(names)
    for file in files:
        elf = Elf(file)
        if elf.machine != MACHINES[architecture]:
            raise Problem(f"{file} is for {elf.machine}; want {MACHINES[architecture]}")
        waiting += elf.needed
        if elf.interpreter:
            waiting.append(os.path.basename(elf.interpreter))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = find_library(name, architecture)
        waiting += Elf(found[name]).needed
    return dict(sorted(found.items()))


def interpreters(files):
    """The paths of the loaders that the files name."""
    return sorted({Elf(file).interpreter for file in files} - {""})


def stripped(path, architecture):
    """The bytes of a program without its symbols; the build ID stays."""
    triple = TRIPLES[architecture]
    native = Elf("/proc/self/exe").machine == MACHINES[architecture]
    with tempfile.TemporaryDirectory() as folder:
        output_of("strip" if native else f"{triple}-strip", "-o", f"{folder}/stripped", path)
        with open(f"{folder}/stripped", "rb") as file:
            return file.read()
