"""Tests of bench/plot/check.py."""
import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "plot"))
import check  # noqa: E402


def trace_result():
    curve = [{"arrived": at, "allocation": min(at, 96.0), "fragmentation_amount": 2.0,
              "fragmentation_rate": 50.0} for at in range(131)]
    seed = {"seed": 42, "at95": 95.0, "at100": 96.0, "at130": 96.0, "overcommitted": 0,
            "us_per_decision": 3.5, "decisions": 700,
            "failures": [{"size": "1", "pods": 9, "gpus": 9.0}], "curve": curve}
    return {"trace": "synthetic", "policy": "fgd", "workload": "learned", "ties": "first",
            "non_gpu": "extender", "sampling": "all", "order": "drawn", "memory": "none", "nodes": 64,
            "cards": 280, "seeds": [seed, copy.deepcopy(seed)],
            "mean": {"at95": 95.0, "at100": 96.0, "at130": 96.0},
            "deviation": {"at95": 0.0, "at100": 0.0, "at130": 0.0}}


def parts_result():
    return {"benchmarks": [{"name": "read_pod", "cpu_time": 2.3, "time_unit": "us"}]}


def wrongs(checks, result):
    return [wrong for wrong in (check.run_check(one, result) for _, one in checks) if wrong]


def put(result, path, value):
    *way, last = path
    for step in way:
        result = result[step]
    result[last] = value


class TraceChecks(unittest.TestCase):
    def test_let_a_sound_result_pass(self):
        self.assertEqual(wrongs(check.TRACE_CHECKS, trace_result()), [])

    def test_refuse_what_cannot_be(self):
        seed = ("seeds", 1)
        for path, value in [
                (seed + ("overcommitted",), 1), (seed + ("at100",), 0), (seed + ("at100",), 101),
                (seed + ("at95",), 96.5), (seed + ("at130",), float("nan")),
                (("mean", "at100"), 95.9), (("deviation", "at95"), float("inf")),
                (("mean", "at100"), "96"), (seed + ("decisions",), 0), (seed + ("decisions",), 8),
                (seed + ("failures", 0, "pods"), -1), (seed + ("failures", 0, "gpus"), -0.5),
                (seed + ("us_per_decision",), 0),
                (seed + ("curve",), []), (seed + ("curve", 3, "arrived"), 2),
                (seed + ("curve", 3, "allocation"), 4.0), (seed + ("curve", 100, "allocation"), 90),
                (seed + ("curve", 100, "fragmentation_amount"), 4.1),
                (seed + ("curve", 100, "fragmentation_amount"), -0.1),
                (seed + ("curve", 100, "fragmentation_rate"), 101),
                (("seeds",), []), (("seeds",), None), (("extra",), 1), (seed + ("more",), 1)]:
            with self.subTest(path=path, value=value):
                result = trace_result()
                put(result, path, value)
                self.assertNotEqual(wrongs(check.TRACE_CHECKS, result), [])

    def test_refuse_what_lacks_a_key(self):
        for keys, path in [(check.TRACE_KEYS, ()), (check.SEED_KEYS, ("seeds", 0)),
                           (check.FAILURE_KEYS, ("seeds", 0, "failures", 0)),
                           (check.CURVE_KEYS, ("seeds", 0, "curve", 7)),
                           (set(check.RATIOS), ("mean",)), (set(check.RATIOS), ("deviation",))]:
            for key in keys:
                with self.subTest(key=key, path=path):
                    result = at = trace_result()
                    for step in path:
                        at = at[step]
                    del at[key]
                    self.assertIn("lacks " + key, check.run_check(check.check_trace_keys, result))


class DepartureChecks(unittest.TestCase):
    def result(self):
        shares = {"allocation": 94.0, "rejected_gpus": 4.0, "rejected_pods": 1.0}
        seed = {**shares, "seed": 1, "overcommitted": 0, "us_per_decision": 9.0, "decisions": 50,
                "failures": [{"size": "8", "pods": 2, "gpus": 16.0}]}
        heading = trace_result()
        return {**heading, "load": 100.0, "seeds": [seed], "mean": shares, "deviation": shares}

    def test_let_a_sound_result_pass(self):
        self.assertEqual(wrongs(check.DEPARTURE_CHECKS, self.result()), [])

    def test_refuse_what_cannot_be(self):
        for name, value in [("allocation", 0), ("allocation", 100.1), ("rejected_pods", -1),
                            ("rejected_gpus", float("inf")), ("overcommitted", 1),
                            ("decisions", 1), ("more", 1)]:
            with self.subTest(name=name, value=value):
                result = self.result()
                result["seeds"][0][name] = value
                self.assertNotEqual(wrongs(check.DEPARTURE_CHECKS, result), [])
        for key in check.DEPARTURE_KEYS:
            result = self.result()
            del result["seeds"][0][key]
            self.assertIn("lacks " + key, check.run_check(check.check_departures_keys, result))


class PartsChecks(unittest.TestCase):
    def test_let_a_sound_result_pass(self):
        self.assertEqual(wrongs(check.PARTS_CHECKS, parts_result()), [])

    def test_refuse_what_cannot_be(self):
        self.assertNotEqual(wrongs(check.PARTS_CHECKS, {"benchmarks": []}), [])
        for name, value in [("cpu_time", 0), ("cpu_time", float("nan")), ("cpu_time", None),
                            ("error_message", "skipped")]:
            with self.subTest(name=name, value=value):
                result = parts_result()
                result["benchmarks"][0][name] = value
                self.assertNotEqual(wrongs(check.PARTS_CHECKS, result), [])


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_main(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = check.main(list(arguments))
        return status, output.getvalue().splitlines()

    def test_counts_what_passed_and_what_failed(self):
        broken = trace_result()
        broken["seeds"][0]["overcommitted"] = 3
        status, output = self.run_main("trace", self.write("a", json.dumps(trace_result())),
                                     self.write("b", json.dumps(broken)))
        count = 2 * len(check.TRACE_CHECKS)
        self.assertEqual((status, output[-1]), (1, f"{count - 1} passed, 1 failed"))

    def test_tells_text_that_is_not_json(self):
        for text in ["", "{", "[1,", "\x00"]:
            status, output = self.run_main("parts", self.write("a", text))
            self.assertEqual((status, output[-1]), (1, "0 passed, 1 failed"), text)
        self.assertEqual(self.run_main("trace", str(self.folder / "absent"))[0], 1)

    def test_compares_all_but_times_and_ties(self):
        other = trace_result()
        other["seeds"][0]["us_per_decision"] = 99.0
        other["ties"] = "random"
        one = self.write("a", json.dumps(trace_result()))
        self.assertEqual(self.run_main("same", one, self.write("b", json.dumps(other)))[0], 0)
        other["seeds"][0]["curve"][9]["allocation"] = 8.9
        self.assertEqual(self.run_main("same", one, self.write("b", json.dumps(other)))[0], 1)

    def test_refuses_what_it_does_not_know(self):
        for arguments in [(), ("trace",), ("same", "a"), ("other", "a")]:
            self.assertEqual(self.run_main(*arguments)[0], 2)


if __name__ == "__main__":
    unittest.main()
