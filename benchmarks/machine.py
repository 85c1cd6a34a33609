"""What it was measured on. Nothing that names the machine or its owner."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from benchmarks.bench import MYSQL_SETTINGS
from benchmarks.database import connect
from benchmarks.statistics import percentile
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres import PostgresServer

SYNCS = 50
VIRTUAL = ("vd", "xvd", "nbd", "loop")


OF_OUR_ENVIRONMENT = {"SQLAlchemy", "drivers", "other queues"}
PEERS = ("huey", "pgqueuer", "procrastinate", "saq")


def facts(folder: Path, server: PostgresServer | None, mysql: MysqlServer | None = None) -> dict[str, str]:
    """About this machine, about the disk that holds the folder, and about the servers if there are any."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gigabytes():.0f} GB",
        "system": f"{platform.system()} on {platform.machine()}",
        "disk": f"{_disk(folder)}; a 4 kB write with fsync takes {_sync_ms(folder):.2f} ms (median)",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "SQLAlchemy": version("sqlalchemy"),
        "Rowcall": f"{version('rowcall')}, {'with' if importlib.util.find_spec('uvloop') else 'without'} uvloop",
        **(_postgres_facts(server) if server is not None else {}),
        **(_mysql_facts(mysql) if mysql is not None else {}),
        "other queues": ", ".join(f"{name} {version(name)}" for name in PEERS if importlib.util.find_spec(name)),
    }


def field_facts(folder: Path, server: PostgresServer | None) -> dict[str, str]:
    """The same for `make bench-field`, where each queue has its own environment."""
    redis = shutil.which("redis-server")
    version_line = (
        subprocess.run([redis, "--version"], capture_output=True, text=True, check=True).stdout if redis else ""
    )
    return {
        **{name: fact for name, fact in facts(folder, server).items() if name not in OF_OUR_ENVIRONMENT},
        "Rowcall": f"{version('rowcall')}, without uvloop",
        **({"Redis": version_line.partition("v=")[2].split()[0]} if redis else {}),
    }


def _postgres_facts(server: PostgresServer) -> dict[str, str]:
    with closing(connect(server.url())) as database:
        ((server_version,),) = database.rows("show server_version")
        changed = database.rows(
            "select name, setting from pg_settings where source = 'command line' and setting <> boot_val order by name"
        )
    private = {"config_file", "data_directory", "hba_file", "ident_file", "listen_addresses", "port"}
    settings = [f"{name}={value}" for name, value in changed if name not in private | {"unix_socket_directories"}]
    return {
        "PostgreSQL": f"{server_version}, {', '.join(settings) or 'no setting changed'}, over TCP on the same machine",
        "drivers": f"psycopg {version('psycopg')}; asyncpg {version('asyncpg')} for PgQueuer, and for connection=",
    }


def _mysql_facts(server: MysqlServer) -> dict[str, str]:
    with closing(connect(server.url())) as database:
        ((server_version,),) = database.rows("select version()")
    settings = ", ".join(f"{name}={value}" for name, value in MYSQL_SETTINGS.items())
    return {"MariaDB": f"{server_version}, {settings}, over TCP on the same machine"}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gigabytes() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9


def _disk(folder: Path) -> str:
    """The file system, and whether the disk below it turns."""
    file_system, device = _mount(folder)
    name = Path(device).name
    if name.startswith(VIRTUAL):  # these say that they turn, whatever lies below them
        return f"{file_system} on a virtual disk"
    block = Path(f"/sys/class/block/{name}").resolve()
    flags = [device / "queue" / "rotational" for device in (block, block.parent)]
    turning = [flag.read_text().strip() == "1" for flag in flags if flag.exists()]
    if not turning:
        return file_system
    return f"{file_system} on a {'turning' if turning[0] else 'solid-state'} disk"


def _mount(folder: Path) -> tuple[str, str]:
    """The type and the device of the file system that holds a folder."""
    mounts, real = Path("/proc/mounts"), folder.resolve()
    if not mounts.exists():
        return "unknown file system", ""
    mounted = ("", "unknown file system", "")
    for line in mounts.read_text().splitlines():
        device, path, kind = line.split()[:3]
        if real.is_relative_to(path) and len(path) >= len(mounted[0]):
            mounted = (path, kind, device)
    return mounted[1], mounted[2]


def _sync_ms(folder: Path) -> float:
    """What it costs to have a little on disk: the least price of a durable commit."""
    path = folder / "sync-probe"
    millis = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            millis.append((time.perf_counter() - began) * 1000)
    path.unlink()
    return percentile(millis, 50)
