#!/usr/bin/env python3
"""Checks the results of the benchmarks for properties that must always hold, but no times.

    check.py trace FILE...      results of mgpu-sim trace
    check.py departures FILE... results of mgpu-sim trace --departures
    check.py parts FILE...      results of mgpu-parts
    check.py same FILE FILE     two results of mgpu-sim trace that may differ only in times and --ties

Prints one line for every check, and "N passed, N failed" at the end. The exit status is 0 if no check
failed.
"""
import json
import math
import sys

TRACE_KEYS = {"trace", "policy", "workload", "ties", "non_gpu", "sampling", "order", "memory", "nodes",
              "cards", "seeds", "mean", "deviation"}
SHARES = ("allocation", "rejected_gpus", "rejected_pods")
DEPARTURE_KEYS = {*SHARES, "seed", "overcommitted", "us_per_decision", "decisions", "failures"}
SEED_KEYS = {"seed", "at95", "at100", "at130", "overcommitted", "us_per_decision", "decisions",
             "failures", "curve"}
FAILURE_KEYS = {"size", "pods", "gpus"}
CURVE_KEYS = {"arrived", "allocation", "fragmentation_amount", "fragmentation_rate"}
RATIOS = ("at95", "at100", "at130")
ARRIVED_TO = 130
# Results are rounded to two decimals or more.
ROUNDING = 0.02


class Broken(Exception):
    """The message says which property does not hold."""


def need(holds, what):
    if not holds:
        raise Broken(what)


def need_keys(found, wanted, where):
    need(isinstance(found, dict), f"{where} is not an object")
    missing, more = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
    need(not missing, f"{where} lacks {', '.join(missing)}")
    need(not more, f"{where} has {', '.join(more)}, which {where} must not have")


def numbers_of(value, where):
    """Yields all numbers in a value and their paths."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from numbers_of(one, f"{where}.{key}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from numbers_of(one, f"{where}[{index}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value, where


def check_finite(result):
    for number, where in numbers_of(result, "result"):
        need(math.isfinite(number), f"{where} is {number}")


# --- mgpu-sim trace -------------------------------------------------------------------------------

def check_keys(result, keys, figures, seed_keys):
    need_keys(result, keys, "result")
    for name in ("mean", "deviation"):
        need_keys(result[name], set(figures), name)
    need(len(result["seeds"]) > 0, "there is no seed")
    for seed in result["seeds"]:
        need_keys(seed, seed_keys, "seed")
        for failure in seed["failures"]:
            need_keys(failure, FAILURE_KEYS, "failure")
        for point in seed.get("curve", []):
            need_keys(point, CURVE_KEYS, "point of a curve")


def check_trace_keys(result):
    check_keys(result, TRACE_KEYS, RATIOS, SEED_KEYS)


def check_no_overcommit(result):
    for seed in result["seeds"]:
        need(seed["overcommitted"] == 0,
             f"seed {seed['seed']}: {seed['overcommitted']} placements exceed a card or node")


def check_ratios(result):
    for seed in result["seeds"]:
        for name in RATIOS:
            need(0 < seed[name] <= 100, f"seed {seed['seed']}: {name} is {seed[name]}")
        need(seed["at95"] <= seed["at100"] + ROUNDING <= seed["at130"] + 2 * ROUNDING,
             f"seed {seed['seed']}: allocation decreases, although no pod terminates")


def check_mean(result):
    for name in RATIOS:
        mean = sum(seed[name] for seed in result["seeds"]) / len(result["seeds"])
        need(abs(mean - result["mean"][name]) < ROUNDING,
             f"mean.{name} is {result['mean'][name]}, the mean of the seeds is {mean:.4f}")
        deviation = result["deviation"][name]
        need(0 <= deviation < 100, f"deviation.{name} is {deviation}")


def check_curve(result):
    for seed in result["seeds"]:
        arrived = [point["arrived"] for point in seed["curve"]]
        need(arrived == sorted(set(arrived)), f"seed {seed['seed']}: arrived does not ascend")
        need({95, 100, ARRIVED_TO} <= set(arrived),
             f"seed {seed['seed']}: the curve lacks 95, 100 or {ARRIVED_TO}")
        allocations = [point["allocation"] for point in seed["curve"]]
        need(all(a <= b + ROUNDING for a, b in zip(allocations, allocations[1:])),
             f"seed {seed['seed']}: allocation decreases, although no pod terminates")
        for point in seed["curve"]:
            check_point(point, f"seed {seed['seed']} at {point['arrived']}")


def check_point(point, where):
    # A point is the mean over half a percent of arrived workload to either side.
    need(0 <= point["allocation"] <= min(100, point["arrived"] + 0.5) + ROUNDING,
         f"{where}: allocation is {point['allocation']}")
    amount, rate = point["fragmentation_amount"], point["fragmentation_rate"]
    need(0 <= amount <= 100 - point["allocation"] + ROUNDING,
         f"{where}: the fragments {amount} are more than the free compute")
    need(0 <= rate <= 100 + ROUNDING, f"{where}: fragmentation rate is {rate}")


def check_decisions(result):
    for seed in result["seeds"]:
        need(seed["decisions"] > 0, f"seed {seed['seed']}: there are no decisions")
        failed = sum(failure["pods"] for failure in seed["failures"])
        need(0 <= failed <= seed["decisions"],
             f"seed {seed['seed']}: {failed} of {seed['decisions']} decisions failed")
        need(all(failure["pods"] >= 0 and failure["gpus"] >= 0 for failure in seed["failures"]),
             f"seed {seed['seed']}: the number of failures is negative")
        need(seed["us_per_decision"] > 0, f"seed {seed['seed']}: no time per decision")


TRACE_CHECKS = [("expected keys", check_trace_keys), ("every number finite", check_finite),
                ("nothing overcommitted", check_no_overcommit), ("ratios", check_ratios),
                ("mean of the seeds", check_mean), ("curve", check_curve),
                ("decisions", check_decisions)]

# --- mgpu-sim trace --departures ------------------------------------------------------------------

def check_departures_keys(result):
    check_keys(result, TRACE_KEYS | {"load"}, SHARES, DEPARTURE_KEYS)


def check_shares(result):
    for seed in result["seeds"]:
        for name in SHARES:
            need(0 <= seed[name] <= 100, f"seed {seed['seed']}: {name} is {seed[name]}")
        need(seed["allocation"] > 0, f"seed {seed['seed']}: nothing was allocated")


DEPARTURE_CHECKS = [("expected keys", check_departures_keys), ("every number finite", check_finite),
                    ("nothing overcommitted", check_no_overcommit), ("shares", check_shares),
                    ("decisions", check_decisions)]

# --- mgpu-parts -----------------------------------------------------------------------------------

def check_parts(result):
    need(len(result["benchmarks"]) > 0, "there is no part")
    for part in result["benchmarks"]:
        need("error_message" not in part, f"{part['name']}: {part.get('error_message')}")
        need(part["cpu_time"] > 0, f"{part['name']}: cpu_time is {part['cpu_time']}")


PARTS_CHECKS = [("every number finite", check_finite), ("every part took time", check_parts)]

# --------------------------------------------------------------------------------------------------

def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as problem:
        raise Broken(f"cannot be read as JSON: {problem}") from problem


def run_check(check, result):
    """Returns an error message or an empty string. A value of another type is an error as well."""
    try:
        check(result)
    except Broken as broken:
        return str(broken)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as problem:
        return f"not of the expected form: {problem!r}"
    return ""


def outcomes_of(path, checks):
    """Returns pairs of the name of a check and its error message."""
    try:
        result = read(path)
    except Broken as broken:
        return [(f"{path}: JSON", str(broken))]
    return [(f"{path}: {name}", run_check(check, result)) for name, check in checks]


def comparable(result):
    result.pop("ties")
    for seed in result["seeds"]:
        seed.pop("us_per_decision")
    return result


def outcomes_of_same(one, other):
    def check(paths):
        need(comparable(read(paths[0])) == comparable(read(paths[1])), "the results differ")
    return [(f"{other}: equal to {one}", run_check(check, (one, other)))]


def report(outcomes):
    failed = [outcome for outcome in outcomes if outcome[1]]
    for name, wrong in outcomes:
        print(f"FAILED {name}: {wrong}" if wrong else f"ok     {name}")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not outcomes else 0


def main(arguments):
    kind, *paths = arguments or [""]
    if kind == "same" and len(paths) == 2:
        return report(outcomes_of_same(*paths))
    checks = {"trace": TRACE_CHECKS, "departures": DEPARTURE_CHECKS,
              "parts": PARTS_CHECKS}.get(kind)
    if checks is None or not paths:
        print("check.py: expected trace, departures or parts FILE..., or same FILE FILE",
              file=sys.stderr)
        return 2
    return report([outcome for path in paths for outcome in outcomes_of(path, checks)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
