"""Tests of bench/plot/tables.py."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "plot"))
import results  # noqa: E402
import tables  # noqa: E402


def write_result(folder, trace, policy, at100, microseconds=(10.0, 30.0)):
    """A result with two seeds, half a point to either side of the mean."""
    ratios = [{"at95": at100 - 1 + off, "at100": at100 + off, "at130": at100 + 1 + off}
              for off in (-0.5, 0.5)]
    seeds = [{**one, "seed": index, "us_per_decision": took, "decisions": 9, "overcommitted": 0, "unplaced": 1,
              "curve": [{"arrived": at, "allocation": min(at, one["at100"]),
                         "fragmentation_amount": at / 100 + index, "fragmentation_rate": 50.0}
                        for at in range(131)]}
             for index, (one, took) in enumerate(zip(ratios, microseconds))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{trace}.{policy}.json").write_text(json.dumps({
        "trace": trace, "policy": policy, "cards": 6212, "seeds": seeds,
        "mean": {"at95": at100 - 1, "at100": at100, "at130": at100 + 1},
        "deviation": {"at95": 0.5, "at100": 0.5, "at130": 0.5}}), encoding="utf-8")


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def everything(self):
        return results.Everything(self.folder)

    def test_say_what_was_not_measured(self):
        for name, table in tables.TABLES.items():
            self.assertEqual(table(self.everything()), tables.NOT_MEASURED, name)

    def test_compare_equilibrium_with_published_fgd(self):
        # The published results are 95.23 for default and 87.84 for gpuspec33.
        write_result(self.folder / "placement", "default", results.EQUILIBRIUM, 96.23)
        write_result(self.folder / "placement", "gpuspec33", results.EQUILIBRIUM, 87.34)
        output = tables.summary(self.everything())
        self.assertIn("96.23 ± 0.50 | +1.00 (+62 cards)", output)
        self.assertIn("| mean of 2 traces, 100 % arrived | 91.78 | +0.25 |", output)
        self.assertIn("100 % arrived (gpuspec33) | 87.34 ± 0.50 | −0.50 |", output)
        write_result(self.folder / "placement", "default", results.EQUILIBRIUM, 94.23)
        self.assertIn("−1.00 (−62 cards)", tables.summary(self.everything()))
        write_result(self.folder / "placement", "default", results.EQUILIBRIUM, 96.23)
        self.assertIn("| default | 95.23 | 96.23 | +1.00 |  |", tables.every_trace(self.everything()))

    def test_tell_how_far_from_published_each_policy_is(self):
        write_result(self.folder / "placement", "default", "random", 86.40)
        write_result(self.folder / "placement", "cpu050", "random", 88.82)
        self.assertIn("| −0.20 |", tables.policies(self.everything()))

    def test_mark_traces_without_published_results(self):
        for trace in ("cpu300", "default"):
            write_result(self.folder / "placement", trace, results.EQUILIBRIUM, 86.0)
            write_result(self.folder / "placement", trace, "fgd", 85.7)
        output = tables.every_trace(self.everything())
        self.assertIn("| cpu300 | 85.70 (here) | 86.00 | +0.30 |  |", output)
        self.assertIn("| default | 95.23 | 86.00 | −9.23 |  |", output)

    def test_average_over_the_seeds(self):
        write_result(self.folder / "placement", "synthetic", "fgd", 90.0)
        self.assertIn("| `fgd` | 90.00 ± 0.50 | 1.50 | 90.00 |  |  |", tables.policies(self.everything()))
        write_result(self.folder / "placement", "default", "fgd", 95.2)
        self.assertIn("| 1.50 (4.73) | 95.20 | −0.03 |", tables.policies(self.everything()))

    def test_take_the_time_of_a_decision_from_runs_of_their_own(self):
        write_result(self.folder / "placement", "synthetic", "fgd", 90.0, (5.0, 5.0))
        write_result(self.folder / "timing", "synthetic", "fgd", 90.0, (10.0, 30.0))
        self.assertIn("| 20 µs |", tables.policies(self.everything()))

    def test_set_conditions_side_by_side(self):
        for name, at100 in [("placement", 96.0), ("random-ties", 95.5), ("card-memory", 93.0),
                             ("non-gpu-by-defaults", 94.0)]:
            write_result(self.folder / name, "default", results.EQUILIBRIUM, at100)
        self.assertIn("| 95.50 | 93.00 | 94.00 |", tables.conditions(self.everything()))

    def test_compare_what_is_shipped(self):
        write_result(self.folder / "placement", "default", results.EQUILIBRIUM, 96.0)
        write_result(self.folder / "shipped", "default", results.EQUILIBRIUM, 95.9)
        self.assertIn("| 96.00 | +0.77 | −0.10 |", tables.every_trace(self.everything()))

    def test_show_what_is_held_where_pods_leave(self):
        shares = {"allocation": 95.5, "rejected_gpus": 13.41, "rejected_pods": 5.0}
        for load in (100, 110):
            folder = self.folder / f"departures-{load}"
            folder.mkdir()
            (folder / "default.fgd.json").write_text(json.dumps({
                "trace": "default", "policy": "fgd",
                "mean": {**shares, "allocation": 90 + load / 20},
                "deviation": {**shares, "allocation": 0.1}}), encoding="utf-8")
        self.assertIn("| FGD | 95.00 ± 0.10 | 13.41 ± 13.41 | 95.50 ± 0.10 | 13.41 ± 13.41 |",
                      tables.departures(self.everything()))

    def test_list_the_parts_of_a_request(self):
        (self.folder / "parts.json").write_text(json.dumps({"benchmarks": [
            {"name": "read_pod", "cpu_time": 1, "time_unit": "ns"},
            {"name": "filter/nodes:1000/containers:2", "cpu_time": 1.23, "time_unit": "us"},
            {"name": "filter/nodes:5000/containers:2", "cpu_time": 12.3456, "time_unit": "us"},
            {"name": "filter/nodes:5000/containers:3", "cpu_time": 3, "time_unit": "us"}]}), encoding="utf-8")
        output = tables.parts(self.everything())
        for row in ("| `read_pod` |  | 1.00 ns |", "| `filter` | nodes 1000, 5000; containers 2 | 1.23, 12.35 µs |",
                    "| `filter` | nodes 5000; containers 3 | 3.00 µs |"):
            self.assertIn(row, output)

    def test_never_write_a_signed_zero(self):
        for number, text in [(0.004, "0.00"), (-0.004, "0.00"), (-0.006, "−0.01"), (10, "+10.00")]:
            self.assertEqual(tables.signed(number), text)


class Pages(unittest.TestCase):
    def test_keep_all_but_what_stands_between_markers(self):
        page = "a\n<!-- begin machine -->\nold\n<!-- end machine -->\nb\n"
        filled = tables.fill(page, lambda name: f"new {name}")
        self.assertEqual(filled,
                         "a\n<!-- begin machine -->\nnew machine\n<!-- end machine -->\nb\n")
        self.assertEqual(tables.fill(filled, lambda name: f"new {name}"), filled)

    def test_refuse_markers_that_do_not_match(self):
        for page in ["<!-- begin machine -->\n", "<!-- end machine -->\n",
                     "<!-- begin unknown -->\n<!-- end unknown -->\n",
                     2 * "<!-- begin machine -->\n<!-- end machine -->\n"]:
            with self.assertRaises(results.Unusable):
                tables.fill(page, lambda name: name)

    def test_of_this_repository_have_every_table(self):
        page = "".join((ROOT / "bench" / f"{name}.md").read_text(encoding="utf-8")
                       for name in ("README", "PLACEMENT"))
        seen = []
        tables.fill(page, lambda name: seen.append(name) or "")
        self.assertEqual(sorted(seen), sorted(tables.TABLES))


class PublishedValues(unittest.TestCase):
    def test_cover_every_trace_and_policy(self):
        published = results.Published()
        self.assertEqual(len(published.policies()), 6)
        for trace in results.PUBLISHED_TRACES:
            for policy in published.policies():
                for arrived in (95, 100, 130):
                    self.assertTrue(70 < published.mean(trace, policy, arrived) < 100)


if __name__ == "__main__":
    unittest.main()
