"""The results of bench/run.sh and published results, as values for tables and plots."""
import csv
import json
import pathlib
import statistics

EQUILIBRIUM = "equilibrium"
# The order of policies in tables and legends.
LABELS = {
    "random": "Random", "spread": "Spread", "binpack": "Binpack", "dotprod": "DotProd",
    "clustering": "GPU Clustering", "packing": "GPU Packing", "bestfit": "BestFit", "fgd": "FGD",
    EQUILIBRIUM: "Equilibrium (default)",
}
# The traces with published results of FGD.
PUBLISHED_TRACES = [
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80",
    "gpushare100", "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30",
    "multigpu40", "multigpu50",
]
LOADS = (100, 110)
MAIN_TRACE = "default"
PUBLISHED_FILE = pathlib.Path(__file__).resolve().parents[1] / "published.csv"


class Unusable(Exception):
    """The message says which file cannot be used, and why."""


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise Unusable(f"{path} cannot be read: {problem}") from problem


class Placements:
    """A folder with results of mgpu-sim trace in files TRACE.POLICY.json."""

    def __init__(self, folder):
        self._results = {}
        for path in sorted(pathlib.Path(folder).glob("*.json")):
            result = read_json(path)
            self._results[result["trace"], result["policy"]] = result

    def has(self, trace, policy):
        return (trace, policy) in self._results

    def traces(self):
        """Returns the traces; those in PUBLISHED_TRACES come first."""
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
        """Returns percentages of arrived workload, and the mean of the seeds for each."""
        at = {}
        for seed in self.of(trace, policy)["seeds"]:
            for point in seed["curve"]:
                at.setdefault(point["arrived"], []).append(point[figure])
        arrived = sorted(at)
        return arrived, [statistics.fmean(at[percent]) for percent in arrived]

    def at(self, trace, policy, figure, percent):
        arrived, values = self.curve(trace, policy, figure)
        return values[arrived.index(percent)]


def main_trace(placement):
    return MAIN_TRACE if MAIN_TRACE in placement.traces() else placement.traces()[0]


def published_traces(placement):
    """Returns the measured traces with published results, or all traces if there are none."""
    traces = placement.traces()
    return [trace for trace in traces if trace in PUBLISHED_TRACES] or traces


class Published:
    """The values of published.csv: mean and standard deviation of ten seeds, in percent."""

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
    """All results in a folder of bench/run.sh. Parts that were not measured are empty."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not self.folder.is_dir():
            raise Unusable(f"--results: {folder} is not a folder")
        self.placement = Placements(self.folder / "placement")
        self.shipped = Placements(self.folder / "shipped")
        self.random_ties = Placements(self.folder / "random-ties")
        self.by_defaults = Placements(self.folder / "non-gpu-by-defaults")
        self.card_memory = Placements(self.folder / "card-memory")
        # By load. These results have other members than those without departures.
        self.departures = {load: Placements(self.folder / f"departures-{load}") for load in LOADS}
        self.timing = Placements(self.folder / "timing")
        self.published = Published()
        self.parts = self._read("parts.json", {"benchmarks": []})["benchmarks"]
        machine = self.folder / "machine.txt"
        self.machine = machine.read_text(encoding="utf-8") if machine.is_file() else ""

    def _read(self, name, absent):
        path = self.folder / name
        return read_json(path) if path.is_file() else absent
