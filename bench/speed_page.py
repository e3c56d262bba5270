"""Put the figures of a whole run into docs/speed.md, between its marks, and its charts beside it: python bench/speed_page.py.

``<!-- figures: NAME -->`` begins a place, ``<!-- end -->`` ends it. The prose around the tables is written by hand. The names of
tables that the page has no place for are printed.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from results import FLAT, OURS, Result, load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "speed.md"
NAMES = {FLAT: "flat ORC", "Delta": "Delta Lake"}
QUERIES = {
    "count(*)": "count(*)",
    "1 column": "1 column",
    "3 columns": "3 columns",
    "group by": "group by",
    "full scan": "all columns",
    "filter 1 ticket": "1 ticket",
    "filter 1 %": "1 %",
    "join": "join",
}
CONTENTS = {
    "base": "a base",
    "1 delete delta": "347 deleted",
    "1 delete delta, 1 insert delta": "347 deleted, as many inserted",
    "5 delete deltas": "1,355 deleted by five statements",
    "5 delete deltas, 5 insert deltas": "the same, and five inserts",
    "30,000 scattered deletes": "30,000 more, scattered",
    "300,000 scattered deletes": "300,000, scattered",
    "originals, 1,352 deletes": "original files, 1,352 deleted",
}
PLANS = {"plan, first": "first plan", "plan, again": "the same again"} | {
    "plan, one partition, first": "one partition, first plan",
    "plan, one partition, again": "one partition, again",
}


def row(*cells: str) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join([row(*heading), "|" + "---|" * len(heading), *(row(*one) for one in rows)])


def seconds(result: Result, name: str) -> str:
    """Return seconds and CPU seconds in brackets: two digits below one second, one above."""
    figure = result.figures.get(name)
    if figure is None:
        return ""
    return "{} ({})".format(
        *(f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (figure.seconds, figure.cpu))
    )


def ratios(result: Result) -> str:
    """Return the ratio on the clock, and that of CPU seconds in brackets."""
    found = [result.ratio(), result.ratio(cpu=True)]
    return "" if None in found else "{:.2f} ({:.2f})".format(*found)


class Tables:
    """The tables of a run, each by the name of its place in the page."""

    def __init__(self, results: Sequence[Result]) -> None:
        """Take all results of a run."""
        self.results = results

    def find(self, section: str, case: str, what: str, master: str = "local") -> Result | None:
        """Return a result; what a run noted in brackets behind its name does not count."""
        wanted = (section, case, what, master)
        return next(
            (
                one
                for one in self.results
                if wanted == (one.section, one.case, re.sub(r" \(.*", "", one.what), one.master)
            ),
            None,
        )

    def read(self) -> str:
        """Return ratios to flat ORC, local and on the cluster, by contents and query."""
        return table(
            ["contents of the table", *QUERIES.values()],
            [
                [
                    said,
                    *(
                        " · ".join(
                            f"{one.ratio():.2f}"
                            for master in ("local", "cluster")
                            if (one := self.find("read", case, query, master)) and one.ratio() is not None
                        )
                        for query in QUERIES
                    ),
                ]
                for case, said in CONTENTS.items()
            ],
        )

    def formats(self) -> str:
        """Return seconds of all formats that read the same rows, local and on the cluster."""
        lines = []
        for case, said in (
            ("base", "a base"),
            ("300,000 scattered deletes", "300,000 deleted"),
        ):
            for name in (FLAT, OURS, "Delta", "Iceberg"):
                cells = [
                    " · ".join(
                        f"{one.figures[name].seconds:.2f}"
                        for master in ("local", "cluster")
                        if (one := self.find("read", case, query, master)) and name in one.figures
                    )
                    for query in QUERIES
                ]
                if name != FLAT or case == "base":
                    lines.append([f"{NAMES.get(name, name)}{'' if name == FLAT else f', {said}'}", *cells])
        return table(["", *QUERIES.values()], lines)

    def beside_peers(self, section: str) -> str:
        """Return seconds of each format and ratios, both masters side by side."""
        masters = ("local", "cluster")
        heading = [""]
        for master in masters:
            heading += [f"{master}: hiveacid", "Delta Lake", "Iceberg", "ratio (CPU)"]
        lines = []
        works = dict.fromkeys((one.case, one.what) for one in self.results if one.section == section)
        for case, what in works:
            if "reader" in what or "query" in what:
                continue
            line = [what if section != "cases" else f"{case}: {what}"]
            for master in masters:
                one = self.find(section, case, what, master)
                if one:
                    one = replace(one, against="others")
                line += (
                    [*(seconds(one, name) for name in (OURS, "Delta", "Iceberg")), ratios(one)]
                    if one
                    else [""] * 4
                )
            lines.append(line)
        return table(heading, lines)

    def readers(self) -> str:
        """Return how many times its quiet time a reader takes beside the use cases."""
        what = "the reader, times its quiet time"
        lines = []
        for case in dict.fromkeys(one.case for one in self.results if one.section == "cases"):
            cells = []
            for master in ("local", "cluster"):
                one = self.find("cases", case, what, master)
                cells += [
                    f"{one.figures[name].seconds:.1f}" if one and name in one.figures else ""
                    for name in (OURS, "Delta", "Iceberg")
                ]
            lines.append([case, *cells])
        heading = [
            f"{master}: {name}" for master in ("local", "cluster") for name in (OURS, "Delta Lake", "Iceberg")
        ]
        return table(["", *heading], lines)

    def arrow(self) -> str:
        """Return seconds of reading without Spark."""
        names = list(
            dict.fromkeys(name for one in self.results if one.section == "arrow" for name in one.figures)
        )
        return table(
            ["", *(NAMES.get(name, name) for name in names), "ratio to pyarrow.orc"],
            [
                [
                    f"{one.what}{'' if one.case == 'base' else f', {one.case}'}",
                    *(seconds(one, name) for name in names),
                    ratios(one),
                ]
                for one in self.results
                if one.section == "arrow"
            ],
        )

    def planning(self) -> str:
        """Return seconds of plans by the number of files."""
        lines = []
        for files in ("1,000", "10,000", "100,000"):
            for case, said in PLANS.items():
                mixed = self.find("planning", case, f"{files}, base and deltas")
                bases = self.find("planning", case, f"{files}, base")
                if mixed and bases:
                    others = [seconds(mixed, name) for name in (FLAT, "Iceberg")]
                    lines.append(
                        [f"{files} files, {said}", seconds(mixed, OURS), seconds(bases, OURS), *others]
                    )
        return table(["", "hiveacid", "only bases", "flat ORC", "Iceberg"], lines)

    def growth(self) -> str:
        """Return the exponents of the curves."""
        return table(
            ["amount", "exponent"],
            [
                [one.case, f"{one.figures[OURS].seconds:.2f}"]
                for one in self.results
                if one.section == "growth" and one.what.startswith("power")
            ],
        )

    def fixed(self) -> str:
        """Return what a statement takes above the bare Spark job, and what a start takes."""
        lines = []
        for one in self.results:
            if one.section == "fixed" and one.master == "local":
                cluster = self.find("fixed", one.case, one.what, "cluster")
                lines.append(
                    [f"{one.case}: {one.what}", seconds(one, OURS), seconds(cluster, OURS) if cluster else ""]
                )
        return table(["", "local", "cluster"], lines)


def main() -> None:
    """Rewrite the places of the page."""
    source = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "results" / "bench.json"
    tables = Tables(load(source))
    made: dict[str, Callable[[], str]] = {
        "read": tables.read,
        "formats": tables.formats,
        "arrow": tables.arrow,
        "write": lambda: tables.beside_peers("write"),
        "small": lambda: tables.beside_peers("small"),
        "cases": lambda: tables.beside_peers("cases"),
        "readers": tables.readers,
        "planning": tables.planning,
        "growth": tables.growth,
        "fixed": tables.fixed,
    }
    text = PAGE.read_text()
    for name, make in made.items():
        place = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = place.subn(lambda match, make=make: f"{match[1]}\n{make()}\n\n{match[2]}", text)
        if not found:
            print(f"== no place for {name}")
    PAGE.write_text(text)
    for chart in source.parent.glob("*.svg"):
        if f"speed/{chart.name}" in text:
            shutil.copy(chart, PAGE.with_suffix("") / chart.name)


if __name__ == "__main__":
    main()
