"""The style of the plots: dark lines on white, the width of a web page, colours that colour-blind
readers can distinguish (Okabe and Ito), and different line styles or markers."""
import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

from results import EQUILIBRIUM  # noqa: E402

WIDTH = 9.0  # inches
INK = "#1a1a1a"
FAINT = "#d9d9d9"

# Colour, line, marker.
LOOKS = {
    "random": ("#999999", (0, (1, 1.2)), "v"), "spread": ("#999999", "--", "^"),
    "binpack": ("#6b4c9a", (0, (4, 1.2, 1, 1.2)), "P"), "dotprod": ("#56b4e9", "--", "s"),
    "clustering": ("#e69f00", "-.", "D"), "packing": ("#cc79a7", (0, (5, 1.5)), "X"),
    "bestfit": ("#009e73", (0, (3, 1, 1, 1)), "h"), "fgd": ("#0072b2", "-", "o"),
    EQUILIBRIUM: ("#d55e00", "-", "*"),
}


def look_of(name):
    colour, line, marker = LOOKS[name]
    strong = name == EQUILIBRIUM
    return {"color": colour, "linestyle": line, "marker": marker,
            "linewidth": 2.6 if strong else 1.6, "zorder": 3 if strong else 2}


def setup():
    """Sets options so that equal results give equal bytes: IDs have a fixed salt, there is no date."""
    matplotlib.rcParams.update({
        "svg.hashsalt": "mgpu", "svg.fonttype": "path", "path.simplify": True,
        "font.family": "DejaVu Sans", "font.size": 10.5, "axes.titlesize": 11.5,
        "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 10,
        "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK,
        "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "grid.color": FAINT, "grid.linewidth": 0.7, "axes.axisbelow": True,
        "legend.frameon": False, "figure.facecolor": "white", "axes.facecolor": "white",
        "savefig.facecolor": "white",
    })


def save(figure, path):
    figure.savefig(path, format="svg", bbox_inches="tight", pad_inches=0.12,
                   metadata={"Date": None, "Creator": "mgpu bench"})
    pyplot.close(figure)
    # The library writes spaces at the end of some lines.
    text = path.read_text(encoding="utf-8")
    path.write_text("".join(line.rstrip() + "\n" for line in text.splitlines()), encoding="utf-8")


def apart(values, least):
    """Moves values until the distance of neighbours is at least `least`; keeps their order."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    placed = list(values)
    for _ in range(200):
        for low, high in zip(order, order[1:]):
            gap = least - (placed[high] - placed[low])
            if gap > 0:
                placed[low] -= gap / 2
                placed[high] += gap / 2
    return placed


def label_ends(axes, ends, height):
    """Adds labels at the ends of lines. `ends` has (x, y, text, colour); `height` is the height of a
    label in units of y."""
    for (x, y, text, colour), at in zip(ends, apart([end[1] for end in ends], height)):
        axes.annotate(text, (x, y), xytext=(x + 1.5, at), textcoords="data", va="center",
                      fontsize=9.5, color=INK, annotation_clip=False,
                      fontweight="bold" if colour == LOOKS[EQUILIBRIUM][0] else "normal",
                      arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 1,
                                  "shrinkA": 0, "shrinkB": 0})
