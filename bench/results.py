"""What was measured: as values, a printed table, JSON and charts."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyspark
from measure import Figure, Run
from rich.console import Console
from rich.table import Table

OURS, FLAT = "hiveacid", "flat"


@dataclass(frozen=True)
class Result:
    """Figures of one piece of work, by who did it.

    ``aim``: the highest ratio to ``against`` (flat ORC, or the fastest of the others) that is aimed at. ``master``: where it ran,
    ``local`` or ``cluster``.
    """

    section: str
    case: str
    what: str
    figures: Mapping[str, Figure] = field(repr=False)
    aim: float | None = None
    against: str = FLAT
    work: int = 0
    master: str = "local"

    def ratio(self, *, cpu: bool = False) -> float | None:
        """Return ours to the limit's; None where there is no limit."""
        others = [one for name, one in self.figures.items() if name not in (OURS, FLAT)]
        limit = self.figures.get(self.against)
        if limit is None and self.against == "others" and others:
            limit = min(others, key=lambda one: one.cpu if cpu else one.seconds)
        ours = self.figures.get(OURS)
        if limit is None or ours is None:
            return None
        top, bottom = (ours.cpu, limit.cpu) if cpu else (ours.seconds, limit.seconds)
        return top / bottom if bottom else None

    def as_json(self) -> dict[str, object]:
        """Return all of it for a file."""
        return {
            "section": self.section,
            "case": self.case,
            "what": self.what,
            "work": self.work,
            "master": self.master,
            "aim": self.aim,
            "against": self.against,
            "ratio": self.ratio(),
            "cpu_ratio": self.ratio(cpu=True),
            "figures": {
                name: {"seconds": one.seconds, "cpu": one.cpu, "spread": one.spread, "runs": len(one.runs)}
                for name, one in self.figures.items()
            },
        }


def table(results: Sequence[Result]) -> Table:
    """Lay the results out: seconds (and CPU seconds) of each, ours against the limit; a piece of work on each master."""
    names = list(dict.fromkeys(name for one in results for name in one.figures))
    found = Table(title="median seconds (CPU seconds)")
    for heading in ("", "", "", *names, "ratio", "CPU", "spread", "aim"):
        found.add_column(heading, justify="left" if heading == "" else "right")
    works = list(dict.fromkeys((one.section, one.case, one.what) for one in results))
    section = None
    for one in sorted(results, key=lambda one: works.index((one.section, one.case, one.what))):
        if one.section != section:
            found.add_section()
            section = one.section
        cells = [
            f"{one.figures[name].seconds:.2f} ({one.figures[name].cpu:.2f})" if name in one.figures else ""
            for name in names
        ]
        ratio, cpu = one.ratio(), one.ratio(cpu=True)
        ours = one.figures.get(OURS)
        spread = "" if ours is None else "{:.2f}-{:.2f}".format(*ours.spread)
        missed = ratio is not None and one.aim is not None and ratio > one.aim
        found.add_row(
            f"{one.section}: {one.case}",
            one.what,
            one.master,
            *cells,
            "" if ratio is None else f"{ratio:.2f}{' !' if missed else ''}",
            "" if cpu is None else f"{cpu:.2f}",
            spread,
            "" if one.aim is None else f"{one.aim:.2f}",
        )
    return found


def machine() -> dict[str, object]:
    """Say what it was measured on."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "system": platform.system(),
    }


def save(
    results: Sequence[Result], directory: Path, kept: Sequence[Mapping[str, object]] = (), **facts: object
) -> None:
    """Write ``bench.json``: after each result, for a run takes an hour. ``kept``: results of `other_results`."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **facts, "results": [*kept, *(one.as_json() for one in results)]}
    (directory / "bench.json").write_text(json.dumps(content, indent=1) + "\n")


def other_results(
    directory: Path, sections: Collection[str], masters: Collection[str], **facts: object
) -> list[dict[str, object]]:
    """Return the results in ``bench.json`` that a run of these sections on these masters does not measure anew.

    No results where there is no ``bench.json`` yet. Raises ValueError if they were measured with another version of Spark, or with
    other ``facts``.
    """
    path = directory / "bench.json"
    if not path.exists():
        return []
    saved = json.loads(path.read_text())
    for name, mine in {**facts, "spark": pyspark.__version__}.items():
        theirs = saved["machine"]["spark"] if name == "spark" else saved[name]
        if theirs != mine:
            raise ValueError(f"{path} has {name} = {theirs}, this run {mine}")
    return [one for one in saved["results"] if one["section"] not in sections or one["master"] not in masters]


def load(path: Path) -> list[Result]:
    """Return the results of a run."""
    return [
        Result(
            **{name: one[name] for name in ("section", "case", "what", "aim", "against", "work", "master")},
            figures={
                name: Figure((Run(figure["seconds"], figure["cpu"]),))
                for name, figure in one["figures"].items()
            },
        )
        for one in json.loads(path.read_text())["results"]
    ]


def charts(results: Sequence[Result], directory: Path) -> None:
    """Draw ``SECTION.svg`` for each section: the time of the others relative to ours, or ours by the amount of work."""
    mpl = import_module("matplotlib")  # takes a second, and is needed here only
    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "hiveacid", "svg.fonttype": "none"}  # the same file for the same figures
    plt = import_module("matplotlib.pyplot")
    for section in dict.fromkeys(one.section for one in results):
        drawn = [one for one in results if one.section == section]
        curves = [one for one in drawn if section == "growth" and set(one.figures) == {OURS}]
        figure = _growth_chart(plt, curves) if curves else _comparison_chart(plt, drawn)
        figure.tight_layout()
        figure.savefig(directory / f"{section}.svg", metadata={"Date": None})
        plt.close(figure)


def _comparison_chart(plt: Any, results: Sequence[Result]) -> Any:
    """Draw a line for each piece of work that has peers, with a dot for each engine; right of 1 is slower than hiveacid.

    A full dot is a local master, a ring a cluster.
    """
    peered = [one for one in results if set(one.figures) - {OURS, FLAT, "its quiet time"}] or results
    drawn = [one for one in peered if OURS in one.figures and one.figures[OURS].seconds]
    rows = list(dict.fromkeys(f"{one.case}: {one.what}" for one in drawn))[::-1]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.24 * len(rows)))
    names = list(dict.fromkeys(name for one in drawn for name in one.figures if name != OURS))
    for color, name in enumerate(names):
        for master in dict.fromkeys(one.master for one in drawn):
            here = [one for one in drawn if one.master == master and name in one.figures]
            times = [one.figures[name].seconds / one.figures[OURS].seconds for one in here]
            places = [rows.index(f"{one.case}: {one.what}") for one in here]
            face = f"C{color}" if master == "local" else "none"
            said = f"{'plain Spark' if name == FLAT else name}{'' if master == 'local' else f', {master}'}"
            axes.scatter(times, places, s=28, facecolors=face, edgecolors=f"C{color}", label=said, zorder=3)
    axes.axvline(1, color="black", linewidth=1, label=OURS)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.grid(axis="both", linewidth=0.3)
    axes.set_xlabel("time, relative to that of hiveacid (right of 1: slower than hiveacid)")
    axes.legend(fontsize=7, loc="best")
    return figure


def _growth_chart(plt: Any, results: Sequence[Result]) -> Any:
    figure, axes = plt.subplots(figsize=(9, 4))
    for case, master in dict.fromkeys((one.case, one.master) for one in results):
        here = [one for one in results if (one.case, one.master) == (case, master)]
        points = sorted((one.work, one.figures[OURS].seconds) for one in here)
        style, said = ("-", case) if master == "local" else (":", f"{case}, {master}")
        axes.plot(*zip(*points, strict=True), style, marker="o", label=said)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("amount")
    axes.set_ylabel("seconds")
    axes.grid(which="both", linewidth=0.3)
    axes.legend(fontsize=7)
    return figure


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the table and how many aims were met."""
    console.print(table(results))
    aimed = [one for one in results if one.aim is not None and one.ratio() is not None]
    met = sum(1 for one in aimed if (one.ratio() or 0) <= (one.aim or 0))
    console.print(f"aims met: {met} of {len(aimed)}")
