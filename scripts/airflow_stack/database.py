"""The database of a stack: a file, or a PostgreSQL server of its own in a temporary folder."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import MetaData, create_engine, select

from scripts.airflow_stack.errors import StackError
from scripts.airflow_stack.keeper import Keeper
from scripts.airflow_stack.settings import StackSettings, clean_environment, find_free_port

__all__ = ["dump_tables", "open_database"]


@contextmanager
def open_database(settings: StackSettings, keeper: Keeper) -> Iterator[str]:
    """Yield the SQLAlchemy address of the stack's database; a PostgreSQL server's folder is removed at the end."""
    if settings.database == "sqlite":
        yield f"sqlite:///{settings.home / 'airflow.db'}"
        return
    # not below the home: the server may not run as root, and another user can't enter a private folder
    folder = Path(tempfile.mkdtemp(prefix="airflow-postgres-", dir="/tmp"))
    try:
        yield _start_postgres(settings, keeper, folder)
    finally:
        keeper.stop()
        if not keeper.kept:
            shutil.rmtree(folder, ignore_errors=True)


def _start_postgres(settings: StackSettings, keeper: Keeper, folder: Path) -> str:
    programs = _find_programs()
    owner = _owner()
    password = secrets.token_hex(16)
    data, secret, port = folder / "data", folder / "password", find_free_port()
    secret.touch(mode=0o600)
    secret.write_text(password, encoding="utf-8")
    if owner:
        for path in (folder, secret):
            os.chown(path, owner["user"], owner["group"])
    subprocess.run(
        [str(programs / "initdb"), "-D", str(data), "-U", "airflow", "-A", "scram-sha-256", "--pwfile", str(secret),
         "-E", "UTF8", "--locale=C", "--no-sync"],
        check=True, cwd=folder, env=clean_environment(), capture_output=True, extra_groups=[] if owner else None,
        user=owner.get("user"), group=owner.get("group"),
    )  # fmt: skip
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "max_connections": "200"}
    argv = [str(programs / "postgres"), "-D", str(data), "-p", str(port)]
    argv += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    log, place = settings.home / "components" / "postgres.log", {"cwd": str(folder), "remove": str(folder)}
    keeper.start("postgres", argv, clean_environment(), log=log, stop_signal=signal.SIGINT, **owner, **place)
    subprocess.run(
        ["timeout", "30", "bash", "-c", f"until {programs}/pg_isready -q -h 127.0.0.1 -p {port}; do sleep 0.1; done"],
        check=True, env=clean_environment(),
    )  # fmt: skip
    return f"postgresql+psycopg2://airflow:{password}@127.0.0.1:{port}/postgres"


def _find_programs() -> Path:
    """Return the folder of the newest installed server's programs; Debian keeps them off PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(re.sub(r"\D", "", str(path))))
    if found:
        return found[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    raise StackError("no PostgreSQL server is installed; on Debian: apt-get install postgresql")


def _owner() -> dict[str, int]:
    """Return the user to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


def dump_tables(address: str) -> str:
    """Return every row of every table as text, one row a line: `table: {column: value}`."""
    engine = create_engine(address)
    metadata = MetaData()
    lines: list[str] = []
    try:
        metadata.reflect(engine)
        with engine.connect() as connection:
            for table in metadata.sorted_tables:
                lines += [f"{table.name}: {dict(row)}" for row in connection.execute(select(table)).mappings()]
    finally:
        engine.dispose()
    return "\n".join(lines)
