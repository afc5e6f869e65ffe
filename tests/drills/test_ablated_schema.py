"""The copies of the protocol: each lacks one defence only."""

from __future__ import annotations

import pytest

from lab.base.errors import LabError
from lab.drills.ablated_schema import without
from lab.server import schema
from lab.server.target import Target
from tests.helpers import execute, fetch

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sql_semana_12%' ORDER BY 1"


CHANGED = {
    "reserva": {"recuperar"},
    "token": {"travar", "concluir_lote", "renovar_lote"},
    "linhas": {"registrar_etapa"},
    "etapa": {"mudar"},
}


@pytest.mark.parametrize("defence", CHANGED)
def test_a_copy_is_marked_and_dropped_and_leaves_the_protocol_alone(database: str, defence: str) -> None:
    schema.build(database, 9)
    bodies = "SELECT proname, md5(replace(prosrc, '{0}', '')) FROM pg_proc WHERE pronamespace = '{0}'::regnamespace ORDER BY 1"
    whole = fetch(database, bodies.format("sql_semana_12"))
    with without(database, defence) as name:
        assert fetch(database, SCHEMAS) == [("sql_semana_12",), (name,)]
        assert fetch(database, f"SELECT obj_description('{name}'::regnamespace)") == [("queue lab, state 09",)]
        copy = fetch(database, bodies.format(name))
        different = {name for name, body in copy if (name, body) not in whole}
        assert different == CHANGED[defence]
        assert fetch(database, bodies.format("sql_semana_12")) == whole
        settings = fetch(
            database, f"SELECT DISTINCT proconfig FROM pg_proc WHERE pronamespace = '{name}'::regnamespace"
        )
        assert settings == [(["search_path=pg_catalog, pg_temp"],)]
    assert fetch(database, SCHEMAS) == [("sql_semana_12",)]


def test_a_schema_of_that_name_without_the_labs_mark_stays(own_server: Target, database: str) -> None:
    execute(database, "CREATE SCHEMA sql_semana_12_sem_token; CREATE TABLE sql_semana_12_sem_token.minha ()")
    with pytest.raises(LabError, match="that this lab did not make"), without(database, "token"):
        pass
    assert fetch(database, "SELECT to_regclass('sql_semana_12_sem_token.minha') IS NOT NULL") == [(True,)]
