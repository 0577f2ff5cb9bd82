#!/usr/bin/env python3
"""Draws the results of bench/run.sh as SVG plots: draw.py --results DIR --out DIR."""
import argparse
import pathlib
import sys

import style
from results import LABELS, EQUILIBRIUM, Everything, Unusable, main_trace, published_traces
from style import WIDTH, look_of, pyplot

SHOWN_FROM = 80  # percent arrived; below it almost all policies place every pod
LINES_END = 130
TOP = 98.5


def draw_lines(axes, placement, trace, figure, first):
    """Draws one line per policy over arrived workload. Returns the ends of the lines for labels."""
    ends = []
    for policy in placement.policies(trace):
        arrived, values = placement.curve(trace, policy, figure)
        points = [(x, y) for x, y in zip(arrived, values) if first <= x <= LINES_END]
        look = look_of(policy)
        axes.plot(*zip(*points), **{**look, "marker": ""})
        ends.append((*points[-1], LABELS[policy], look["color"]))
    axes.set_xlim(first, LINES_END)
    axes.set_xlabel("arrived workload, % of all cards")
    return ends


def draw_allocation(everything):
    placement = everything.placement
    trace = main_trace(placement)
    figure, axes = pyplot.subplots(figsize=(WIDTH * 0.8, 4.6))
    ends = draw_lines(axes, placement, trace, "allocation", SHOWN_FROM)
    lowest = min(placement.mean(trace, policy, 100) for policy in placement.policies(trace))
    bottom = max(0, min(80, lowest - 4))
    axes.set_ylim(bottom, TOP)
    style.label_ends(axes, ends, (TOP - bottom) / 23)
    axes.plot([SHOWN_FROM, TOP], [SHOWN_FROM, TOP], color=style.INK, linewidth=0.8,
              linestyle=":", zorder=1)
    axes.set_title(f"Cards allocated, of all cards ({trace} trace)")
    axes.set_ylabel("allocated, %")
    return figure


def draw_fragmentation(everything):
    placement = everything.placement
    trace = main_trace(placement)
    figure, (amount, rate) = pyplot.subplots(1, 2, figsize=(WIDTH, 4.2))
    draw_lines(amount, placement, trace, "fragmentation_amount", 0)
    amount.set_title("Fragments, % of all cards")
    amount.set_ylim(bottom=0)
    draw_lines(rate, placement, trace, "fragmentation_rate", 0)
    rate.set_title("Fragments, % of what is free")
    rate.set_ylim(0, 102)
    lines = amount.get_lines()
    figure.legend(lines, [LABELS[policy] for policy in placement.policies(trace)],
                  loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, handlelength=2.6)
    figure.tight_layout()
    return figure


def draw_policies(everything):
    """Draws bars with the mean over the traces, and marks for the published results."""
    placement, published = everything.placement, everything.published
    traces = published_traces(placement)
    policies = [policy for policy in LABELS if all(placement.has(t, policy) for t in traces)]
    figure, axes = pyplot.subplots(figsize=(WIDTH * 0.85, 0.42 * len(policies) + 1.4))
    for row, policy in enumerate(policies):
        mean = sum(placement.mean(t, policy, 100) for t in traces) / len(traces)
        axes.barh(row, mean, color=look_of(policy)["color"], height=0.68,
                  alpha=1 if policy == EQUILIBRIUM else 0.75)
        axes.annotate(f"{mean:.2f}", (mean, row), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize=9.5, fontweight="bold" if policy == EQUILIBRIUM else "normal")
        if all(published.has(t, policy) for t in traces):
            there = sum(published.mean(t, policy, 100) for t in traces) / len(traces)
            axes.plot(there, row, marker="|", markersize=15, markeredgewidth=2, color=style.INK,
                      linestyle="", label="as published" if policy == "fgd" else None)
    axes.set_yticks(range(len(policies)), [LABELS[policy] for policy in policies])
    axes.set_xlim(70, 100)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("allocated when 100 % have arrived, % of all cards (axis starts at 70)")
    axes.set_title(f"Mean over {len(traces)} trace{'s' if len(traces) > 1 else ''}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), handletextpad=0.2)
    return figure


def draw_traces(everything):
    """Draws a mark for each policy and trace, and a line between equilibrium and FGD."""
    placement = everything.placement
    traces = placement.traces()
    height = 0.32 * len(traces) + 1.6
    figure, axes = pyplot.subplots(figsize=(WIDTH, height))
    for row, trace in enumerate(traces):
        if placement.has(trace, EQUILIBRIUM) and placement.has(trace, "fgd"):
            axes.plot([placement.mean(trace, "fgd", 100), placement.mean(trace, EQUILIBRIUM, 100)],
                      [row, row], color=look_of(EQUILIBRIUM)["color"], linewidth=2.2, alpha=0.5)
    for policy in LABELS:
        having = [(placement.mean(trace, policy, 100), row) for row, trace in enumerate(traces)
                  if placement.has(trace, policy)]
        look = {**look_of(policy), "linestyle": ""}
        size = {EQUILIBRIUM: 12, "fgd": 7.5}.get(policy, 5.5)
        if having:
            axes.plot(*zip(*having), **look, markersize=size, markeredgecolor="white",
                      markeredgewidth=0.5, label=LABELS[policy])
    axes.set_yticks(range(len(traces)), traces)
    axes.set_ylim(len(traces) - 0.4, -0.6)
    axes.set_xlabel("allocated when 100 % have arrived, % of all cards")
    axes.set_title("Every trace")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.55 / height - 0.02), ncols=5,
                handletextpad=0.2)
    return figure


def wanted(everything):
    """Yields the names of the plots that have results, and their functions."""
    if everything.placement.traces():
        yield "allocation", draw_allocation
        yield "fragmentation", draw_fragmentation
        yield "policies", draw_policies
        yield "traces", draw_traces


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--results", required=True, help="folder of the results of bench/run.sh")
    flags.add_argument("--out", required=True, type=pathlib.Path, help="folder for the plots")
    flags = flags.parse_args()
    style.setup()
    try:
        everything = Everything(flags.results)
    except Unusable as problem:
        print(f"draw.py: {problem}", file=sys.stderr)
        return 1
    flags.out.mkdir(parents=True, exist_ok=True)
    for name, drawn_by in wanted(everything):
        style.save(drawn_by(everything), flags.out / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
