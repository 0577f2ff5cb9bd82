#!/usr/bin/env python3
"""Prints deploy/before-after.svg: 24 pods on eight cards, as mgpu-sim places them with whole cards and with shares.

  deploy/picture.py BUILD >deploy/before-after.svg     BUILD has bench/mgpu-sim, such as build/release
"""
import json
import pathlib
import subprocess
import sys
import tempfile

DOMAIN = "vke.volcengine.com/"
CARDS, CARD_MIB = 8, 81251
KINDS = {"notebook": (20, 8192, "#2f7fc4"), "serve": (30, 16384, "#2c8a4b"), "eval": (50, 40960, "#b3750f")}
PODS = 3 * ["notebook", "serve", "eval", "notebook", "serve", "notebook", "serve", "eval"]
WIDTH, ROW, BAR = 400, 36, 26


def node():
    cards = [{"index": i, "uuid": f"GPU-{i}", "model": "NVIDIA A100-SXM4-80GB", "memoryMiB": CARD_MIB, "health": "Healthy"}
             for i in range(CARDS)]
    amounts = {DOMAIN + "mgpu-core": str(100 * CARDS), DOMAIN + "mgpu-memory": str(CARD_MIB * CARDS)}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "gpu-0", "annotations": {DOMAIN + "mgpu-cards": json.dumps({"version": 1, "cards": cards})}},
            "status": {"capacity": amounts, "allocatable": amounts}}


def pod(number, kind, whole):
    core, memory, _ = KINDS[kind]
    limits = {DOMAIN + "mgpu-core": "100"} if whole else {DOMAIN + "mgpu-core": str(core), DOMAIN + "mgpu-memory": str(memory)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{kind}-{number}"},
            "spec": {"containers": [{"name": "app", "image": "busybox", "resources": {"limits": limits}}]}}


def placed(simulator, whole):
    """The card of each pod, or None where it is pending."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, pods = pathlib.Path(folder, "nodes.json"), pathlib.Path(folder, "pods.json")
        nodes.write_text(json.dumps(node()))
        items = [pod(number, kind, whole) for number, kind in enumerate(PODS)]
        pods.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        output = subprocess.check_output([simulator, "demo", "--nodes", nodes, "--pods", pods, "--output", "json"])
    cards = {one["name"]: one["annotations"].get(DOMAIN + "gpu-index-container-app") for one in json.loads(output)}
    return [cards[f"{kind}-{number}"] for number, kind in enumerate(PODS)]


def text(x, y, words, size=12, kind="t", more=""):
    return f'<text x="{x}" y="{y}" font-size="{size}" class="{kind}" {more}>{words}</text>'


def half(left, title, subtitle, cards, whole):
    pending = cards.count(None)
    out = [text(left, 30, title, 18, "t", 'font-weight="700"'), text(left, 52, subtitle, 13, "s"),
           text(left + 20 + WIDTH, 30, f"{len(cards) - pending} pods run, {pending} are pending", 15, "t",
                'font-weight="700" text-anchor="end"')]
    used = [0] * CARDS
    for card in range(CARDS):
        y = 72 + ROW * card
        out += [text(left, y + 18, card, 12, "s"), f'<rect x="{left + 20}" y="{y}" width="{WIDTH}" height="{BAR}" rx="4" class="e"/>']
    for kind, card in zip(PODS, cards):
        if card is None:
            continue
        core, _, color = KINDS[kind]
        x, y, width = left + 20 + WIDTH * used[int(card)] / 100, 72 + ROW * int(card), WIDTH * core / 100
        used[int(card)] += core
        if whole:  # the rest of the card is taken, and not used
            out.append(f'<rect x="{x + 1:g}" y="{y + 1}" width="{WIDTH - 2}" height="{BAR - 2}" rx="4" fill="none" stroke="{color}"/>')
        out += [f'<rect x="{x + 1:g}" y="{y}" width="{width - 2:g}" height="{BAR}" rx="4" fill="{color}"/>',
                text(f"{x + 8:g}", y + 18, kind, 12, "w")]
    total = sum(used)
    words = "they need" if whole else "they have"
    return out + [text(left + 20, 72 + ROW * CARDS + 16, f"{words} {total / CARDS:.0f} % of the compute of all cards", 13, "s")]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: deploy/picture.py BUILD")
    simulator = pathlib.Path(sys.argv[1]) / "bench/mgpu-sim"
    requests = ", ".join(f"{kind} {core} % and {memory // 1024} GiB" for kind, (core, memory, _) in KINDS.items())
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 420" width="980" height="420" '
             'font-family="system-ui,\'DejaVu Sans\',sans-serif">',
             "<style>.t{fill:#1b2127}.s{fill:#57606a}.e{fill:#e6eaef}.w{fill:#fff;font-weight:600}"
             "@media(prefers-color-scheme:dark){.t{fill:#e8edf2}.s{fill:#a9b5c0}.e{fill:#2a323a}}</style>"]
    lines += half(20, "Whole cards", "each pod has a card, whatever it needs", placed(simulator, True), True)
    lines += half(520, "Shares with mgpu", "the same 8 cards, the same 24 pods", placed(simulator, False), False)
    lines += [text(20, 404, f"The pods in the order of their creation: {requests}. Placed by mgpu-sim with the default policy.", 12, "s"),
              "</svg>"]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
