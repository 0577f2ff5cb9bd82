#!/usr/bin/env python3
"""Writes the tables of a page from the results of bench/run.sh.

    tables.py --results DIR --template PAGE --page PAGE

The text between "<!-- begin NAME -->" and "<!-- end NAME -->" is replaced by the table NAME.
"""
import argparse
import pathlib
import re
import statistics
import sys

from results import (LABELS, LOADS, EQUILIBRIUM, Everything, Unusable, main_trace,
                     published_traces)

NOT_MEASURED = "Not measured."


def table(head, rows):
    """A Markdown table. The first column is aligned to the left, the others to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def signed(number):
    text = f"{number:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def spread(placement, trace, policy, arrived):
    """Formats the mean and standard deviation of the seeds."""
    return (f"{placement.mean(trace, policy, arrived):.2f} ± "
            f"{placement.deviation(trace, policy, arrived):.2f}")


def cards(everything, trace, points):
    """Converts percentage points to a number of cards."""
    return f"{round(points / 100 * everything.placement.of(trace, EQUILIBRIUM)['cards']):+d}".replace(
        "-", "−")


def counted(traces):
    return f"{len(traces)} trace{'s' if len(traces) > 1 else ''}"


def compared(everything):
    """Returns the traces with results of equilibrium and with published results of FGD."""
    return [trace for trace in everything.placement.traces()
            if everything.placement.has(trace, EQUILIBRIUM) and everything.published.has(trace, "fgd")]


def gain(everything, trace, arrived):
    return (everything.placement.mean(trace, EQUILIBRIUM, arrived)
            - everything.published.mean(trace, "fgd", arrived))


def largest_difference(everything, policy):
    """Returns the largest difference of a trace from its published value at 100, or None."""
    here, there = everything.placement, everything.published
    differences = [here.mean(trace, policy, 100) - there.mean(trace, policy, 100)
                   for trace in here.traces() if here.has(trace, policy) and there.has(trace, policy)]
    return max(differences, key=abs, default=None)


# --- tables ---------------------------------------------------------------------------------------

def summary(everything):
    traces = compared(everything)
    if not traces:
        return NOT_MEASURED
    rows = []
    if "default" in traces:
        points = gain(everything, "default", 100)
        rows.append(["default trace, 100 % arrived",
                     spread(everything.placement, "default", EQUILIBRIUM, 100),
                     f"{signed(points)} ({cards(everything, 'default', points)} cards)"])
    rows.append([f"mean of {counted(traces)}, 100 % arrived",
                 f"{statistics.fmean(everything.placement.mean(t, EQUILIBRIUM, 100) for t in traces):.2f}",
                 signed(statistics.fmean(gain(everything, t, 100) for t in traces))])
    for arrived in (100, 130):
        least = min(traces, key=lambda trace: gain(everything, trace, arrived))
        rows.append([f"smallest gain of a trace, {arrived} % arrived ({least})",
                     spread(everything.placement, least, EQUILIBRIUM, arrived),
                     signed(gain(everything, least, arrived))])
    return table(["", "allocated, %", "points over published FGD"], rows)


def every_trace(everything):
    """The default policy beside FGD, and with what kube-scheduler does by default."""
    here, published, shipped = everything.placement, everything.published, everything.shipped
    rows = []
    for trace in here.traces():
        fgd, note = (published, "") if published.has(trace, "fgd") else (here, " (here)")
        if not here.has(trace, EQUILIBRIUM) or not fgd.has(trace, "fgd"):
            continue
        mean = here.mean(trace, EQUILIBRIUM, 100)
        points = mean - fgd.mean(trace, "fgd", 100)
        rows.append([trace, f"{fgd.mean(trace, 'fgd', 100):.2f}{note}", f"{mean:.2f}", signed(points),
                     signed(shipped.mean(trace, EQUILIBRIUM, 100) - mean)
                     if shipped.has(trace, EQUILIBRIUM) else ""])
    head = ["trace", "FGD, published", "Equilibrium", "points", "as shipped, points"]
    return table(head, rows) if rows else NOT_MEASURED


def policies(everything):
    here = everything.placement
    if not here.traces():
        return NOT_MEASURED
    trace, many = main_trace(here), published_traces(here)
    rows = []
    for policy in reversed(here.policies(trace)):
        mean = ""
        if all(here.has(one, policy) for one in many):
            mean = f"{statistics.fmean(here.mean(one, policy, 100) for one in many):.2f}"
        took = ""
        if everything.timing.has(trace, policy):
            took = f"{everything.timing.time_per_decision(trace, policy):.0f} µs"
        difference = largest_difference(everything, policy)
        rows.append([f"`{policy}`", spread(here, trace, policy, 100),
                     fragments_cell(everything, trace, policy), mean,
                     "" if difference is None else signed(difference), took])
    head = ["policy", f"allocated at 100, {trace}", "fragments at 100",
            f"allocated at 100, mean of {counted(many)}", "from published", "per decision"]
    return table(head, rows)


def fragments_cell(everything, trace, policy):
    """The amount, and in brackets the published one."""
    figure, published = "fragmentation_amount", everything.published
    here = f"{everything.placement.at(trace, policy, figure, 100):.2f}"
    if not published.has(trace, policy, 100, figure):
        return here
    return f"{here} ({published.mean(trace, policy, 100, figure):.2f})"


def conditions(everything):
    """The table of the same pods under other conditions."""
    here = everything.placement
    others = (everything.random_ties, everything.card_memory, everything.by_defaults)
    if not all(one.traces() for one in (here, *others)):
        return NOT_MEASURED
    trace = main_trace(here)
    rows = [[LABELS[policy],
             *(f"{one.mean(trace, policy, 100):.2f}" if one.has(trace, policy) else "" for one in others)]
            for policy in reversed(here.policies(trace))]
    return table([f"{trace}, 100 % arrived", "any of the best nodes", "cards with memory",
                  "pods without cards by kube-scheduler"], rows)


def departures(everything):
    """The table of the mean allocation and the rejected part of the requests."""
    first = everything.departures[LOADS[0]]
    if not first.traces():
        return NOT_MEASURED
    trace = main_trace(first)
    rows = [[LABELS[policy], *(cell for load in LOADS for cell in
                               departure_cells(everything.departures[load], trace, policy))]
            for policy in reversed(first.policies(trace))]
    head = [trace, *(f"load {load}: {what}" for load in LOADS for what in ("held", "rejected"))]
    return table(head, rows)


def departure_cells(results, trace, policy):
    if not results.has(trace, policy):
        return ["", ""]
    mean, deviation = (results.of(trace, policy)[name] for name in ("mean", "deviation"))
    return [f"{mean[name]:.2f} ± {deviation[name]:.2f}"
            for name in ("allocation", "rejected_gpus")]


def parts(everything):
    """A row for each part and all values of its first argument."""
    rows = {}
    for one in everything.parts:
        name, *arguments = one["name"].split("/")
        names, values = zip(*(argument.split(":") for argument in arguments)) if arguments else ((), ())
        row = rows.setdefault((name, names, values[1:], one["time_unit"]), ([], []))
        row[0].extend(values[:1])
        row[1].append(f"{one['cpu_time']:.2f}")
    head = ["part", "", "time"]
    cells = [[f"`{name}`", "; ".join(f"{argument} {value}" for argument, value in
                                     zip(names, [", ".join(first), *others])),
              f"{', '.join(times)} {unit}".replace(" us", " µs")]
             for (name, names, others, unit), (first, times) in rows.items()]
    return table(head, cells) if cells else NOT_MEASURED


def machine(everything):
    lines = [line.split(": ", 1) for line in everything.machine.splitlines() if ": " in line]
    return table(["machine", ""], lines) if lines else NOT_MEASURED


TABLES = {
    "summary": summary, "traces": every_trace, "policies": policies, "conditions": conditions,
    "departures": departures, "parts": parts, "machine": machine,
}


# --- the page -------------------------------------------------------------------------------------

def fill(page, make):
    """Returns the page with make(name) between the markers of each name. Errors: a marker has no
    counterpart, or there is no table of the name."""
    for kind, other in (("begin", "end"), ("end", "begin")):
        for name in re.findall(rf"<!-- {kind} ([\w-]+) -->", page):
            if name not in TABLES:
                raise Unusable(f"<!-- {kind} {name} -->: there is no such table")
            if any(page.count(f"<!-- {one} {name} -->") != 1 for one in (kind, other)):
                raise Unusable(f"<!-- {kind} {name} -->: expected exactly one, with its {other}")
    return re.sub(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)",
                  lambda found: f"{found[1]}{make(found[2])}\n{found[3]}", page, flags=re.DOTALL)


def main():
    flags = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--results", required=True, help="folder of the results of bench/run.sh")
    flags.add_argument("--template", required=True, type=pathlib.Path, help="page with markers")
    flags.add_argument("--page", required=True, type=pathlib.Path, help="output file")
    flags = flags.parse_args()
    try:
        everything = Everything(flags.results)
        page = fill(flags.template.read_text(encoding="utf-8"),
                    lambda name: TABLES[name](everything))
        flags.page.write_text(page, encoding="utf-8")
    except (OSError, Unusable) as problem:
        print(f"tables.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
