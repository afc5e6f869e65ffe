"""What a worker says of its work."""

from __future__ import annotations

import json

from lab.drills.harness import Harness
from lab.drills.process import Child
from tests.helpers import execute
from tests.worker.pretended import CANARY


def test_a_password_and_a_payload_stand_in_no_line(harness: Harness) -> None:
    execute(harness.conninfo, f"SELECT sql_semana_12.enfileirar('C', 'c.xml', '<nfe><valor>{CANARY}</valor></nfe>')")
    secret = Child(
        "worker",
        "--until-empty",
        "--receiver",
        harness.url,
        environment={"LAB_DSN": f"{harness.conninfo} password={CANARY}"},
    )
    secret.drain()
    secret.close()
    assert [event["event"] for event in secret.events].count("finished") == 4
    assert CANARY not in json.dumps(secret.events)
