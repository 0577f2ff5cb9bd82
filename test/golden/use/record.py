#!/usr/bin/env python3
"""Writes the recordings of this folder: samples of the use of a card, and the exact result.

    python3 -B test/golden/use/record.py

Each recording is the load of one container on one card, which is known at each moment: a list of
(end, percent) steps. The driver measures the mean of its last period of 1/6 to 1 s, in whole
percent, and the monitor asks it at irregular distances. `exact` is computed from the steps, and
without the code of the device plugin: it is what a driver without gaps would have measured.

use_account_test.cc replays the samples, and compares the account with `exact`.
"""
import bisect
import json
import pathlib
import random

HOUR = 3600.0


class Load:
    """A load in percent as steps, of which the first begins at 0 s."""

    def __init__(self, steps):
        self.ends, self.percents, self.sums = [], [], [0.0]
        begin = 0.0
        for end, percent in steps:
            self.ends.append(end)
            self.percents.append(percent)
            self.sums.append(self.sums[-1] + percent * (end - begin))
            begin = end

    def integral(self, until):
        """In percent-seconds, from 0 s."""
        at = min(bisect.bisect_left(self.ends, until), len(self.ends) - 1)
        begin = self.ends[at - 1] if at else 0.0
        return self.sums[at] + self.percents[at] * (until - begin)

    def mean(self, begin, end):
        return (self.integral(end) - self.integral(begin)) / (end - begin)

    def quantile(self, part, spans):
        """The smallest load that is not exceeded in this part of the spans, to 1 %."""
        time_of = {}
        for begin, end in spans:
            at = bisect.bisect_right(self.ends, begin)
            while begin < end:
                stop = min(end, self.ends[at] if at < len(self.ends) else end)
                time_of[self.percents[at]] = time_of.get(self.percents[at], 0.0) + stop - begin
                begin, at = stop, at + 1
        below, wanted = 0.0, part * sum(time_of.values())
        for percent in sorted(time_of):
            below += time_of[percent]
            if below >= wanted:
                return round(percent)
        return 100


def steps(dice, seconds, step):
    """Steps until `seconds`; step(time) returns the duration and the percentage of the next."""
    made, now = [], 0.0
    while now < seconds:
        duration, percent = step(now)
        now = min(seconds, now + duration)
        made.append((now, percent))
    return Load(made)


def sample_times(dice, seconds, distances):
    now = dice.uniform(0, 1)
    while now < seconds:
        yield round(now, 3)
        now += distances(now)


def record(name, about, core, dice, load, seconds, distances, is_missing, memory):
    samples, spans, last = [], [], None
    for now in sample_times(dice, seconds, distances):
        period = min(dice.uniform(1 / 6, 1.0), max(now, 0.01))
        value = None if is_missing(now) else round(load.mean(now - period, now))
        samples.append([round(now * 1000), value, memory(now)])
        # The time between two samples is measured if both have a value, and are at most 15 s apart.
        if value is not None and last is not None and now - last <= 15:
            spans.append((last, now))
        last = now if value is not None else None
    measured = sum(end - begin for begin, end in spans)
    used = sum(load.integral(end) - load.integral(begin) for begin, end in spans)
    exact = {"heldSeconds": round((samples[-1][0] - samples[0][0]) / 1000, 3),
             "secondsMeasured": round(measured, 3), "cardSecondsUsed": round(used / 100, 3),
             "corePercentP95": load.quantile(0.95, spans),
             "memoryMiBPeak": max(one[2] for one in samples),
             "samples": sum(one[1] is not None for one in samples)}
    text = json.dumps({"about": about, "corePercent": core, "exact": exact})
    texts = [json.dumps(one, separators=(",", ":")) for one in samples]
    lines = ",\n".join(",".join(texts[at:at + 8]) for at in range(0, len(texts), 8))
    path = pathlib.Path(__file__).parent / f"{name}.json"
    path.write_text(f'{text[:-1]}, "samples": [\n{lines}\n]}}\n')
    print(f"{path.name}: {len(samples)} samples, {exact}")


def training():
    dice = random.Random(1)

    def step(now):
        # Each 20 minutes a checkpoint is written for a minute or two, without use of the card.
        if now % 1200 < 60:
            return dice.uniform(60, 120), 0
        return dice.uniform(0.5, 4), dice.choice([52, 55, 57, 58, 59, 60])

    load = steps(dice, 4 * HOUR, step)
    record("training", "A training job: long steady load, and pauses while it writes checkpoints.", 60, dice, load,
           4 * HOUR, lambda now: dice.choice([5, 5, 5, 5.1, 4.9, 6.2, 2.5, 9.7]), lambda now: False,
           lambda now: 9000 if now < 600 else 15800)


def inference():
    dice = random.Random(2)

    def step(now):
        busy = 0.1 + 0.3 * (1 + (now % (2 * HOUR)) / HOUR) / 3
        if dice.random() < busy:
            return dice.uniform(0.05, 6), dice.choice([15, 22, 25, 28, 30])
        return dice.uniform(0.05, 9), 0

    load = steps(dice, 6 * HOUR, step)
    record("inference", "A server: short bursts that become more within two hours.", 30, dice, load, 6 * HOUR,
           lambda now: dice.uniform(3, 8), lambda now: False, lambda now: 2000 + round(now / 100) % 37)


def gaps():
    dice = random.Random(3)
    quiet = [(1800.0, 2700.0), (9000.0, 9060.0), (12000.0, 12004.0)]

    def step(now):
        return dice.uniform(20, 300), dice.choice([5, 10, 40, 70])

    def distances(now):
        # The plugin does not run for ten minutes, and for 40 seconds.
        if 5000 < now < 5010:
            return 600
        if 11000 < now < 11006:
            return 40
        return dice.choice([4.9, 5.0, 5.0, 5.3, 10.0, 14.0])

    load = steps(dice, 5 * HOUR, step)
    record("gaps", "A driver without samples for a quarter of an hour and shorter times, and pauses of the plugin.", 80,
           dice, load, 5 * HOUR, distances,
           lambda now: any(begin <= now < end for begin, end in quiet) or dice.random() < 0.01, lambda now: 100)


def idle():
    dice = random.Random(4)
    load = Load([(hour * HOUR + end, percent) for hour in range(5) for end, percent in ((3588, 0), (3600, 100))])
    record("idle", "A notebook: nothing, but for some seconds each hour.", 50, dice, load, 5 * HOUR,
           lambda now: dice.uniform(4, 6), lambda now: False, lambda now: 700)


if __name__ == "__main__":
    training()
    inference()
    gaps()
    idle()
