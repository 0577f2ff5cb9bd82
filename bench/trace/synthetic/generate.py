#!/usr/bin/env python3
"""Writes nodes.csv and pods.csv into its folder: a cluster, and a workload that nearly fills it.

The columns are those of the openb traces, but none of their rows are used. Every run gives the same
files.
"""
import csv
import pathlib
import random

CARD_MILLI = 1000
SEED = 2026
TARGET_PERCENT = 97  # percentage of all cards that the pods request

# Number of nodes; CPU (milli) and memory (MiB) of each node; number and model of its cards.
NODES = [
    (20, 64_000, 262_144, 4, "A10"),
    (16, 80_000, 655_360, 8, "V100M32"),
    (16, 48_000, 196_608, 2, "T4"),
    (8, 24_000, 98_304, 1, "T4"),
    (4, 56_000, 458_752, 8, "P100"),
]
# Number of pods; cards; possible shares of each card (milli); possible CPU and memory.
KINDS = [
    (78, 0, [0], [2_000, 4_000, 8_000, 12_000], [4_096, 8_192, 24_576]),
    (88, 1, [CARD_MILLI], [6_000, 8_000, 12_000], [24_576, 49_152, 65_536]),
    (14, 2, [CARD_MILLI], [16_000, 24_000], [65_536, 131_072]),
    (4, 4, [CARD_MILLI], [32_000, 48_000], [196_608]),
    (2, 8, [CARD_MILLI], [56_000, 64_000], [393_216]),
]
# The other pods request a share of one card: possible shares, CPU and memory.
SHARES = ([100, 120, 200, 230, 250, 300, 330, 400, 450, 500, 600, 650, 800],
          [2_000, 3_000, 4_000, 6_000], [8_192, 12_288, 16_384, 24_576])
# One pod with cards in eight runs on these models only; "|" means or.
BOUND = ["A10", "V100M32", "T4|A10", "V100M32|P100"]
BOUND_SHARE = 1 / 8
HAS_MANY_CARDS = ["V100M32", "V100M32|P100"]


def nodes():
    shapes = [shape for count, *shape in NODES for _ in range(count)]
    for index, shape in enumerate(shapes):
        yield [f"synthetic-node-{index:02}", *shape]


def model(draw, cards):
    if cards == 0 or draw.random() >= BOUND_SHARE:
        return ""
    return draw.choice(BOUND if cards <= 2 else HAS_MANY_CARDS)


def pods(cards_of_all):
    draw = random.Random(SEED)
    drawn = [(draw.choice(cpu), draw.choice(memory), cards, draw.choice(shares))
             for count, cards, shares, cpu, memory in KINDS for _ in range(count)]
    left = cards_of_all * CARD_MILLI * TARGET_PERCENT // 100 - sum(p[2] * p[3] for p in drawn)
    while left >= SHARES[0][0]:
        share = draw.choice([milli for milli in SHARES[0] if milli <= left])
        drawn.append((draw.choice(SHARES[1]), draw.choice(SHARES[2]), 1, share))
        left -= share
    draw.shuffle(drawn)
    for index, (cpu, memory, cards, share) in enumerate(drawn):
        yield [f"synthetic-pod-{index:04}", cpu, memory, cards, share, model(draw, cards)]


def write(name, columns, rows):
    with open(pathlib.Path(__file__).parent / name, "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns.split(","))
        writer.writerows(rows)


def main():
    cluster = list(nodes())
    write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model", cluster)
    write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec",
          pods(sum(node[3] for node in cluster)))


if __name__ == "__main__":
    main()
