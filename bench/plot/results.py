"""What bench/run.sh measured, and what others published, as values for tables and plots."""
import csv
import json
import pathlib
import statistics

OURS = "equilibrium"
# From the weakest to ours, as tables and legends list them.
LABELS = {
    "random": "Random", "spread": "Spread", "binpack": "Binpack", "dotprod": "DotProd",
    "clustering": "GPU Clustering", "packing": "GPU Packing", "bestfit": "BestFit", "fgd": "FGD",
    OURS: "Equilibrium (default)",
}
# Those that the authors of FGD published results for.
PUBLISHED_TRACES = [
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80",
    "gpushare100", "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30",
    "multigpu40", "multigpu50",
]
ARRIVED = (95, 100, 130)
LOADS = (100, 110)
MAIN_TRACE = "default"
PUBLISHED_FILE = pathlib.Path(__file__).resolve().parents[1] / "published.csv"


class Unusable(Exception):
    """Says which file cannot be used, and why."""


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise Unusable(f"{path} cannot be read: {problem}") from problem


class Placements:
    """One folder of results of mgpu-sim trace, TRACE.POLICY.json each."""

    def __init__(self, folder):
        self._results = {}
        for path in sorted(pathlib.Path(folder).glob("*.json")):
            result = read_json(path)
            self._results[result["trace"], result["policy"]] = result

    def has(self, trace, policy):
        return (trace, policy) in self._results

    def traces(self):
        """Those with published results first, as PUBLISHED_TRACES has them."""
        found = {trace for trace, _ in self._results}
        known = [trace for trace in PUBLISHED_TRACES if trace in found]
        return known + sorted(found - set(known))

    def policies(self, trace):
        return [policy for policy in LABELS if self.has(trace, policy)]

    def of(self, trace, policy):
        return self._results[trace, policy]

    def mean(self, trace, policy, arrived):
        return self.of(trace, policy)["mean"][f"at{arrived}"]

    def deviation(self, trace, policy, arrived):
        return self.of(trace, policy)["deviation"][f"at{arrived}"]

    def time_per_decision(self, trace, policy):
        return statistics.fmean(seed["us_per_decision"] for seed in self.of(trace, policy)["seeds"])

    def curve(self, trace, policy, figure):
        """Percent arrived, and the seeds' mean of a figure there."""
        at = {}
        for seed in self.of(trace, policy)["seeds"]:
            for point in seed["curve"]:
                at.setdefault(point["arrived"], []).append(point[figure])
        arrived = sorted(at)
        return arrived, [statistics.fmean(at[percent]) for percent in arrived]

    def at(self, trace, policy, figure, percent):
        arrived, values = self.curve(trace, policy, figure)
        return values[arrived.index(percent)]

    def failures(self, trace, policy):
        """Pods that fitted nowhere, and the cards they asked for: mean of the seeds, by size."""
        seeds = self.of(trace, policy)["seeds"]
        sums = {}
        for seed in seeds:
            for one in seed["failures"]:
                pods, cards = sums.get(str(one["size"]), (0, 0))
                sums[str(one["size"])] = (pods + one["pods"], cards + one["gpus"])
        return {size: (pods / len(seeds), cards / len(seeds))
                for size, (pods, cards) in sums.items()}


def main_trace(placement):
    return MAIN_TRACE if MAIN_TRACE in placement.traces() else placement.traces()[0]


def published_traces(placement):
    """Those measured among the published ones, or all where there is none of these."""
    traces = placement.traces()
    return [trace for trace in traces if trace in PUBLISHED_TRACES] or traces


class Published:
    """published.csv: mean and standard deviation of ten seeds, in percent."""

    def __init__(self, path=PUBLISHED_FILE):
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            self._values = {(row["metric"], row["trace"], row["policy"], int(row["arrived"])):
                            float(row["mean"]) for row in rows}

    def has(self, trace, policy, arrived=100, metric="allocation"):
        return (metric, trace, policy, arrived) in self._values

    def mean(self, trace, policy, arrived, metric="allocation"):
        return self._values[metric, trace, policy, arrived]

    def policies(self):
        found = {policy for _, _, policy, _ in self._values}
        return [policy for policy in LABELS if policy in found]


class Everything:
    """A folder that bench/run.sh filled; parts that were not measured are empty."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not self.folder.is_dir():
            raise Unusable(f"--results: {folder} is not a folder")
        self.placement = Placements(self.folder / "placement")
        self.random_ties = Placements(self.folder / "random-ties")
        self.by_defaults = Placements(self.folder / "plain-by-defaults")
        self.card_memory = Placements(self.folder / "card-memory")
        # By load; the trace's results have shares in place of ratios.
        self.departures = {load: Placements(self.folder / f"departures-{load}") for load in LOADS}
        self.timing = Placements(self.folder / "timing")
        self.published = Published()
        self.latency = self._read("latency.json", [])
        self.parts = self._read("parts.json", {"benchmarks": []})["benchmarks"]
        machine = self.folder / "machine.txt"
        self.machine = machine.read_text(encoding="utf-8") if machine.is_file() else ""

    def _read(self, name, absent):
        path = self.folder / name
        return read_json(path) if path.is_file() else absent
