#!/usr/bin/env python3
"""Prints deploy/chart/README.md: all values of the chart, from values.yaml and values.schema.json."""
import json
import os
import re
import sys

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chart")
HEAD = """# Values of the chart mgpu

deploy/manifests/render.sh writes this file from [values.yaml](values.yaml) and [values.schema.json](values.schema.json).
[INSTALL.md](../INSTALL.md) describes the installation.

| value | default | meaning |
| --- | --- | --- |"""


def entries(lines):
    """Yields the path, default and comment of each value, and of each group that has a comment."""
    path, comment = [], []
    for number, line in enumerate(lines):
        text = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        if text.startswith("#"):
            comment.append(text[1:].strip())
            continue
        key = re.fullmatch(r"([A-Za-z]+):(?: (.*))?", text)
        if not key:
            comment = []
            continue
        path = path[:depth] + [key[1]]
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        default = key[2] or (f"[{{{following[2:]}}}]" if following.startswith("- ") else None)
        yield list(path), default, " ".join(comment)
        comment = []


def described(schema, path):
    """The description of a value in the schema."""
    definitions, node, text = schema["$defs"], schema, ""
    for name in path:
        node = node.get("properties", {}).get(name, {})
        text = node.get("description", "")
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[1]]
            text = text or node.get("description", "")
    if "enum" in node:
        choices = ", ".join(f"`{choice}`" for choice in node["enum"] if choice)
        text = f"{text}: {choices}" if text else choices
    return text


def main():
    with open(f"{CHART}/values.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    with open(f"{CHART}/values.yaml", encoding="utf-8") as file:
        lines = file.read().splitlines()
    print(HEAD)
    # The comment at the top is that of the file.
    for path, default, comment in entries(lines[lines.index("") :]):
        if default is None and not comment:
            continue
        text = described(schema, path)
        meaning = comment or text[:1].upper() + text[1:]
        if comment and default is not None and text.count("`") > 2:
            meaning = f"{comment} Choices: {text[text.index('`') :]}."
        meaning = meaning.replace("|", "\\|").replace("<", "&lt;")
        shown = "" if default is None else f"`{default}`"
        print(f"| `{'.'.join(path)}` | {shown} | {meaning.rstrip('.')} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
