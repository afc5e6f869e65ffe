"""The benchmark: its quick form runs, what it says is checked in the tables, and one duplicate makes a run void."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from lab.base.errors import LabError
from lab.measure import guarantee_cost, peers, rounds, worker_vs_pgbench
from lab.measure.drain import CLAIM, FINISH, Field, Load, by_pgbench, by_workers
from lab.server.target import Target
from tests.cli.test_command import lab
from tests.helpers import execute, fetch


@pytest.fixture(scope="module")
def field(own_server_module: Target) -> Iterator[Field]:
    """A queue to be measured on."""
    with own_server_module.database("bench") as conninfo:
        yield Field(conninfo, worker_vs_pgbench.STATE)


@pytest.fixture(scope="module")
def own_server_module(server: Target) -> Target:
    """The server, if it is the lab's own."""
    if server.embedded is None:
        pytest.skip("only on the lab's own server: it is loaded")
    return server


def test_the_quick_form_compares_workers_with_pgbench(field: Field) -> None:
    said: list[str] = []
    cells = worker_vs_pgbench.compare(field, 1, said.append, batches={1: 4, 10: 3}, clients=(2,))
    assert [(cell.batch, cell.clients) for cell in cells] == [(1, 2), (10, 2)]
    assert said.pop(0).startswith("  round 1 of 1 done")
    for cell, line in zip(cells, said, strict=True):
        assert cell.ratio.median == pytest.approx(cell.worker / cell.pgbench)
        assert cell.processor > 0
        assert f"{cell.ratio.median:.2f}" in line
        assert ("the aim is" in line) == (cell.ratio.median < worker_vs_pgbench.AIM)


def test_the_rounds_end_in_time_on_a_busy_machine() -> None:
    assert list(rounds.turns(3, lambda line: None)) == [0, 1, 2]
    assert list(rounds.turns(3, lambda line: None, at_most=0)) == [0]


@pytest.mark.parametrize(
    "planted",
    [
        "INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, quem, por_que, quando)"
        " VALUES ('padrao', 1, 3, 'processando', 'concluido', 'w', 'conclusao', now())",
        "UPDATE sql_semana_12.fila_documentos SET tentativas = 2 WHERE documento_id = 2",
        "UPDATE sql_semana_12.fila_documentos SET status = 'processando' WHERE documento_id = 3",
        "DELETE FROM sql_semana_12.fila_documentos WHERE documento_id = 3",
        "DELETE FROM sql_semana_12.auditoria WHERE documento_id = 3 AND versao = 1",
        "UPDATE sql_semana_12.auditoria SET token_reserva = 1",
    ],
)
def test_a_duplicate_or_a_gap_makes_the_run_void(field: Field, planted: str) -> None:
    load = Load(1, 3, 2)
    field.fill(load.documents)
    by_pgbench(field, load, CLAIM, last=FINISH)
    field.check(load.documents)
    execute(field.conninfo, planted)
    with pytest.raises(LabError, match="void"):
        field.check(load.documents)


def test_a_statement_that_fails_ends_the_run(field: Field) -> None:
    field.fill(1)
    with pytest.raises(LabError, match="pgbench: "):
        by_pgbench(field, Load(1, 1), "SELECT * FROM nowhere;\n")


def test_a_void_run_prints_no_figure(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    twice = FINISH + "UPDATE fila_documentos SET tentativas = 2 WHERE documento_id = 1;\n"
    monkeypatch.setattr(worker_vs_pgbench, "FINISH", twice)
    with pytest.raises(LabError, match="void"):
        worker_vs_pgbench.compare(field, 1, said.append, batches={1: 3}, clients=(1,))
    assert said == []


def test_workers_that_leave_documents_behind_make_the_run_void(field: Field) -> None:
    load = Load(2, 2, 2)
    field.fill(load.documents - 1)
    with pytest.raises(LabError, match="finished 7 documents of 8"):
        by_workers(field, load)


def test_every_guarantee_has_a_price(own_server_module: Target) -> None:
    said: list[str] = []
    with ExitStack() as stack:
        things = list(guarantee_cost.priced(own_server_module, stack))
        assert [each.field.state for each in things] == [1, 5, 6, 10, 10, 10]
        # Three rounds: the WAL is the whole server's, and its median leaves out a round in which autovacuum wrote, too.
        priced = guarantee_cost.price(things, 3, said.append, documents=20)
        assert fetch(things[4].field.conninfo, "SELECT count(*) FROM sql_semana_12.auditoria") == [(0,)]
    assert len(priced) == 6 and all(each.name in line for each, line in zip(priced, said[-6:], strict=True))
    assert priced[0].time.median == priced[0].in_memory.median == 1
    wal = [each.wal for each in priced]
    assert wal[0] < wal[1] < wal[2] < wal[3] > wal[4], "each guarantee is written to the WAL"


def test_the_price_of_nothing_is_the_episodes_own_statement() -> None:
    script = guarantee_cost.episode()
    assert "FOR UPDATE SKIP LOCKED" in script
    assert script.count(":documento_id") == 1 and script.count("\\gset") == 1


def test_a_claim_among_many_is_compared_with_one_among_few(own_server_module: Target) -> None:
    with own_server_module.database("bench") as few, own_server_module.database("bench") as many:
        answers = guarantee_cost.among_many(
            Field(few, 10), Field(many, 10), lambda line: None, sizes=(600, 3000), looks=3
        )
        assert [each.tenant for each in answers] == ["any", "rare"]
        assert all(each.ratio == each.many / each.few for each in answers)
        for conninfo in (few, many):
            claimed = "SELECT count(*), count(*) FILTER (WHERE inquilino = 'raro') >= 6 FROM sql_semana_12.auditoria"
            assert fetch(conninfo, claimed) == [(12, True)]


def test_the_worker_is_compared_with_other_queues(own_server_module: Target) -> None:
    said: list[str] = []
    with ExitStack() as stack:
        everyone = peers.peers(own_server_module, stack, said.append)
        names = [each.name for each in everyone]
        assert names[:3] == [peers.WORKER, peers.PGBENCH, peers.BARE]
        assert (names[3:] == [peers.PGMQ, peers.PIPELINED]) != any("pgmq is not compared" in line for line in said)
        figures = peers.compare(everyone, 1, said.append, batches={1: 5, 10: 2})
        assert [(each.name, each.batch) for each in figures] == [(name, batch) for batch in (1, 10) for name in names]
        assert all(each.rate > 0 and each.wal > 0 for each in figures)
        wal = {each.name: each.wal for each in figures if each.batch == 10}
        assert wal[peers.PGBENCH] > wal[peers.BARE], "the guarantees are written to the WAL"
        for each in figures:
            assert (each.ratio is not None) == (peers.PGMQ in names)
        # A peer that leaves something behind, or takes it twice, gives no figure.
        lazy = replace(everyone[-1], empty=lambda field, load: by_pgbench(field, replace(load, claims=1), peers.READ))
        if peers.PGMQ in names:
            with pytest.raises(LabError, match="void"):
                peers.compare([lazy], 1, said.append, batches={1: 5})


def test_a_profile_says_where_a_workers_time_goes(field: Field) -> None:
    shares = worker_vs_pgbench.why(field, lambda line: None, batch=10, claims=3)
    assert sum(shares.values()) == pytest.approx(1)
    assert all(share > 0 for share in shares.values())


def test_a_server_that_does_not_wait_for_its_disk_is_refused(own_server_module: Target) -> None:
    with pytest.raises(LabError, match="fsync is off"):
        worker_vs_pgbench.insist_on_disk(own_server_module)


def test_a_given_server_is_loaded_only_if_that_is_asked_for(field: Field) -> None:
    done = lab("bench", LAB_DSN=field.conninfo)
    assert (done.returncode, "add --load" in done.stderr) == (1, True)
    assert lab("bench", "nothing", LAB_DSN=field.conninfo).returncode == 2
