"""One run from one integer: processes at work, then an end at which everything must be put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from hiveacid.storage.staging import staging_txn_id
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
from support.simulation.definer import Definer
from support.simulation.planted import BUGS, Bug
from support.simulation.profiles import PROFILES
from support.simulation.reader import Reader
from support.simulation.scheduler import Over, Process, Scheduler
from support.simulation.services import Cleaner, Compactor, Reaper
from support.simulation.session import Session
from support.simulation.stand_ins import replaced
from support.simulation.streamer import Streamer
from support.simulation.world import TIMEOUT, WAREHOUSE, World, quiet_logs
from support.simulation.writer import Writer


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    seed: int
    steps: int
    commits: int
    reads: int
    compactions: int
    deaths: int
    definitions: Mapping[str, int]  # DROP and CREATE and the others, and commits of streams
    trace: tuple[str, ...]
    digest: str  # of the whole history


def simulate(seed: int, steps: int, bug: str = "", profile: str = "") -> Outcome:
    """Run so many steps and the end. Raises BrokenInvariantError; the same arguments do the same every time.

    Without a ``profile`` the seed draws one, or the bug brings one along.
    """
    of_seed = Random(seed).choice([*["everything"] * len(PROFILES), *PROFILES])
    about = PROFILES[profile or BUGS[bug].profile or of_seed]
    scheduler = Scheduler(seed, steps, TIMEOUT, about.chances)
    world = World(scheduler, about)
    with quiet_logs(), replaced(*BUGS[bug].patches):
        for number, role in enumerate(about.crew, 1):
            scheduler.add(_maker(world, BUGS[bug], role, number))
        scheduler.run()
        _settle(world, BUGS[bug])
    return Outcome(
        seed, scheduler.steps, world.ledger.commits, world.reads, world.compactions, scheduler.deaths, world.done,
        tuple(scheduler.trace), scheduler.digest,
    )  # fmt: skip


def _maker(world: World, bug: Bug, role: str, number: int) -> Callable[[], Process]:
    lives = 0

    def make() -> Process:
        nonlocal lives
        lives += 1
        session = Session.make(world, f"{role}{number}.{lives}", role, bug.wrap)
        works: dict[str, Callable[[], None]] = {
            "writer": Writer(session, bug.hasty).work,
            "reader": Reader(session).work,
            "definer": Definer(session).work,
            "streamer": Streamer(session).work,
            "compactor": Compactor(session).work,
            "cleaner": Cleaner(session).work,
            "reaper": Reaper(session).work,
        }
        session.process.work = works[role]
        return session.process

    return make


def _settle(world: World, bug: Bug) -> None:
    """Let everybody be dead for long, reap, clean: nothing may be left of them."""
    scheduler = world.scheduler
    scheduler.quiet = True
    scheduler.clock.advance(2 * TIMEOUT)
    janitor = Session.make(world, "janitor", "cleaner", bug.wrap)
    try:
        janitor.context.store.abort_timed_out()
        _make_missing_directories(world)
        Compactor(janitor).compact_everything()
        for _ in range(2):
            clean(janitor.context)
        world.check_now()
        _require(world, not world.store.valid_txns().open, "transactions of dead clients are open")
        _require(world, not world.store.show_locks(), "locks of dead clients are held")
        waiting = [one for one in world.store.show_compactions() if one.state == "ready for cleaning"]
        _require(world, not waiting, "compactions are not cleaned after")
        _require(world, not list(_leftovers(world)), "the cleaner left " + ", ".join(_leftovers(world)))
    except Over:
        assert scheduler.failure is not None
        raise scheduler.failure from None


def _make_missing_directories(world: World) -> None:
    """Do what an operator does for a table without rows whose readers raise MissingDirectoryError.

    A DROP that pauses between its question and the deletion, and then dies, takes the empty directory of a table that was
    made again meanwhile. If the table has rows, the check that follows finds them missing.
    """
    for root in sorted(world.spots()):
        if not world.files.exists(root):
            world.files.make_directory(root)


def _require(world: World, condition: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like a sentence
    if not condition:
        raise world.scheduler.broken(f"in the end {otherwise}")


def _leftovers(world: World) -> Iterable[str]:
    txns = world.store.valid_txns()
    for root, spot in sorted(world.spots().items()):
        name = spot.table.name
        state = world.state(spot, txns, world.store.valid_write_ids(txns, [name])[name])
        for path in (*state.obsolete, *state.aborted, *state.pending):
            yield f"{root}/{path}"
    tables = {spot.table.location for spot in world.spots().values()}
    for entry in world.files.list_tree(WAREHOUSE):
        above, _, last = f"{WAREHOUSE}/{entry.path}".rpartition("/")
        if (
            staging_txn_id(last) is not None and above in tables
        ):  # none below a table that is just being dropped
            yield f"{above}/{last}"
