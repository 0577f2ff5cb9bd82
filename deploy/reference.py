#!/usr/bin/env python3
"""Prints deploy/REFERENCE.md: all flags of all programs, from what --help prints.

    deploy/reference.py [BUILD FOLDER] >deploy/REFERENCE.md

The folder has the programs, and is build/release by default.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# The programs with flags, in the order of the page.
PROGRAMS = ["extender/mgpu-extender", "plugin/mgpu-device-plugin", "plugin/mgpu-mps", "extender/kubectl-mgpu",
            "bench/mgpu-sim"]
HEAD = """# Configuration reference

`deploy/reference.py` writes this page from what each program prints with `--help`. The values of the chart are in
[chart/README.md](chart/README.md), which is written from `values.yaml` and `values.schema.json`; the value `extraArgs` of
a program takes flags that have no value of their own. `mgpu-set-limits` has no flags to set: the
device plugin writes its command line, with `--mps SOCKET` where it checks that a daemon of MPS runs.

A flag is written `--name=value` or `--name value`, and a flag of the type true or false `--name` or `--name=false`. Where
a variable of the environment is named, it sets the same, and the flag takes precedence."""
FLAG = re.compile(r"  (?P<names>(?:-\w,)?--[a-z0-9-]+)(?: (?P<type>[A-Z]+))?(?:  \((?P<notes>.*)\))?")


class Unreadable(Exception):
    """A line of --help that this program does not understand."""


def help_of(command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True,
                          env={"PATH": os.defpath}).stdout


def entries(lines):
    """The entries of a list, each with its first line and the text below it."""
    found = []
    for line in lines:
        if line.startswith("      "):
            if not found:
                raise Unreadable(line)
            found[-1][1].append(line.strip())
        elif line.startswith("  "):
            found.append((line, []))
        elif line:
            raise Unreadable(line)
    return [(first, " ".join(text)) for first, text in found]


def sections(text):
    """The description, and the lines below each heading that ends with a colon."""
    parts, name = {"": []}, ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            name = line[:-1]
            parts[name] = []
        else:
            parts[name].append(line)
    return parts


def cell(text):
    """Text in a table. Only what Markdown would read otherwise is changed."""
    return text.rstrip(".").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def sentence(text):
    """Begins with a capital letter, unless the first word is the name of a program or a variable."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+[ ,;/]", text) else text


def row(first, meaning):
    flag = FLAG.fullmatch(first)
    if not flag:
        raise Unreadable(first)
    default, variable, values = "", "", flag["type"] or "true or false"
    for note in filter(None, (flag["notes"] or "").split("; ")):
        if note.startswith("default "):
            default = note[len("default "):]
        elif note.startswith("env "):
            variable = f"`{note[len('env '):]}`"
        else:
            values = note
    names = ", ".join(f"`{name}`" for name in flag["names"].split(","))
    # "none" is also the name of a value.
    has_default = default and (default != "none" or "none" in values)
    default = f"`{default}`" if has_default else ""
    return f"| {names} | {cell(values.lower() if values.isupper() else values)} | {default} | {variable} | {cell(sentence(meaning))} |"


def page_of(command, name):
    """The lines about a program, or about one of its commands."""
    parts = sections(help_of(command))
    level = "##" if len(command) == 1 else "###"
    described = parts[""][0].split(": ", 1)[1]
    yield from ("", f"{level} {name}", "", f"{sentence(described).rstrip('.')}.")
    # --help and --version are the flags of all programs.
    flags = parts.get("Flags", []) + parts.get("Connection", [])
    rows = [row(*entry) for entry in entries(flags) if not re.match(r"  (-h,)?--(help|version)$", entry[0])]
    if rows:
        yield from ("", "| flag | value | default | environment | meaning |", "| --- | --- | --- | --- | --- |", *rows)
    for first, _ in entries([line for line in parts.get("Commands", []) if not line.startswith("'")]):
        yield from page_of([*command, first.strip()], f"{name} {first.strip()}")


def main(build):
    print(HEAD)
    for program in PROGRAMS:
        name = os.path.basename(program).replace("kubectl-", "kubectl ")
        for line in page_of([os.path.join(build, program)], name):
            print(line)


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release"))
    except (Unreadable, OSError, subprocess.CalledProcessError) as problem:
        sys.exit(f"reference.py: {problem}")
