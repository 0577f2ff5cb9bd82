"""The licence of a Debian package, where its copyright file has the machine-readable form (DEP 5)."""
import re
from dataclasses import dataclass, field

FORMAT = "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0"
# Debian's short names, in lower case, and those of SPDX.
NAMES = {
    "apache-2.0": "Apache-2.0", "apache-2": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "curl": "curl",
    "cc0-1.0": "CC0-1.0", "expat": "MIT", "mit": "MIT", "isc": "ISC", "mpl-2.0": "MPL-2.0", "zlib": "Zlib",
    "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later",
    "lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later",
    "gfdl-1.3+": "GFDL-1.3-or-later", "openldap-2.8": "OLDAP-2.8",
}


@dataclass
class Found:
    """`declared` is an expression of SPDX for "Files: *", or empty; `others` are Debian's names."""
    declared: str = ""
    others: list = field(default_factory=list)
    # {"LicenseRef-...": (Debian's name, text)}
    extracted: dict = field(default_factory=dict)


def paragraphs(text):
    """The fields of each paragraph: [{name in lower case: value with its lines}]."""
    all_of_them = []
    for block in re.split(r"\n[ \t]*\n", text.strip()):
        fields, key = {}, None
        for line in block.splitlines():
            start = re.match(r"([A-Za-z-]+):(.*)", line)
            if start:
                key = start[1].lower()
                fields[key] = start[2].strip()
            elif key and line[:1] in " \t":
                fields[key] += "\n" + line.strip()
        all_of_them.append(fields)
    return all_of_them


def of(package):
    text = package.copyright()
    found = Found()
    blocks = paragraphs(text)
    if not blocks or FORMAT not in blocks[0].get("format", "").replace("http:", "https:"):
        return found
    texts, main = {}, ""
    for block in blocks:
        if "license" not in block:
            continue
        name, _, body = block["license"].partition("\n")
        if body.strip():
            texts.setdefault(name.strip(), body.replace("\n.\n", "\n\n").strip())
        if block.get("files", "").strip() == "*":
            main = name.strip()
        elif name.strip() and name.strip() not in found.others:
            found.others.append(name.strip())
    if main:
        found.declared = expression(main, package.name, texts, found.extracted)
    found.others = sorted(set(found.others) - {main})
    return found


def expression(text, package, texts, extracted):
    """An expression of SPDX. A name that SPDX does not have becomes a reference to its text."""
    words = re.split(r"\s*,?\s+(and|or)\s+", text)
    mixed = len(set(words[1::2])) > 1
    parts = [text] if mixed or "," in "".join(words[::2]) else words
    translated = []
    for index, part in enumerate(parts):
        if index % 2:
            translated.append(part.upper())
        elif part.lower() in NAMES:
            translated.append(NAMES[part.lower()])
        else:
            key = "LicenseRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{package}-{part}").strip("-")
            extracted[key] = (part, texts.get(part) or f"See /usr/share/doc/{package}/copyright.")
            translated.append(key)
    return " ".join(translated)
