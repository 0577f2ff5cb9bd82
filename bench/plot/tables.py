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

from results import (ARRIVED, LABELS, LOADS, EQUILIBRIUM, PUBLISHED_TRACES, Everything, Unusable,
                     main_trace, published_traces)

NOT_MEASURED = "Not measured."
SHOWN_AT = (50, 75, 90, 100, 130)
# Names of sizes in the table of failures. Other sizes are numbers of cards.
SIZES = {"none": "no card", "share": "a share", "1": "1 card"}


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


def three(mean):
    return " / ".join(f"{mean(arrived):.2f}" for arrived in ARRIVED)


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


def disagreements(everything):
    """Returns the difference of each policy from its published value at 100, for each trace."""
    here, there = everything.placement, everything.published
    return [(here.mean(trace, policy, 100) - there.mean(trace, policy, 100), policy, trace)
            for trace in here.traces() for policy in here.policies(trace)
            if there.has(trace, policy)]


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


def agreement(everything):
    differences = disagreements(everything)
    if not differences:
        return NOT_MEASURED
    rows = []
    for policy in everything.published.policies():
        own = [one for one in differences if one[1] == policy]
        if own:
            worst = max(own, key=lambda one: abs(one[0]))
            rows.append([LABELS[policy], len(own), signed(statistics.fmean(one[0] for one in own)),
                         f"{signed(worst[0])} ({worst[2]})"])
    return table(["policy", "traces", "mean difference", "largest difference"], rows)


def against_published(everything):
    here, there = everything.placement, everything.published
    policies = there.policies()
    rows = []
    for trace in here.traces():
        if any(here.has(trace, p) and there.has(trace, p) for p in policies):
            rows.append([trace, *(difference_cell(everything, trace, p) for p in policies)])
    return table(["trace", *(LABELS[p] for p in policies)], rows) if rows else NOT_MEASURED


def difference_cell(everything, trace, policy):
    if not everything.placement.has(trace, policy):
        return ""
    here = everything.placement.mean(trace, policy, 100)
    return f"{here:.2f} ({signed(here - everything.published.mean(trace, policy, 100))})"


def traces_with_published(everything):
    rows = []
    for trace in compared(everything):
        points = gain(everything, trace, 100)
        rows.append([trace, three(lambda at: everything.published.mean(trace, "fgd", at)),
                     three(lambda at: everything.placement.mean(trace, EQUILIBRIUM, at)),
                     signed(points), cards(everything, trace, points)])
    head = ["trace", "FGD, published: 95 / 100 / 130", "Equilibrium: 95 / 100 / 130",
            "points at 100", "cards"]
    return table(head, rows) if rows else NOT_MEASURED


def traces_without_published(everything):
    here = everything.placement
    rows = [[trace, three(lambda at: here.mean(trace, "fgd", at)),
             three(lambda at: here.mean(trace, EQUILIBRIUM, at)),
             signed(here.mean(trace, EQUILIBRIUM, 100) - here.mean(trace, "fgd", 100))]
            for trace in here.traces() if trace not in PUBLISHED_TRACES
            and here.has(trace, EQUILIBRIUM) and here.has(trace, "fgd")]
    head = ["trace", "FGD, here: 95 / 100 / 130", "Equilibrium: 95 / 100 / 130", "points at 100"]
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
        rows.append([f"`{policy}`", *(spread(here, trace, policy, at) for at in ARRIVED), mean,
                     took])
    head = ["policy", *(f"{trace} at {at}" for at in ARRIVED),
            f"mean of {counted(many)} at 100", "per decision"]
    return table(head, rows)


def fragments(everything):
    here = everything.placement
    if not here.traces():
        return NOT_MEASURED
    trace = main_trace(here)
    rows = [[LABELS[policy], *(fragments_cell(everything, trace, policy, at) for at in SHOWN_AT)]
            for policy in reversed(here.policies(trace))]
    return table([f"{trace}", *(f"at {at}" for at in SHOWN_AT)], rows)


def fragments_cell(everything, trace, policy, at):
    amount = everything.placement.at(trace, policy, "fragmentation_amount", at)
    rate = everything.placement.at(trace, policy, "fragmentation_rate", at)
    cell = f"{amount:.2f} / {rate:.1f}"
    there = everything.published
    if there.has(trace, policy, at, "fragmentation_amount"):
        cell += (f" ({there.mean(trace, policy, at, 'fragmentation_amount'):.2f} / "
                 f"{there.mean(trace, policy, at, 'fragmentation_rate'):.1f})")
    return cell


def failures(everything):
    here = everything.placement
    if not here.traces():
        return NOT_MEASURED
    trace = main_trace(here)
    found = {policy: here.failures(trace, policy) for policy in reversed(here.policies(trace))}
    sizes = list(dict.fromkeys(size for one in found.values() for size in one))
    rows = [[LABELS[policy], *(failures_cell(one.get(size)) for size in sizes)]
            for policy, one in found.items()]
    return table([f"{trace}", *(SIZES.get(size, f"{size} cards") for size in sizes)], rows)


def failures_cell(pods_and_cards):
    pods, cards_asked = pods_and_cards or (0, 0)
    return f"{pods:.0f} ({cards_asked:.0f})"


def conditions(everything):
    """The table of the same pods under other conditions."""
    here = everything.placement
    others = (everything.random_ties, everything.card_memory, everything.by_defaults)
    if not all(one.traces() for one in (here, *others)):
        return NOT_MEASURED
    trace = main_trace(here)
    rows = [[LABELS[policy], spread(here, trace, policy, 100),
             *(spread(one, trace, policy, 100) if one.has(trace, policy) else "" for one in others)]
            for policy in reversed(here.policies(trace))]
    return table([f"{trace}, 100 % arrived", "first of the best nodes", "any of the best nodes",
                  "cards with memory", "pods without cards by kube-scheduler"], rows)


def shipped(everything):
    """The table of the default policy with what kube-scheduler does by default."""
    here, there = everything.placement, everything.shipped
    both = [trace for trace in here.traces()
            if here.has(trace, EQUILIBRIUM) and there.has(trace, EQUILIBRIUM)]
    rows = [[trace, three(lambda at: here.mean(trace, EQUILIBRIUM, at)),
             three(lambda at: there.mean(trace, EQUILIBRIUM, at)),
             " / ".join(signed(there.mean(trace, EQUILIBRIUM, at) - here.mean(trace, EQUILIBRIUM, at))
                        for at in ARRIVED)] for trace in both]
    head = ["trace", "all nodes, ranked for all pods: 95 / 100 / 130", "as shipped: 95 / 100 / 130",
            "difference"]
    return table(head, rows) if rows else NOT_MEASURED


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
    rows = []
    for one in everything.parts:
        name, *arguments = one["name"].split("/")
        rows.append([f"`{name}`", ", ".join(argument.replace(":", " ") for argument in arguments),
                     f"{one['cpu_time']:.2f} {one['time_unit']}".replace(" us", " µs")])
    return table(["part", "", "time"], rows) if rows else NOT_MEASURED


def machine(everything):
    lines = [line.split(": ", 1) for line in everything.machine.splitlines() if ": " in line]
    return table(["machine", ""], lines) if lines else NOT_MEASURED


TABLES = {
    "summary": summary, "agreement": agreement, "against-published": against_published,
    "traces": traces_with_published, "other-traces": traces_without_published,
    "policies": policies, "fragments": fragments, "failures": failures, "conditions": conditions,
    "shipped": shipped,
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
