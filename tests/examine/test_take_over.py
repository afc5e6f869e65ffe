"""A worker that comes back late: by which guard its finish is refused, in queues that are known and in the lab's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import paths
from lab.examine import queue_file, scratch, trials
from lab.examine.catalogue import TRIALS
from lab.protocol import take_home
from lab.server.target import Target

LEASE = (paths.ROOT / "data" / "queues" / "lease_without_token.sql").read_text(encoding="utf-8")
BLOCKS = """
SELECT queue.enqueue('K' || n, 'k.xml', '<nfe/>') FROM generate_series(1, 4) AS n;
-- @claim
SELECT document_id AS id, lease_token AS token FROM queue.claim(:worker, :limit::integer);
-- @finish
SELECT * FROM queue.finish(:id, :token);
-- @expire
UPDATE queue.document_queue SET leased_until = clock_timestamp() - INTERVAL '1 hour' WHERE document_id = :id;
-- @recover
SELECT * FROM queue.recover('lab');
-- Its backoff would else keep it from being claimed again for a while.
UPDATE queue.document_queue SET available_at = clock_timestamp() - INTERVAL '1 hour' WHERE status = 'pending';
"""


def words(text: str, file: Path, server: Target) -> list[str]:
    file.write_text(text)
    queue, found = queue_file.read(file), []
    for trial in TRIALS:
        with scratch.scratch(server) as conninfo:
            trials.build(queue, conninfo)
            found.append(str(trial(queue, conninfo).word))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queue.sql"


def test_a_worker_name_lets_a_restarted_worker_write_over(file: Path, own_server: Target) -> None:
    assert words(LEASE, file, own_server) == ["HOLDS", "HOLDS", "BREAKS"]


def test_without_the_name_every_late_finish_passes(file: Path, own_server: Target) -> None:
    guard = " AND worker = :worker"
    assert guard in LEASE
    assert words(LEASE.replace(guard, ""), file, own_server) == ["HOLDS", "BREAKS", "BREAKS"]


def test_a_finish_that_never_works_is_no_guard(file: Path, own_server: Target) -> None:
    assert words(LEASE.replace("AND worker = :worker", "AND FALSE"), file, own_server)[1:] == ["NOT TRIED", "NOT TRIED"]


def test_without_a_take_over_nothing_is_said(file: Path, own_server: Target) -> None:
    assert words(LEASE.replace("INTERVAL '1 minute'", "INTERVAL '-1 hour'"), file, own_server)[1:] == [
        "NOT TRIED",
        "NOT TRIED",
    ]


def protocol() -> str:
    return "-- @schema\n" + take_home.protocol("en", "queue", {}) + BLOCKS


def test_the_labs_own_protocol_holds(file: Path, own_server: Target) -> None:
    assert words(protocol(), file, own_server) == ["HOLDS", "HOLDS", "HOLDS"]


def test_the_labs_own_protocol_breaks_without_its_token(file: Path, own_server: Target) -> None:
    """The defence behind both: a finish that takes whatever token the row has."""
    by_id = "(SELECT lease_token FROM queue.document_queue WHERE document_id = :id)"
    assert words(protocol().replace("queue.finish(:id, :token)", f"queue.finish(:id, {by_id})"), file, own_server) == [
        "HOLDS",
        "BREAKS",
        "BREAKS",
    ]
