#!/usr/bin/env python3
"""Draws what the model of compute shares printed: draw.py < what turns_test printed > modes.svg."""
import sys

MODES = {  # as turns_test names them: label, colour, dashes
    "fixed": ("turns, fixed", "#0072b2", ""),
    "burst": ("turns, burst", "#d55e00", ""),
    "delta": ("bucket of HAMi-core", "#009e73", "7 3"),
    "aimd": ("AIMD of vgpu-manager", "#cc79a7", "2 3"),
    "none": ("no limit", "#8a939c", "10 4 2 4"),
}
STYLE = (".t{fill:#1b2127}.s{fill:#57606a}.g{stroke:#d5dbe1}"
         "@media(prefers-color-scheme:dark){.t{fill:#e8edf2}.s{fill:#a9b5c0}.g{stroke:#39434d}}")
WIDTH, HEIGHT = 980, 330
TOP, BOTTOM = 60, 280
# What is drawn: the rows, a title, the values at both ends, the marks between them, the left edge.
PANELS = (
    ("errors", "Distance from what is due, points", 0, 30, (1, 3, 10, 20, 30), 60),
    ("saturating", "Work of what is due, programs that always have work", 0, 1.2,
     (0, 0.25, 0.5, 0.75, 0.95, 1.2), 560),
)
PANEL_WIDTH = 360


class Panel:
    def __init__(self, least, most, left):
        self.least, self.most, self.left = least, most, left

    def x(self, value):
        part = (min(value, self.most) - self.least) / (self.most - self.least)
        return round(self.left + part * PANEL_WIDTH, 1)

    @staticmethod
    def y(part):
        return round(BOTTOM - part * (BOTTOM - TOP), 1)


def text(x, y, words, kind="s", size=12, anchor="start"):
    return f'<text x="{x}" y="{y}" font-size="{size}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def grid(panel, marks):
    for mark in marks:
        x = panel.x(mark)
        yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{BOTTOM}" class="g"/>'
        yield text(x, BOTTOM + 18, f"{mark:g}", anchor="middle")
    for percent in (0, 25, 50, 75, 95):
        y = panel.y(percent / 100)
        yield f'<line x1="{panel.left}" y1="{y}" x2="{panel.left + PANEL_WIDTH}" y2="{y}" class="g"/>'
        yield text(panel.left - 8, y + 4, f"{percent} %", anchor="end")


def curve(panel, values, colour, dashes):
    """Part of the programs (upwards) that have at most so much."""
    last = len(values) - 1
    points = []
    for i, value in enumerate(values):
        points.append(f"{panel.x(value)},{panel.y(i / last)}")
        if value > panel.most:
            break
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def legend():
    x = 60
    for label, colour, dashes in MODES.values():
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        yield f'<line x1="{x}" y1="314" x2="{x + 28}" y2="314" stroke="{colour}" stroke-width="2"{dashed}/>'
        yield text(x + 34, 318, label)
        x += 190


def read(lines):
    """The quantiles of each mode, by what they are of: {"errors": {"burst": [...]}}."""
    read_rows = {panel[0]: {} for panel in PANELS}
    for line in lines:
        kind, *cells = line.strip().split(",")
        if kind in read_rows and cells[0] in MODES:
            read_rows[kind][cells[0]] = [float(cell) for cell in cells[1:]]
    return read_rows


def draw(rows):
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
           f'height="{HEIGHT}" font-family="system-ui,\'DejaVu Sans\',sans-serif">')
    yield f"<style>{STYLE}</style>"
    for kind, title, least, most, marks, left in PANELS:
        panel = Panel(least, most, left)
        yield text(left, 26, title, "t", 15)
        yield text(left, 46, "part of the programs that have at most so much")
        yield from grid(panel, marks)
        for mode, (_, colour, dashes) in MODES.items():
            if mode in rows[kind]:
                yield curve(panel, rows[kind][mode], colour, dashes)
    yield from legend()
    yield "</svg>"


def main():
    rows = read(sys.stdin)
    if not all(rows.values()):
        sys.exit("no rows: run turns_test with MGPU_TURN_MIXES")
    print("\n".join(draw(rows)))


if __name__ == "__main__":
    main()
