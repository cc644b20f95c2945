"""What a stack is started with, and the environment its components get."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["StackSettings", "clean_environment", "find_free_port"]

_DROPPED_PREFIXES = ("AIRFLOW", "SIFLOW_", "RAY_", "PYTEST_", "COVERAGE_", "_AIRFLOW", "PYTHONDONTWRITEBYTECODE")
"""The last one because an Airflow that compiles itself at each start takes much longer to come up."""


def find_free_port() -> int:
    """Return a port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would steer Airflow, this interpreter's programs first on PATH."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    env["PYTHONUNBUFFERED"] = "1"
    return env


@dataclass
class StackSettings:
    """One stack: where it lives and what differs from another.

    Attributes:
        home: its AIRFLOW_HOME; logs, the sqlite database and the login stay in it between two starts.
        dags: the DAGs folder; default `home/dags`.
        database: `sqlite`, or `postgres` for a server of its own in a temporary folder.
        triggerers: how many.
        late_triggerers: start them when the rest is up, and don't wait for them: a task needs one only when it defers.
        parallelism: tasks that may run at once.
        env: more environment for every component; wins over what this module sets.
    """

    home: Path
    dags: Path | None = None
    database: str = "sqlite"
    triggerers: int = 1
    late_triggerers: bool = False
    parallelism: int = 8
    env: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=find_free_port)

    def __post_init__(self) -> None:
        self.dags = self.dags or self.home / "dags"

    @property
    def url(self) -> str:
        """Where the UI and the REST API are."""
        return f"http://127.0.0.1:{self.port}"

    def login(self) -> tuple[str, str]:
        """Return user name and password of the one user, made at the first call and kept in the home."""
        path = self.home / "passwords.json"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(json.dumps({"admin": secrets.token_urlsafe(12)}), encoding="utf-8")
        return "admin", json.loads(path.read_text(encoding="utf-8"))["admin"]

    def environment(self, sql_alchemy_conn: str) -> dict[str, str]:
        """Return the whole environment of a component.

        The execution API's address must be given with the port: else every task fails at once, without a log.
        """
        self.login()
        options = {
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAG_DISCOVERY_SAFE_MODE": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(self.parallelism),
            "CORE__MAX_ACTIVE_TASKS_PER_DAG": str(max(self.parallelism, 16)),
            "CORE__FERNET_KEY": self._kept_key(
                "fernet.key", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            ),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": sql_alchemy_conn,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": secrets.token_hex(32),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "1",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(find_free_port()),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(find_free_port()),
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        env = clean_environment()
        env |= {f"AIRFLOW__{name}": value for name, value in options.items()}
        env["AIRFLOW_HOME"] = str(self.home)
        env["SIFLOW_LOCAL_STATE_DIR"] = str(self.home / "siflow")
        env["AIRFLOW_CONN_SIFLOW_DEFAULT"] = json.dumps({"conn_type": "siflow", "extra": {"backend": "local"}})
        return env | self.env

    def _kept_key(self, name: str, fresh: str) -> str:
        """Return the key stored in the home: what one start encrypted the next one must read."""
        path = self.home / name
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(fresh, encoding="utf-8")
        return path.read_text(encoding="utf-8")
