"""The container for those who prefer one: a valid file, closed to other machines, leaving nothing behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml

from lab.base.paths import ROOT

FILE = ROOT / "docker-compose.yml"
COURSE_VERSION = "16.14"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]
    assert isinstance(services, dict)
    return services


def test_the_file_follows_the_compose_specification() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docker_compose_takes_the_file() -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed here")
    # The profile too, which would not be looked at otherwise.
    config = [docker, "compose", "--file", str(FILE), "--profile", "notebook", "config", "--quiet"]
    done = subprocess.run(config, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_server_is_of_the_courses_version(services: dict[str, Any]) -> None:
    assert services["postgres"]["image"] == f"postgres:{COURSE_VERSION}"


def test_every_port_is_closed_to_other_machines(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service["ports"]]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_servers_data_is_gone_with_its_container(services: dict[str, Any]) -> None:
    assert list(yaml.safe_load(FILE.read_text(encoding="utf-8"))["volumes"]) == ["notebooks"]  # the reader's copies
    assert "volumes" not in services["postgres"]
    assert [mount.split(":")[0] for mount in services["postgres"]["tmpfs"]] == ["/var/lib/postgresql/data"]


def test_health_is_asked_over_tcp(services: dict[str, Any]) -> None:
    # The image prepares its data with a server that listens on the socket only.
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert "--host=127.0.0.1" in services["postgres"]["healthcheck"]["test"]


def test_no_password_is_committed(services: dict[str, Any]) -> None:
    assert not [name for service in services.values() for name in service["environment"] if "PASSWORD" in name]


def test_the_notebook_uses_the_server_of_the_same_file(services: dict[str, Any]) -> None:
    dsn = dict(word.split("=") for word in services["notebook"]["environment"]["LAB_DSN"].split())
    assert dsn["host"] in services["notebook"]["depends_on"]
    assert dsn["dbname"] == services["postgres"]["environment"]["POSTGRES_DB"]
