"""What dpkg knows about the files of this machine."""
import os
import re
import subprocess

from problem import Problem, output_of

FIELDS = {
    "Package": "${Package}",
    "Version": "${Version}",
    "Architecture": "${Architecture}",
    "Maintainer": "${Maintainer}",
    "Source": "${source:Package} (${source:Version})",
    "Homepage": "${Homepage}",
    "Description": "${binary:Summary}",
}
COMMON_LICENSES = "/usr/share/common-licenses"
# Arguments of one call of dpkg-query.
BATCH = 500


class Package:
    """An installed Debian package."""

    def __init__(self, fields):
        self.fields = fields
        self.name = fields["Package"]
        self.version = fields["Version"]
        self.architecture = fields["Architecture"]

    def control(self):
        """The paragraph that scanners of images read in /var/lib/dpkg/status.d."""
        lines = [f"{key}: {value}" for key, value in self.fields.items() if value]
        return "\n".join(lines) + "\n"

    def copyright(self):
        """The text of its copyright file."""
        path = f"/usr/share/doc/{self.name}/copyright"
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError as failed:
            raise Problem(f"the licence of the package {self.name} cannot be read: {failed}") from failed


def architecture_of_machine():
    return output_of("dpkg", "--print-architecture").strip()


def release():
    """The version of Debian, for package URLs."""
    with open("/etc/os-release", encoding="utf-8") as file:
        fields = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    return f'{fields.get("ID", "debian")}-{fields.get("VERSION_ID", "")}'.replace('"', "")


def spellings(path):
    """The paths under which a package may list a file: /lib is a link to /usr/lib, and not to dpkg."""
    real = os.path.realpath(path)
    yield real
    if real.startswith("/usr/"):
        yield real[len("/usr"):]
    if path != real:
        yield path


def owners_of(paths):
    """The owner of each path as dpkg names it, such as "libc6:amd64"; paths without one are missing."""
    names = {spelling: path for path in paths for spelling in spellings(path)}
    owners = {}
    wanted = sorted(names)
    for begin in range(0, len(wanted), BATCH):
        # It fails if one of the paths has no owner, and prints the owners of the others.
        done = subprocess.run(["dpkg-query", "-S", "--", *wanted[begin:begin + BATCH]],
                              capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"([^ ,]+)(?:, [^:]*)?: (/.*)", line)
            if match and match[2] in names:
                owners[names[match[2]]] = match[1]
    return owners


def packages(names):
    """The packages with these names, as dpkg names them."""
    found = {}
    form = "\\t".join(FIELDS.values()) + "\\n"
    wanted = sorted(set(names))
    if not wanted:
        return found
    # In the order of the arguments.
    lines = [output_of("dpkg-query", "-W", f"-f={form}", name).splitlines()[0] for name in wanted]
    for name, line in zip(wanted, lines):
        found[name] = Package(dict(zip(FIELDS, line.split("\t"))))
    return found


def files_of(package):
    """The paths that the package has installed."""
    return output_of("dpkg-query", "-L", package).splitlines()


def common_licenses_in(text):
    """The files of /usr/share/common-licenses that a copyright file refers to."""
    names = re.findall(COMMON_LICENSES + r"/([A-Za-z0-9.-]*[A-Za-z0-9])", text)
    return sorted({name for name in names if os.path.exists(f"{COMMON_LICENSES}/{name}")})
