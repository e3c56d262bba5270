"""Wait for a lock: how often a waiting request is checked, and when it is given up.

Deadlocks are not detected, as in Hive: each waiter gives up after its last check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.model import LockId
from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.ports.clock import Clock
from hiveacid.ports.transactions import LockAnswer

logger = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 15.0  # seconds between two checks of a waiting request (DbLockManager)
_WARNING_AFTER = 8  # checks: some seconds


def wait_for_lock(
    answer: LockAnswer,
    check: Callable[[LockId], LockAnswer],
    settings: Settings,
    clock: Clock,
    resources: str,
) -> LockAnswer:
    """Check a request until it is granted, ``hive.lock.numretries`` times at most; return the last answer.

    The pause between two checks doubles, up to ``hive.lock.sleep.between.retries`` and 15 seconds. ``resources``: what
    the lock is on, for the log. Raises what ``check`` raises.
    """
    pause = _FIRST_WAIT
    for turn in range(settings.get(setting_definitions.LOCK_NUMRETRIES)):
        if answer.state is LockState.ACQUIRED:
            break
        if turn == _WARNING_AFTER:
            logger.warning("waiting for a lock on %s: %s", resources, answer.blocked_by)
        clock.sleep(min(pause, settings.get(setting_definitions.LOCK_SLEEP)))
        pause = min(pause * 2, _LONGEST_WAIT)
        answer = check(answer.lock_id)
    return answer
