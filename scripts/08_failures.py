"""Lesson 08: what is worth trying again, when, and how often."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import psycopg
from psycopg.conninfo import make_conninfo

from lab.base.facts import Fact
from lab.base.language import Text
from lab.drills.harness import open_harness
from lab.lessons.lesson import Lesson, Observed
from lab.measure.buffers import touched
from lab.scenario.library import find_scenario
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage
from lab.scenario.transcript import condition
from lab.server.open_transactions import wait_for_older_transactions
from lab.worker.failures import classify, of_status

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "A document fails. Is it worth trying again, when, and how often?",
        "Um documento falhou. Vale a pena tentar de novo, quando e quantas vezes?",
    ),
    answer=Text(
        "bad content ends a document at once; any other failure brings it back, each time later; a crash counts; nothing waits behind it",
        "conteúdo ruim encerra o documento na hora; outra falha o traz de volta, cada vez mais tarde; queda conta; nada espera atrás dele",
    ),
    psql_only=Text("partly (measuring needs ./lab run 08)", "em parte (medir pede ./lab run 08)"),
)

CANARY = "CANARIO-4711"
CAUSES = ("broken", "overloaded")  # of the failures of lumped_count
WORKERS, ROUNDS = 4, 3  # of lumped_count
LATER = "UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 hour'"
VALUE = (
    "SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC FROM fila_documentos WHERE documento_id = %s"
)


@lesson.scenario("one_retry")
def one_retry(play: Play) -> Observed:
    steps = ("a_claims", "a_claims_again", "a_claims_once_more")
    documents = tuple(whole(play[step].one("documento_id")) for step in steps)
    attempts, *others = map(whole, play["c_reads"].column("tentativas"))
    status, reason = (play["c_reads"].column(name)[0] for name in ("status", "ultimo_erro"))
    return Observed(
        documents == (1, 1, 1) and others == [0, 0, 0] and (status, attempts, reason) == ("pendente", 3, "erro"),
        "claims in a row: {documents:/ }; attempts of document 1: {attempts}, of the others: {attempts_others:/ };"
        " what the table says of it: {reason}",
        "reservas seguidas: {documents:/ }; tentativas do documento 1: {attempts}, dos outros: {attempts_others:/ };"
        " o que a tabela diz dele: {reason}",
        facts={
            "documents": Fact(documents),
            "attempts": Fact(attempts, "attempts"),
            "attempts_others": Fact(tuple(others), "attempts"),
            "reason": Fact(reason),
        },
    )


@lesson.scenario("by_category")
def by_category(play: Play) -> Observed:
    content, system = (
        (play[step].one("status"), flag(play[step].one("adiado"))) for step in ("a_fails_content", "a_fails_system")
    )
    now, later = (tuple(map(whole, play[step].column("documento_id"))) for step in ("b_claims", "b_claims_later"))
    names = ("documento_id", "status", "tentativas", "categoria_erro", "ultimo_erro")
    ended = tuple(play["c_reads"].column(name)[0] for name in names)
    return Observed(
        (content, system) == (("falhou", None), ("pendente", True))
        and (now, later) == ((3, 4), (2,))
        and ended == ("1", "falhou", "1", "conteudo", "valor nao e um numero"),
        "content: {status_content} ({reason}); system: {status_system}, put off: {put_off}; B got {documents:/ }, an hour later"
        " {documents_later:/ }",
        "conteúdo: {status_content} ({reason}); sistema: {status_system}, adiado: {put_off}; B recebeu {documents:/ }, uma hora"
        " depois {documents_later:/ }",
        facts={
            "status_content": Fact(content[0]),
            "reason": Fact(ended[-1]),
            "status_system": Fact(system[0]),
            "put_off": Fact(system[1]),
            "documents": Fact(now),
            "documents_later": Fact(later),
        },
    )


@lesson.experiment(
    "backoff",
    "The delay doubles with each attempt up to five minutes, and its upper half is random, so that what failed together comes apart.",
    "A espera dobra a cada tentativa até cinco minutos, e a metade de cima é aleatória: o que falhou junto não volta junto.",
)
def backoff(stage: Stage) -> Observed:
    stage.build(8)
    with stage.connection() as connection:
        rows = connection.execute(
            "SELECT tentativa, extract(EPOCH FROM recuo(tentativa))::float8"
            " FROM generate_series(1, 12) AS tentativa CROSS JOIN generate_series(1, 200)"
        ).fetchall()
    delays = {attempt: [delay for number, delay in rows if number == attempt] for attempt in range(1, 13)}
    full = {attempt: min(2.0 ** (attempt - 1), 300.0) for attempt in delays}
    within = all(full[each] / 2 <= min(delays[each]) and max(delays[each]) <= full[each] for each in delays)
    spread = all(max(delays[each]) - min(delays[each]) > full[each] / 4 for each in delays)
    different = len({delay for _, delay in rows})
    shown = {"first": delays[1], "fifth": delays[5], "ninth": delays[9], "twelfth": delays[12]}
    return Observed(
        within and spread,
        "delay after the first attempt {first_least:1} to {first_most:1} s, the fifth {fifth_least:1} to {fifth_most:1} s, the ninth"
        " {ninth_least:1} to {ninth_most:1} s, the twelfth {twelfth_least:1} to {twelfth_most:1} s; {different} different ones of"
        " {delays}",
        "espera depois da primeira tentativa {first_least:1} a {first_most:1} s, da quinta {fifth_least:1} a {fifth_most:1} s, da nona"
        " {ninth_least:1} a {ninth_most:1} s, da décima segunda {twelfth_least:1} a {twelfth_most:1} s; {different} diferentes em"
        " {delays}",
        facts={
            **{f"{attempt}_least": Fact(min(seconds), "s") for attempt, seconds in shown.items()},
            **{f"{attempt}_most": Fact(max(seconds), "s") for attempt, seconds in shown.items()},
            "different": Fact(different, "delays"),
            "delays": Fact(len(rows), "delays"),
        },
    )


@lesson.experiment(
    "counted_apart",
    "Deadlock, lost connection, timeout and content error are told apart by SQLSTATE and counted apart; only content ends at once.",
    "Impasse, conexão perdida, tempo esgotado e erro de conteúdo são distinguidos pelo SQLSTATE e contados à parte; só conteúdo encerra.",
)
def counted_apart(stage: Stage) -> Observed:
    stage.build(8)
    with stage.connection() as connection:
        connection.execute("SELECT enfileirar('NFE-0005', 'nfe-0005.xml', '<nfe><valor>abc</valor></nfe>')")
        connection.execute("CREATE TABLE saldos AS SELECT conta, 0 AS saldo FROM generate_series(1, 2) AS conta")
        claims = connection.execute("SELECT documento_id, token_reserva FROM reservar('worker-a', 5)").fetchall()
        tokens: dict[int, int] = dict(claims)
        ends = {**_deadlock(stage), 3: _lost_connection(stage), 4: _timeout(connection), 5: _content(connection)}
        for document, error in ends.items():
            if error is None:
                connection.execute("SELECT concluir(%s, %s)", [document, tokens[document]])
                continue
            failure = classify(error)
            connection.execute(
                "SELECT falhar(%s, %s, %s, %s)", [document, tokens[document], failure.category, failure.reason]
            )
        counted = connection.execute(
            "SELECT categoria_erro, status, count(*) FROM fila_documentos"
            " WHERE categoria_erro IS NOT NULL GROUP BY categoria_erro, status ORDER BY categoria_erro"
        ).fetchall()
    expected = [("conexao", "pendente"), ("conteudo", "falhou"), ("impasse", "pendente"), ("sistemico", "pendente")]
    found = {category: (number, status) for category, status, number in counted}
    names = {"conexao": "connection", "conteudo": "content", "impasse": "deadlock", "sistemico": "systemic"}
    sqlstates = sorted((error.sqlstate for error in ends.values() if error), key=str)
    return Observed(
        counted == [(*pair, 1) for pair in expected],
        "conexao {connection} ({status_connection}), conteudo {content} ({status_content}), impasse {deadlock} ({status_deadlock}),"
        " sistemico {systemic} ({status_systemic}); by SQLSTATE {sqlstates}",
        "conexao {connection} ({status_connection}), conteudo {content} ({status_content}), impasse {deadlock} ({status_deadlock}),"
        " sistemico {systemic} ({status_systemic}); pelos SQLSTATEs {sqlstates}",
        facts={
            **{name: Fact(found.get(category, (0, None))[0], "documents") for category, name in names.items()},
            **{f"status_{name}": Fact(found.get(category, (0, None))[1]) for category, name in names.items()},
            "sqlstates": Fact(tuple(sqlstates)),
        },
    )


@lesson.experiment(
    "receivers_answers",
    "A receiver that is busy (429) or fails (503) says nothing of the document, which comes back later; one that rejects it (422) ends it.",
    "Um receptor ocupado (429) ou com falha (503) nada diz do documento, que volta mais tarde; um que o rejeita (422) o encerra.",
    core=False,
)
def receivers_answers(stage: Stage) -> Observed:
    stage.build(8)
    answers = {"busy": 429, "failing": 503, "rejecting": 422}
    ends = {}
    with stage.connection() as connection:
        for answer, http_status in answers.items():
            document = connection.execute("SELECT documento_id, token_reserva FROM reservar('worker-a')").fetchone()
            failure = classify(of_status(http_status))
            row = connection.execute(
                "SELECT status, disponivel_em > relogio() FROM falhar(%s, %s, %s, %s)",
                [*(document or (None, None)), failure.category, failure.reason],
            ).fetchone()
            ends[answer] = (failure.category, *(row or (None, None)))
    told = (
        "{http_busy}: {category_busy}, {status_busy}; {http_failing}: {category_failing}, {status_failing};"
        " {http_rejecting}: {category_rejecting}, {status_rejecting}"
    )
    return Observed(
        ends
        == {
            "busy": ("sistemico", "pendente", True),
            "failing": ("sistemico", "pendente", True),
            "rejecting": ("conteudo", "falhou", None),
        },
        told,
        told,
        facts={
            **{f"http_{answer}": Fact(http_status) for answer, http_status in answers.items()},
            **{f"category_{answer}": Fact(category) for answer, (category, _, _) in ends.items()},
            **{f"status_{answer}": Fact(status) for answer, (_, status, _) in ends.items()},
        },
    )


@lesson.experiment(
    "missing_resource_and_invariant",
    "An entry of a missing account (23503) or against an invariant (23514) takes back the finish it shares a transaction with, and"
    " is content: it ends the document. A 404 is not: it may be a mistyped address, so it comes back.",
    "Um lançamento em conta ausente (23503) ou contra uma invariante (23514) desfaz a conclusão da mesma transação e é conteúdo:"
    " encerra o documento. Um 404 não é: pode vir de um endereço digitado errado, e por isso o documento volta.",
    core=False,
)
def missing_resource_and_invariant(stage: Stage) -> Observed:
    stage.build(8)
    entries = {"missing": (4711, "101.10"), "invariant": (1, "-101.10")}
    ends = {}
    with stage.connection() as connection:
        connection.execute("CREATE TABLE contas (conta BIGINT PRIMARY KEY)")
        connection.execute("INSERT INTO contas (conta) VALUES (1)")
        connection.execute(
            "CREATE TABLE lancamentos (conta BIGINT NOT NULL REFERENCES contas, valor NUMERIC NOT NULL CHECK (valor > 0))"
        )
        for name, entry in entries.items():
            document = _claimed(connection)
            error = _finished_with_an_entry(connection, document, entry)
            assert error
            ends[name] = (error.sqlstate, *_failed(connection, document, error))
        address = _failed(connection, _claimed(connection), of_status(404))
        row = connection.execute(
            "SELECT (SELECT count(*) FROM lancamentos), count(*) FILTER (WHERE status = 'concluido') FROM fila_documentos"
        ).fetchone()
    assert row
    return Observed(
        ends == {"missing": ("23503", "conteudo", "falhou"), "invariant": ("23514", "conteudo", "falhou")}
        and address == ("sistemico", "pendente")
        and row == (0, 0),
        "missing account {sqlstate_missing}: {category_missing}, {status_missing}; broken invariant {sqlstate_invariant}:"
        " {category_invariant}, {status_invariant}; entries kept {entries}, finishes {finishes}; HTTP {http}: {category_address},"
        " {status_address}",
        "conta ausente {sqlstate_missing}: {category_missing}, {status_missing}; invariante violada {sqlstate_invariant}:"
        " {category_invariant}, {status_invariant}; lançamentos guardados {entries}, conclusões {finishes}; HTTP {http}:"
        " {category_address}, {status_address}",
        facts={
            **{f"sqlstate_{name}": Fact(sqlstate) for name, (sqlstate, _, _) in ends.items()},
            **{f"category_{name}": Fact(category) for name, (_, category, _) in ends.items()},
            **{f"status_{name}": Fact(status) for name, (_, _, status) in ends.items()},
            "entries": Fact(row[0], "entries"),
            "finishes": Fact(row[1], "documents"),
            "http": Fact(404),
            "category_address": Fact(address[0]),
            "status_address": Fact(address[1]),
        },
    )


@lesson.scenario("crash")
def crash(play: Play) -> Observed:
    attempts = [play[step].one("tentativas") for step in ("a_claims", "b_claims")]
    first, second = (play[step].one("status") for step in ("c_recovers", "c_recovers_again"))
    offered = len(play["d_asks"].rows)
    names = ("status", "tentativas", "max_tentativas", "categoria_erro", "ultimo_erro")
    ended = [play["c_reads"].one(name) for name in names]
    return Observed(
        (attempts, first, second, offered) == (["1", "2"], "pendente", "falhou", 0)
        and ended == ["falhou", "2", "2", "queda", "worker sem sinal"],
        "after the first crash {status_first}, after the second {status_second} ({reason}); offered to a third worker: {offered}",
        "depois da primeira queda: {status_first}; da segunda: {status_second} ({reason}); oferecidos a um terceiro worker:"
        " {offered}",
        facts={
            "status_first": Fact(first),
            "status_second": Fact(second),
            "reason": Fact(ended[-1]),
            "offered": Fact(offered, "documents"),
        },
    )


@lesson.experiment(
    "same_key",
    "A tenant's key enters once: again it is known, with another content or a number that is taken it is an error, never a silent loss.",
    "A chave de um inquilino entra uma vez: repetida, ela é reconhecida; com outro conteúdo ou número já usado há erro, nunca perda muda.",
    core=False,
)
def same_key(stage: Stage) -> Observed:
    stage.build(8)
    calls = {
        "again": ("NFE-0005", "<nfe>5</nfe>", "padrao"),
        "other_content": ("NFE-0005", "<nfe>6</nfe>", "padrao"),
        "other_tenant": ("NFE-0005", "<nfe>6</nfe>", "outro"),
        "taken": ("NFE-0006", "<nfe>6</nfe>", "padrao"),
    }
    enqueue = "SELECT novo FROM enfileirar(%s, 'nfe.xml', %s, %s)"
    answers: dict[str, object] = {}
    with stage.connection() as connection:
        connection.execute(enqueue, ["NFE-0005", "<nfe>5</nfe>", "padrao"])
        # A row that came with its number, as after a switchover, does not move the identity on. Each call draws a number, used or not.
        connection.execute(
            "INSERT INTO fila_documentos (documento_id, chave, nome_arquivo, conteudo_xml, disponivel_em) OVERRIDING SYSTEM VALUE"
            " VALUES (currval(pg_get_serial_sequence('fila_documentos', 'documento_id')) + 4, 'NFE-0007', 'nfe.xml', '<nfe/>', relogio())"
        )
        for name, call in calls.items():
            try:
                row = connection.execute(enqueue, call).fetchone()
                answers[name] = row[0] if row else None
            except psycopg.Error as error:
                answers[name] = error.sqlstate
        kept = connection.execute(
            "SELECT inquilino, conteudo_xml::TEXT FROM fila_documentos WHERE chave = 'NFE-0005' ORDER BY inquilino"
        ).fetchall()
    return Observed(
        answers == {"again": False, "other_content": "QL001", "other_tenant": True, "taken": "23505"}
        and kept == [("outro", "<nfe>6</nfe>"), ("padrao", "<nfe>5</nfe>")],
        "again: new {again}; another tenant: new {tenant}; another content: {other}; a number that is taken: {taken}",
        "de novo: novo {again}; outro inquilino: novo {tenant}; outro conteúdo: {other}; número já usado: {taken}",
        facts={
            "again": Fact(answers["again"] is True),
            "tenant": Fact(answers["other_tenant"] is True),
            "other": Fact(str(answers["other_content"])),
            "taken": Fact(condition(str(answers["taken"]))),
        },
    )


@lesson.experiment(
    "due_order",
    "The claim orders by disponivel_em on an index of its own: what is put off costs it nothing, and the episode's order stays.",
    "A reserva ordena por disponivel_em, em índice próprio: o que foi adiado não lhe custa nada, e a ordem do episódio se mantém.",
)
def due_order(stage: Stage, delayed: int = 20_000) -> Observed:
    stage.build(8)
    with stage.connection() as connection:
        # A document that was put off has been updated, so they lie in the table in no order; else neighbours would share a buffer.
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, criado_em, disponivel_em)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', timestamptz '2026-10-15 09:00-03' + n * INTERVAL '1 s',"
            " relogio() + INTERVAL '1 day' FROM generate_series(1, %s) AS n ORDER BY md5(n::TEXT)",
            [delayed],
        )
        choice = _choice(connection)
        new = _buffers(connection, choice)
        with connection.transaction(force_rollback=True):
            claims = [connection.execute("SELECT chave FROM reservar('worker-a')").fetchone() for _ in range(4)]
        # The order before this lesson: the index it had, and none of the new ones.
        connection.execute("DROP INDEX fila_documentos_devidos_idx, fila_documentos_devidos_inquilino_idx")
        connection.execute("CREATE INDEX ON fila_documentos (criado_em, documento_id) WHERE status = 'pendente'")
        old = _buffers(connection, choice.replace("ORDER BY disponivel_em", "ORDER BY criado_em"))
    keys = tuple(claim[0] for claim in claims if claim)
    return Observed(
        old > 100 * new and keys == ("NFE-0001", "NFE-0002", "NFE-0003", "NFE-0004"),
        "buffers a claim with {delayed} put off at the head of the old order: {old}; ordered by disponivel_em: {new};"
        " claimed: {keys:/ }",
        "buffers por reserva com {delayed} adiados no início da ordem antiga: {old}; ordenando por disponivel_em: {new};"
        " reservados: {keys:/ }",
        facts={
            "delayed": Fact(delayed, "documents"),
            "old": Fact(old, "buffers"),
            "new": Fact(new, "buffers"),
            "keys": Fact(keys),
        },
    )


@lesson.experiment(
    "redacted",
    "Reasons are kept short. Of errors as servers, libraries and drivers write them, no text of a document and no password gets to"
    " ultimo_erro or auditoria; of words in another form some does.",
    "Os motivos ficam curtos. De erros como servidores, bibliotecas e drivers os escrevem, nem texto do documento nem senha chega a"
    " ultimo_erro ou auditoria; de palavras em outro formato, algo chega.",
)
def redacted(stage: Stage) -> Observed:
    stage.build(8)
    with stage.connection() as connection:
        connection.execute("DELETE FROM fila_documentos")
        reasons = _leaky_reasons(connection)
        for number, reason in enumerate(reasons):
            key, payload = f"NFE-{number}", f"<nfe><valor>{CANARY}</valor></nfe>"
            connection.execute("SELECT enfileirar(%s, 'nfe.xml', %s::xml, p_max_tentativas => 1)", [key, payload])
            connection.execute(
                "SELECT falhar(documento_id, token_reserva, 'sistemico', %s) FROM reservar('worker-a')", [reason]
            )
        connection.execute("SELECT enfileirar('NFE-Q', 'nfe.xml', '<nfe/>')")
        connection.execute("SELECT documento_id FROM reservar('worker-a')")
        connection.execute(LATER)
        connection.execute("SELECT documento_id FROM recuperar('vigia', %s)", [reasons[-1]])
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE ultimo_erro LIKE %(canary)s),"
            " (SELECT count(*) FROM auditoria WHERE auditoria::TEXT LIKE %(canary)s),"
            " count(ultimo_erro), max(length(ultimo_erro)), bool_or(ultimo_erro ~ E'[\\r\\n]') FROM fila_documentos",
            {"canary": f"%{CANARY}%"},
        ).fetchone()
        unusual = (f"valor «{CANARY}» inválido", f"password is {CANARY}", f"valor '{CANARY} inválido")
        missed = "SELECT count(*) FROM unnest(%s::TEXT[]) AS motivo WHERE resumir(motivo) LIKE %s"
        ((passed,),) = connection.execute(missed, [list(unusual), f"%{CANARY}%"]).fetchall()
    assert row
    in_errors, in_audit, kept, longest, broken = row
    given = sum(CANARY in reason for reason in [*reasons, reasons[-1]])
    return Observed(
        given == kept == len(reasons) + 1
        and (in_errors, in_audit, broken) == (0, 0, False)
        and longest <= 200
        and passed == len(unusual),
        "reasons given with the canary: {given}; kept with it: ultimo_erro {leaked_errors}, auditoria {leaked_audit};"
        " {kept} kept, of {longest} characters at most; in other forms (« », an open quote, “password is”): {passed} of {unusual} pass",
        "motivos recebidos com o canário: {given}; guardados com ele: ultimo_erro {leaked_errors}, auditoria {leaked_audit};"
        " {kept} guardados, de no máximo {longest} caracteres; em outros formatos (« », aspa que não fecha, “password is”): passam"
        " {passed} de {unusual}",
        facts={
            "given": Fact(given, "reasons"),
            "leaked_errors": Fact(in_errors, "rows"),
            "leaked_audit": Fact(in_audit, "rows"),
            "kept": Fact(kept, "reasons"),
            "longest": Fact(longest, "characters"),
            "passed": Fact(passed, "reasons"),
            "unusual": Fact(len(unusual), "reasons"),
        },
    )


@lesson.experiment(
    "log_of_a_failed_attempt",
    "The line that a worker logs of a failed attempt leads to the document and to the receiver's own log, by the id of its answer;"
    " payload and password are in neither.",
    "A linha de log de uma tentativa que falhou leva ao documento e ao log do próprio receptor, pelo identificador da resposta dele;"
    " conteúdo e senha não estão em nenhum dos dois.",
    core=False,
)
def log_of_a_failed_attempt(stage: Stage) -> Observed:
    stage.build(9)  # the first state that has a worker
    with stage.connection() as connection:
        connection.execute(
            "UPDATE fila_documentos SET conteudo_xml = xmlparse(DOCUMENT format('<nfe><valor>%%s</valor><nota>%%s</nota></nfe>',"
            " CASE documento_id WHEN 1 THEN %(canary)s ELSE '101.10' END, %(canary)s::TEXT))",
            {"canary": CANARY},
        )
        # A password that no server asks for, so that any server may be the lab's.
        with open_harness(make_conninfo(stage.conninfo, sslpassword=CANARY)) as harness:
            harness.behave(failing=True)
            harness.worker("worker-a", "--once", "--batch", "3").drain()
            harness.behave(rejecting=True, failing=False)
            harness.worker("worker-b", "--once").drain()
            (receiver,) = harness.receivers
            refused = [event["response"] for event in receiver.heard() if event["event"] == "refused"]
            said = harness.events() + receiver.events
        failed = [event for event in said if event["event"] == "failed"]
        in_table = connection.execute(
            "SELECT documento_id, versao, categoria_erro, CASE status WHEN 'pendente' THEN disponivel_em END"
            " FROM fila_documentos ORDER BY documento_id"
        ).fetchall()
    names = tuple(sorted(set().union(*failed) - {"event", "time", "worker"}))
    logged = [(event["id"], event["version"], event["category"], event.get("next_attempt")) for event in failed]
    told = [(*row, due if due is None else str(due)) for *row, due in in_table]
    answered = [event["response"] for event in failed if "response" in event]
    leaked = sum(CANARY in str(event) for event in said)
    return Observed(
        logged == told and answered == refused and len(set(refused)) == 3 and leaked == 0,
        "failed attempts logged {logged}, as the table has them {as_in_table}, with {names}; answers of the receiver {refused}, found"
        " by their id in its own log {found}; lines with the canary {leaked} of {lines}",
        "tentativas falhas no log {logged}, como a tabela as tem {as_in_table}, com {names}; respostas do receptor {refused},"
        " encontradas no log dele pelo identificador {found}; linhas com o canário {leaked} de {lines}",
        facts={
            "logged": Fact(len(failed), "attempts"),
            "as_in_table": Fact(sum(row in told for row in logged), "attempts"),
            "names": Fact(names),
            "refused": Fact(len(answered), "answers"),
            "found": Fact(len(set(answered) & set(refused)), "answers"),
            "leaked": Fact(leaked, "lines"),
            "lines": Fact(len(said), "lines"),
        },
    )


@lesson.experiment(
    "rounds",
    "In twenty rounds of one worker, one retry for everything does nothing but the broken document; by category the others are done.",
    "Em vinte rodadas de um worker, tentar tudo de novo, sem critério, só ocupa o worker com o documento quebrado; por"
    " categoria, os outros são concluídos.",
    core=False,
)
def rounds(stage: Stage) -> Observed:
    (tried, done), (tried_after, done_after) = (_rounds(stage, 20, retry_all=all_alike) for all_alike in (True, False))
    return Observed(
        (tried, done) == (20, 0) and (tried_after, done_after) == (1, 3),
        "one retry for everything: document 1 tried {tried} times, {finished} finished; by category: tried {tried_by_category}"
        " time, {finished_by_category} finished",
        "sem critério: documento 1 tentado {tried} vezes, {finished} concluídos; por categoria: tentado {tried_by_category} vez,"
        " {finished_by_category} concluídos",
        facts={
            "tried": Fact(tried, "attempts"),
            "finished": Fact(done, "documents"),
            "tried_by_category": Fact(tried_after, "attempts"),
            "finished_by_category": Fact(done_after, "documents"),
        },
    )


@lesson.experiment(
    "lumped_count",
    "One count of all retries is the same for broken documents on a healthy database and for good ones on an overloaded one; counted"
    " by category, they are told apart.",
    "Uma contagem única de novas tentativas é igual para documentos quebrados em um banco saudável e para bons em um banco"
    " sobrecarregado; por categoria, os dois casos se distinguem.",
    core=False,
)
def lumped_count(stage: Stage) -> Observed:
    lumped = {cause: _crowd(stage, overloaded=cause == "overloaded", retry_all=True)[""] for cause in CAUSES}
    counted = {cause: _crowd(stage, overloaded=cause == "overloaded", retry_all=False) for cause in CAUSES}
    expected = {"broken": {"conteudo": WORKERS - 1}, "overloaded": {"sistemico": ROUNDS * (WORKERS - 1)}}
    return Observed(
        lumped["broken"] == lumped["overloaded"] == ROUNDS * (WORKERS - 1) and counted == expected,
        "{workers} workers, {rounds} rounds; retries in one count: {lumped_broken} with broken documents, {lumped_overloaded} with an"
        " overloaded database; by category: conteudo {content_broken}, sistemico {systemic_broken}, against conteudo"
        " {content_overloaded}, sistemico {systemic_overloaded}",
        "{workers} workers, {rounds} rodadas; novas tentativas em contagem única: {lumped_broken} com documentos quebrados,"
        " {lumped_overloaded} com o banco sobrecarregado; por categoria: conteudo {content_broken}, sistemico {systemic_broken},"
        " contra conteudo {content_overloaded}, sistemico {systemic_overloaded}",
        facts={
            "workers": Fact(WORKERS, "workers"),
            "rounds": Fact(ROUNDS, "rounds"),
            **{f"lumped_{cause}": Fact(retries, "retries") for cause, retries in lumped.items()},
            **{f"content_{cause}": Fact(counts["conteudo"], "failures") for cause, counts in counted.items()},
            **{f"systemic_{cause}": Fact(counts["sistemico"], "failures") for cause, counts in counted.items()},
        },
    )


@lesson.scenario("counted_at_report", core=False)
def counted_at_report(play: Play) -> Observed:
    handed_out = sum(len(play[step].rows) for step in ("a_claims", "b_claims", "d_claims"))
    counted, allowed = (whole(play["d_claims"].one(name)) for name in ("tentativas", "max_tentativas"))
    return Observed(
        (handed_out, counted, allowed) == (3, 0, 2),
        "handed out {handed_out} times, counted {attempts}, allowed {allowed}",
        "entregue {handed_out} vezes, contadas {attempts}, permitidas {allowed}",
        facts={
            "handed_out": Fact(handed_out, "times"),
            "attempts": Fact(counted, "attempts"),
            "allowed": Fact(allowed, "attempts"),
        },
    )


@lesson.experiment(
    "twelve_crashes",
    "A document that kills its worker is still handed out after twelve crashes if attempts count at the report; at the claim they stop it.",
    "Quem derruba o worker ainda é entregue após doze quedas se a tentativa conta no relato; contada na reserva, ela o detém.",
    core=False,
)
def twelve_crashes(stage: Stage) -> Observed:
    crashes = 12
    at_report, at_claim = (_handed_out(stage, crashes, at_claim=at_claim) for at_claim in (False, True))
    return Observed(
        (at_report, at_claim) == (crashes, 5),
        "handed out in {crashes} rounds, five attempts allowed: counted at the report {at_report}, at the claim {at_claim}",
        "entregas em {crashes} rodadas, com cinco tentativas permitidas: contando no relato {at_report}, na reserva {at_claim}",
        facts={
            "crashes": Fact(crashes, "rounds"),
            "at_report": Fact(at_report, "times"),
            "at_claim": Fact(at_claim, "times"),
        },
    )


@lesson.scenario("batch", core=False)
def batch(play: Play) -> Observed:
    together, apart = (play[step].column("status") for step in ("c_reads", "c_reads_again"))
    finished, finished_apart = (states.count("concluido") for states in (together, apart))
    return Observed(
        (finished, finished_apart) == (0, 3) and play["a_ends"].command == "ROLLBACK" and apart[3] == "falhou",
        "finished of {total}: in one piece {finished}, with savepoints {finished_apart}, and document 4 {status}",
        "concluídos de {total}: tudo junto {finished}; com SAVEPOINT {finished_apart}, e o documento 4 {status}",
        facts={
            "total": Fact(len(together), "documents"),
            "finished": Fact(finished, "documents"),
            "finished_apart": Fact(finished_apart, "documents"),
            "status": Fact(apart[3]),
        },
    )


@lesson.scenario("commit_after_error", core=False)
def commit_after_error(play: Play) -> Observed:
    commit, finished = play["a_commits"], len(play["c_reads"].rows)
    return Observed(
        (commit.outcome, commit.command, finished) == ("done", "ROLLBACK", 0),
        "error of COMMIT: {sqlstate}, and the server answers {answer}; finished: {finished}",
        "erro do COMMIT: {sqlstate}, e o servidor responde {answer}; concluídos: {finished}",
        facts={
            "sqlstate": Fact(commit.sqlstate),
            "answer": Fact(commit.command),
            "finished": Fact(finished, "documents"),
        },
    )


@lesson.experiment(
    "commit_says",
    "The driver's commit() after a swallowed error raises nothing either; only the command tag of COMMIT says ROLLBACK.",
    "O commit() do driver depois de um erro engolido também não acusa nada; só a resposta ao COMMIT diz ROLLBACK.",
    core=False,
)
def commit_says(stage: Stage) -> Observed:
    stage.build(8)
    with stage.connection() as watch, stage.connection("lab/worker") as worker:
        document = worker.execute("SELECT documento_id, token_reserva FROM reservar('worker-a')").fetchone()
        worker.autocommit = False
        worker.execute("SELECT concluir(%s, %s)", document)
        _swallow(worker)
        worker.commit()
        worker.execute("SELECT concluir(%s, %s)", document)
        _swallow(worker)
        tag = worker.execute("COMMIT").statusmessage
        row = watch.execute("SELECT count(*) FROM fila_documentos WHERE status = 'concluido'").fetchone()
    assert row
    return Observed(
        tag == "ROLLBACK" and row[0] == 0,
        "commit() raised nothing; the tag of COMMIT: {answer}; finished: {finished}",
        "commit() não acusou nada; resposta ao COMMIT: {answer}; concluídos: {finished}",
        facts={"answer": Fact(tag), "finished": Fact(row[0], "documents")},
    )


def _claimed(connection: psycopg.Connection) -> tuple[int, int]:
    """The next document that is due, and its token."""
    claim: tuple[int, int] | None = connection.execute(
        "SELECT documento_id, token_reserva FROM reservar('worker-a')"
    ).fetchone()
    assert claim
    return claim


def _failed(connection: psycopg.Connection, document: tuple[int, int], error: Exception) -> tuple[str, str]:
    """Fail the attempt with that error: its category, and the state that the document is left in."""
    failure = classify(error)
    row = connection.execute(
        "SELECT status FROM falhar(%s, %s, %s, %s)", [*document, failure.category, failure.reason]
    ).fetchone()
    assert row
    return failure.category, row[0]


def _finished_with_an_entry(
    connection: psycopg.Connection, document: tuple[int, int], entry: tuple[int, str]
) -> psycopg.Error | None:
    """The error of a transaction that finishes the document and makes the entry of its business, None if both are kept."""
    try:
        with connection.transaction():
            connection.execute("SELECT concluir(%s, %s)", document)
            connection.execute("INSERT INTO lancamentos (conta, valor) VALUES (%s, %s)", entry)
    except psycopg.Error as error:
        return error
    return None


def _deadlock(stage: Stage) -> dict[int, psycopg.Error | None]:
    """Documents 1 and 2 lock the same two rows in opposite orders: the error of the one that loses, None of the other."""
    both_hold = Barrier(2)

    def work(first: int, second: int) -> psycopg.Error | None:
        try:
            with stage.connection(f"lab/worker-{first}") as connection, connection.transaction():
                connection.execute("UPDATE saldos SET saldo = saldo + 1 WHERE conta = %s", [first])
                both_hold.wait(10)
                connection.execute("UPDATE saldos SET saldo = saldo + 1 WHERE conta = %s", [second])
        except psycopg.Error as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(work, 1, 2), pool.submit(work, 2, 1)
    return {1: one.result(), 2: other.result()}


def _lost_connection(stage: Stage) -> psycopg.Error | None:
    """The error of a worker whose connection is cut."""
    with stage.connection() as operator, stage.connection("lab/worker") as worker:
        operator.execute("SELECT pg_terminate_backend(%s, 5000)", [worker.info.backend_pid])
        return _error(worker, "SELECT 1")


def _timeout(connection: psycopg.Connection) -> psycopg.Error | None:
    """The error of a statement that takes longer than it may."""
    connection.execute("SET statement_timeout = '20ms'")
    error = _error(connection, "SELECT pg_sleep(10)")
    connection.execute("RESET statement_timeout")
    return error


def _content(connection: psycopg.Connection) -> psycopg.Error | None:
    """The error of the work on document 5, whose value is no number."""
    return _error(connection, VALUE, 5)


def _error(connection: psycopg.Connection, statement: str, *values: object) -> psycopg.Error | None:
    try:
        connection.execute(statement.encode(), values or None)
    except psycopg.Error as error:
        return error
    return None


def _swallow(connection: psycopg.Connection) -> None:
    """What code does that catches an error and goes on."""
    _error(connection, "INSERT INTO diario (documento_id) VALUES (1)")


def _choice(connection: psycopg.Connection) -> str:
    """The query by which `reservar` chooses one document, out of the function itself."""
    row = connection.execute("SELECT prosrc FROM pg_proc WHERE oid = 'reservar'::regproc").fetchone()
    assert row
    # The first of its two: any tenant's.
    choice, end = row[0].partition("FROM (")[2].partition("LIMIT p_lote")[:2]
    assert end
    return f"{choice}LIMIT 1"


def _buffers(connection: psycopg.Connection, statement: str) -> int:
    """The buffers a claim's choice touches once the table has been looked at, and with everything warm."""
    wait_for_older_transactions(connection)  # an index built before they end is not used
    connection.execute("VACUUM ANALYZE fila_documentos")
    touched(connection, statement)
    return touched(connection, statement)


def _leaky_reasons(connection: psycopg.Connection) -> list[str]:
    """Reasons as careless workers hand them over: what servers and drivers say, each with the canary in it."""
    long_line = f"<nfe><emitente>{f'{CANARY} ' * 20}</nfe>"
    malformed = _error(connection, "SELECT xmlparse(DOCUMENT %s)", long_line)
    entity = _error(connection, "SELECT xmlparse(DOCUMENT %s)", f"<nfe>\n<valor>&{CANARY};</valor>\n</nfe>")
    number = _error(connection, "SELECT %s::TEXT::NUMERIC", CANARY)
    assert malformed and entity and number
    return [
        malformed.diag.message_detail or "",
        f"{malformed}\nDETAIL: {malformed.diag.message_detail}",
        entity.diag.message_detail or "",
        str(number),
        f"connection to postgresql://app:{CANARY}@receptor:5432/fila failed",
        f"connection failed: host=receptor password='{CANARY} 2026' user=app",
        f"HTTP 401, Authorization: Bearer {CANARY}",
    ]


def _rounds(stage: Stage, number: int, *, retry_all: bool) -> tuple[int, int]:
    """Let one worker take a document so many times, where document 1 is broken: attempts of document 1, and how many finished."""
    story = find_scenario("08_one_retry")
    retry = story.step("a_retries").sql
    stage.build(story.state if retry_all else 8)
    with stage.connection() as worker:
        for statement in story.setup:
            worker.execute(statement.encode())
        for _ in range(number):
            claimed = worker.execute("SELECT documento_id, token_reserva FROM reservar('worker-a')").fetchone()
            if claimed is None:
                break
            document, token = claimed
            error = _error(worker, VALUE, document)
            if error is None:
                worker.execute("SELECT concluir(%s, %s)", claimed)
            elif retry_all:
                worker.execute(retry.replace("token_reserva = 1", f"token_reserva = {token}").encode())
            else:
                failure = classify(error)
                worker.execute("SELECT falhar(%s, %s, %s, %s)", [document, token, failure.category, failure.reason])
        row = worker.execute(
            "SELECT max(tentativas) FILTER (WHERE documento_id = 1), count(*) FILTER (WHERE status = 'concluido')"
            " FROM fila_documentos"
        ).fetchone()
    assert row
    return row[0], row[1]


def _crowd(stage: Stage, *, overloaded: bool, retry_all: bool) -> Counter[str]:
    """Let workers post documents at once, round after round, to one balance: how many attempts failed, by category ("" for all).

    All but one of the first documents are broken; or none is, and the database is overloaded: a transaction holds the balance for
    longer than the others wait for a lock.
    """
    retry = find_scenario("08_one_retry").step("a_retries").sql
    stage.build(8)
    with ExitStack() as last:
        workers = [last.enter_context(stage.connection(f"lab/worker-{number}")) for number in range(WORKERS)]
        watch = workers[0]
        watch.execute("CREATE TABLE saldos AS SELECT 1 AS conta, 0::NUMERIC AS saldo")
        watch.execute(
            "SELECT enfileirar('LOTE-' || n, 'lote.xml', '<nfe><valor>1.00</valor></nfe>') FROM generate_series(5, %s) AS n",
            [WORKERS * ROUNDS],
        )
        if not overloaded:
            watch.execute(
                "UPDATE fila_documentos SET conteudo_xml = '<nfe><valor>abc</valor></nfe>' WHERE documento_id < %s",
                [WORKERS],
            )
        pool = last.enter_context(ThreadPoolExecutor(WORKERS))
        for _ in range(ROUNDS):
            claims = [_claimed(worker) for worker in workers]
            all_tried = Barrier(WORKERS) if overloaded else None
            documents = [document for document, _ in claims]
            errors = list(pool.map(_post_to_balance, workers, documents, [all_tried] * WORKERS))
            for claim, error in zip(claims, errors, strict=True):
                if error is None:
                    watch.execute("SELECT concluir(%s, %s)", claim)
                elif retry_all:
                    document, token = claim
                    one = f"documento_id = {document} AND token_reserva = {token}"
                    watch.execute(retry.replace("documento_id = 1 AND token_reserva = 1", one).encode())
                else:
                    _failed(watch, claim, error)
        if retry_all:
            counted = "SELECT '', sum(tentativas) - count(*) FILTER (WHERE status = 'concluido') FROM fila_documentos"
        else:
            counted = (
                "SELECT split_part(por_que, ' ', 2), count(*) FROM auditoria WHERE por_que LIKE 'falha %' GROUP BY 1"
            )
        return Counter(dict(watch.execute(counted.encode()).fetchall()))


def _post_to_balance(worker: psycopg.Connection, document: int, all_tried: Barrier | None) -> psycopg.Error | None:
    """Add the document's value to the balance: the error, None if it went well. The one that has it keeps it until all have tried."""
    error = None
    worker.execute("SET lock_timeout = '300ms'")
    try:
        with worker.transaction():
            worker.execute(
                "UPDATE saldos SET saldo = saldo + (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC"
                " FROM fila_documentos WHERE documento_id = %s",
                [document],
            )
            if all_tried:
                all_tried.wait(10)
    except psycopg.Error as refusal:
        error = refusal
        if all_tried:
            all_tried.wait(10)
    worker.execute("RESET lock_timeout")
    return error


def _handed_out(stage: Stage, crashes: int, *, at_claim: bool) -> int:
    """How often the one document is handed out in so many rounds, each of which kills the worker that gets it."""
    story = find_scenario("08_counted_at_report")
    claim, recover = story.step("a_claims").sql, story.step("c_recovers").sql
    if at_claim:
        claim, recover = "SELECT documento_id FROM reservar('worker-a')", "SELECT documento_id FROM recuperar('vigia')"
    stage.build(story.state)
    handed = 0
    with stage.connection() as watch:
        watch.execute("DELETE FROM fila_documentos WHERE documento_id > 1")
        for _ in range(crashes):
            with stage.connection("lab/worker") as worker:
                handed += len(worker.execute(claim.encode()).fetchall())
                watch.execute("SELECT pg_terminate_backend(%s, 5000)", [worker.info.backend_pid])
            watch.execute(LATER)
            watch.execute(recover.encode())
            watch.execute(LATER)
    return handed
