"""A whole worker for the queue that `./lab protocol` installs: copy it, put your call in place of `call`, and run as many as you need.

    python worker.py postgresql://worker@db.example/app http://receiver.example/

The receiver of this one knows no keys and cannot be asked. So where it is not known whether a call was executed, people decide.
"""

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from datetime import timedelta

import psycopg
from psycopg.rows import namedtuple_row

LEASE = float(os.environ.get("LEASE", "30"))  # seconds; a call gets a little less
NAME = f"worker-{os.getpid()}"


class Rejected(Exception):
    """The receiver says that it executed nothing, and never will."""


def call(url: str, content: str) -> str:
    """What cannot be undone: the receiver's reference. Raises Rejected; after any other error nothing is known."""
    try:
        with urllib.request.urlopen(url, content.encode(), timeout=LEASE * 0.8) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        if error.code in (400, 413, 415, 422):
            raise Rejected(f"HTTP {error.code}") from error
        raise


def work(database: str, url: str) -> None:
    """Claim one document after the other until SIGTERM."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    queue = psycopg.connect(database, autocommit=True, row_factory=namedtuple_row)  # each call is a transaction
    queue.execute("SET synchronous_commit = on")
    lease, recovered = timedelta(seconds=LEASE), 0.0

    def ask(function: str, *values: object):  # its first row, None if there is none
        marks = ", ".join(["%s"] * len(values))
        return queue.execute(f"SELECT * FROM fila.{function}({marks})", values).fetchone()

    while not stopping:
        if time.monotonic() - recovered > LEASE / 3:  # what dead workers held
            ask("recuperar", NAME)
            recovered = time.monotonic()
        claim = ask("reservar", NAME, 1, lease)
        if claim is None:
            time.sleep(0.2)
            continue
        owned = (claim.documento_id, claim.token_reserva)
        if claim.etapa in ("obtido", "confirmando"):  # an earlier attempt has the result
            ask("concluir", *owned, None, claim.inquilino)
        elif claim.etapa == "desconhecido":  # an earlier attempt may have called
            ask("conciliar", *owned, "an attempt may have called, and the receiver cannot be asked", claim.inquilino)
        # The stage comes before the call. No row: the document is another worker's, so there must be no call.
        elif ask("registrar_etapa", *owned, "desconhecido", None, claim.inquilino, lease, True):
            try:
                ask("concluir", *owned, call(url, claim.conteudo_xml), claim.inquilino)
            except Rejected as error:
                ask("registrar_etapa", *owned, "nao_chamado", None, claim.inquilino)
                ask("falhar", *owned, "conteudo", str(error), claim.inquilino)
            except OSError as error:  # the next attempt finds the stage, and asks people
                ask("falhar", *owned, "conexao", type(error).__name__, claim.inquilino)


if __name__ == "__main__":
    work(*sys.argv[1:])
