"""The files of an image."""
import os
from dataclasses import dataclass, field

import compiled
import debian
import elf
from problem import Problem

NONROOT = 65532
USERS = {"root": "0:0", "nonroot": f"{NONROOT}:{NONROOT}"}
PASSWD = f"""root:x:0:0:root:/:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:{NONROOT}:{NONROOT}:nonroot:/home/nonroot:/sbin/nologin
"""
GROUP = f"root:x:0:\nnogroup:x:65534:\nnonroot:x:{NONROOT}:\n"
# The C library has both of these services built in.
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
# What the libraries and programs of NVIDIA's driver need, which come from the node.
DRIVER_NEEDS = ("libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1")
OWN = "mgpu"


@dataclass
class Entry:
    """A folder, file or link of an image; `package` is where it is from."""
    mode: int
    data: bytes = b""
    target: str = ""
    folder: bool = False
    package: str = OWN
    user: int = 0


@dataclass
class Tree:
    """The files of an image, and the Debian packages from which they are."""
    architecture: str
    entries: dict = field(default_factory=dict)
    packages: dict = field(default_factory=dict)
    # Packages of which parts are compiled into programs: {path of the program: [package]}.
    compiled: dict = field(default_factory=dict)
    # {path: [path of a library]}
    needed: dict = field(default_factory=dict)
    static: set = field(default_factory=set)

    def add(self, path, entry):
        known = self.entries.get(path)
        if known and not known.folder and known != entry:
            raise Problem(f"two different files of the image have the path /{path}")
        self.entries[path] = entry
        above = os.path.dirname(path)
        if above and above not in self.entries:
            self.add(above, Entry(0o755, folder=True))

    def file(self, path, data, package=OWN, mode=0o644):
        self.add(path, Entry(mode, data=data if isinstance(data, bytes) else data.encode(), package=package))

    def link(self, path, target, package=OWN):
        self.add(path, Entry(0o777, target=target, package=package))

    def paths(self):
        """In the order of the layer: a folder is before what it contains."""
        return sorted(self.entries)

    def files(self):
        return [path for path in self.paths()
                if not self.entries[path].folder and not self.entries[path].target]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def stage(image, source, build):
    """The tree of an image of images.json, from the programs in the folder `build`."""
    programs = {f"usr/bin/{name}": f"{build}/{path}" for name, path in image["programs"].items()}
    # Libraries that containers load. What they need is there, and not in the image.
    libraries = {f"usr/bin/{name}": f"{build}/{path}" for name, path in image.get("for_containers", {}).items()}
    for file in (programs | libraries).values():
        if not os.path.isfile(file):
            raise Problem(f"{file} does not exist; build it first")
    architecture = elf.architecture_of(next(iter(programs.values())))
    tree = Tree(architecture)
    add_users(tree)
    for path, file in (programs | libraries).items():
        tree.file(path, elf.stripped(file, architecture), mode=0o755 if path in programs else 0o644)
    needed = elf.closure(programs.values(), architecture, DRIVER_NEEDS if image.get("driver") else ())
    add_libraries(tree, needed, elf.interpreters(programs.values()))
    for path, file in programs.items():
        tree.needed[path] = elf.read(file).needed
        if not tree.needed[path]:
            tree.static.add(path)
    add_certificates(tree)
    add_release(tree)
    targets = image["programs"] | image.get("for_containers", {})
    in_targets = compiled.packages_in(build, targets.values())
    for path, target in zip(programs | libraries, targets.values()):
        tree.compiled[path] = in_targets[target]
    tree.packages |= debian.packages({name for names in tree.compiled.values() for name in names})
    add_documents(tree, source)
    return tree


def add_users(tree):
    tree.file("etc/passwd", PASSWD)
    tree.file("etc/group", GROUP)
    tree.file("etc/nsswitch.conf", NSSWITCH)
    tree.add("tmp", Entry(0o1777, folder=True))
    tree.add("home/nonroot", Entry(0o700, folder=True, user=NONROOT))
    # As Debian has them.
    tree.add("usr/lib64", Entry(0o755, folder=True))
    tree.link("lib", "usr/lib")
    tree.link("lib64", "usr/lib64")


def add_libraries(tree, libraries, interpreters):
    """Each library under its own name, which is the one that others need."""
    owners = debian.owners_of(libraries.values())
    for name, path in libraries.items():
        if path not in owners:
            raise Problem(f"{path} is of no Debian package, so that its licence is not known")
        folder = f"usr/lib/{elf.TRIPLES[tree.architecture]}"
        tree.file(f"{folder}/{name}", read(path), owners[path], mode=0o755 if name.startswith("ld-") else 0o644)
        tree.needed[f"{folder}/{name}"] = elf.read(path).needed
    for path in interpreters:
        # /lib64/ld-linux-x86-64.so.2, or /lib/ld-linux-aarch64.so.1
        tree.link(f"usr{path}", f"/usr/lib/{elf.TRIPLES[tree.architecture]}/{os.path.basename(path)}",
                  owners[libraries[os.path.basename(path)]])
    tree.packages |= debian.packages(owners.values())


def add_certificates(tree):
    """The certificates of Debian's package, and none that were added to this machine."""
    name = "ca-certificates"
    files = sorted(path for path in debian.files_of(name) if path.endswith(".crt") and os.path.isfile(path))
    texts = [read(path).strip() + b"\n" for path in files]
    if not texts:
        raise Problem("the package ca-certificates has no certificates")
    tree.file(CERTIFICATES, b"".join(texts), name)
    tree.packages |= debian.packages([name])


def add_release(tree):
    """How scanners find out from which release of Debian the packages are."""
    tree.packages |= debian.packages(["base-files"])
    tree.file("usr/lib/os-release", read("/usr/lib/os-release"), "base-files")
    tree.link("etc/os-release", "../usr/lib/os-release", "base-files")
    tree.file("etc/debian_version", read("/etc/debian_version"), "base-files")
    for name in sorted({tree.entries[path].package for path in tree.files()} - {OWN}):
        package = tree.packages[name]
        tree.file(f"var/lib/dpkg/status.d/{package.name}", package.control())


def add_documents(tree, source):
    """The licences of everything that is in the image."""
    license_text = read(f"{source}/LICENSE")
    tree.file("usr/share/doc/mgpu/copyright", license_text)
    referred = set(debian.common_licenses_in(license_text.decode()))
    for name, package in sorted(tree.packages.items()):
        text = package.copyright()
        tree.file(f"usr/share/doc/{package.name}/copyright", text, name)
        referred |= set(debian.common_licenses_in(text))
    folder = debian.COMMON_LICENSES
    for name in sorted(referred):
        real = os.path.basename(os.path.realpath(f"{folder}/{name}"))
        tree.file(f"{folder[1:]}/{real}", read(f"{folder}/{real}"), "base-files")
        if real != name:
            tree.link(f"{folder[1:]}/{name}", real, "base-files")
