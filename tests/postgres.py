"""A PostgreSQL of our own, from Debian's package: it listens on a socket in a folder and is gone afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@contextmanager
def server() -> Iterator[str]:
    """The folder of a server that runs."""
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    folder = tempfile.mkdtemp(prefix="dmn4-pg-")
    if os.getuid() == 0:
        shutil.chown(folder, user)

    def run(program: str, *arguments: str) -> None:
        before = ["runuser", "-u", user, "--"] if os.getuid() == 0 else []
        subprocess.run([*before, str(PROGRAMS[-1].parent / program), *arguments], check=True,
                       stdout=subprocess.DEVNULL, cwd=folder)

    run("initdb", "-D", f"{folder}/data", "-U", "dmn4", "--auth=trust", "--no-sync")
    run("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o",
        f"-c listen_addresses='' -c unix_socket_directories={folder}", "start")
    try:
        yield folder
    finally:
        run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def database(folder: str, name: str) -> str:
    """The URL of a new database of this server."""
    import psycopg

    with psycopg.connect(f"host={folder} user=dmn4 dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql:///{name}?host={folder}&user=dmn4"
