"""The trials in the order in which they are told; each wants a database freshly built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lab.examine import take_over, trials
from lab.examine.queue_file import QueueFile
from lab.examine.verdict import Verdict

Trial = Callable[[QueueFile, str], Verdict]

TRIALS: tuple[Trial, ...] = (
    lambda queue, conninfo: trials.two_claims(queue, conninfo)[0],
    take_over.late_finish,
    partial(take_over.late_finish, same_name=True),
)
