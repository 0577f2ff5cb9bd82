"""The Debian packages of which parts are compiled into a program: headers and static libraries."""
import os
import re

from debian import owners_of
from elf import Elf
from problem import output_of

# Only constants and structures of the kernel's interface. Scanners would report each vulnerability of the
# kernel for the image.
IGNORED = ("linux-libc-dev",)


def dependencies(build):
    """The headers of each object file, as ninja has recorded them: {object: [path]}."""
    headers = {}
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith("    "):
            current.append(os.path.join(build, line.strip()))
        elif ": #deps" in line:
            current = headers.setdefault(line.split(": #deps")[0], [])
    return headers


def static_parts(program, compiler):
    """The static libraries of a program that needs no libraries at run time."""
    if Elf(program).needed:
        return []
    names = ("libc.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a")
    return [output_of(compiler, f"-print-file-name={name}").strip() for name in names]


def compiler_of(build):
    with open(f"{build}/CMakeCache.txt", encoding="utf-8") as file:
        return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", file.read(), re.MULTILINE)[1]


def packages_in(build, targets):
    """The packages whose parts are in each target: {target: [name of the package]}."""
    headers = dependencies(build)
    compiler = compiler_of(build)
    parts = {}
    for target in targets:
        inputs = output_of("ninja", "-C", build, "-t", "inputs", target).splitlines()
        paths = {path for each in inputs for path in headers.get(each, [])}
        paths |= {path for path in inputs if path.startswith("/usr/") and path.endswith(".a")}
        paths |= set(static_parts(os.path.join(build, target), compiler))
        parts[target] = sorted(path for path in map(os.path.normpath, paths) if path.startswith("/usr/"))
    owners = owners_of({path for paths in parts.values() for path in paths})
    return {target: sorted({owners[path] for path in paths if path in owners
                            and owners[path].split(":")[0] not in IGNORED})
            for target, paths in parts.items()}
