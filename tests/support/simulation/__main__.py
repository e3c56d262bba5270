"""``python -m support.simulation --seeds 50``: simulate; ``--seed 7`` replays one run.

Prints one line; where an invariant broke, the seed, what broke and the last steps, and exit 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from support.simulation.planted import BUGS
from support.simulation.run import Outcome, simulate
from support.simulation.scheduler import BrokenInvariantError

STEPS = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m support.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one run")
    parser.add_argument("--first", type=int, default=0, help="the first of several seeds")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run")
    parser.add_argument("--bug", choices=list(BUGS), default="", help="plant a bug, to see it caught")
    parser.add_argument(
        "--trace",
        action="store_true",
        help="show the last steps of a run that went well, and a digest of all, too",
    )
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else [chosen.seed]
    outcomes = []
    for seed in seeds:
        try:
            outcomes.append(simulate(seed, chosen.steps, chosen.bug))
        except BrokenInvariantError as broken:
            _say(explain(broken, chosen.bug))
            return 1
        if chosen.trace:
            _say("\n".join((*outcomes[-1].trace, f"seed {seed}: {outcomes[-1].digest}")))
    _say(f"{summary(outcomes)}: no broken invariant")
    return 0


def explain(broken: BrokenInvariantError, bug: str = "") -> str:
    """Return what broke, the steps before it, and how to see it again."""
    planted = f" --bug {bug!r}" if bug else ""
    again = f"python -m support.simulation --seed {broken.seed} --steps {broken.steps}{planted}"
    return "\n".join((str(broken), *(f"  {line}" for line in broken.trace), f"again: {again}"))


def summary(outcomes: Sequence[Outcome]) -> str:
    """Say what runs came to, in one line."""
    counts = (
        f"{sum(one.steps for one in outcomes)} steps",
        f"{sum(one.commits for one in outcomes)} commits",
        f"{sum(one.reads for one in outcomes)} reads",
        f"{sum(one.compactions for one in outcomes)} compactions",
        f"{sum(one.deaths for one in outcomes)} deaths",
        *(
            f"{count} {what}"
            for what, count in sum((Counter(one.definitions) for one in outcomes), Counter()).items()
        ),
    )
    return f"{len(outcomes)} runs, " + ", ".join(counts)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
