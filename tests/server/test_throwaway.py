"""A server to crash: the lab's own beside the one in use, gone with its folder."""

from __future__ import annotations

import pytest

from lab.base.errors import ServerError
from lab.server import postmaster, throwaway
from lab.server.target import Target
from tests.helpers import fetch


def test_a_scratch_server_is_gone_with_its_folder(own_server: Target) -> None:
    with throwaway.scratch_server(wal_writer_delay="10s") as server:
        main = postmaster.find(server.data)
        assert main
        assert fetch(server.conninfo(), "SHOW wal_writer_delay") == [("10s",)]
        throwaway.crash(server)
        assert not server.running()
        with pytest.raises(ServerError, match="no server to crash"):
            throwaway.crash(server)
        server.up()
        folder = server.base.parent
    assert not folder.exists()
    assert not server.running()
