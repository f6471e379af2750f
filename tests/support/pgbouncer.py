"""A real PgBouncer in front of a PostgreSQL server of the tests."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.programs import find_program
from tests.support.server_process import free_port


@contextmanager
def pooled(url: str, pool_mode: str, *, database: str = "", **settings: object) -> Iterator[str]:
    """The URL of the same database behind PgBouncer, which stops at the end. ``database`` has settings of its own."""
    upstream = urlsplit(url)
    socket_folder = parse_qs(upstream.query)["host"][0]
    port = free_port()
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "pool_mode": pool_mode,
        "log_connections": 0,
        "log_disconnections": 0,
        **settings,
    }
    with tempfile.TemporaryDirectory(prefix="chronos-test-") as folder:
        users = Path(folder, "users.txt")
        users.write_text('"postgres" ""\n')
        config = Path(folder, "pgbouncer.ini")
        text = "".join(f"{name} = {value}\n" for name, value in (lines | {"auth_file": users}).items())
        config.write_text(f"[databases]\n* = host={socket_folder} {database}\n[pgbouncer]\n{text}")
        Path(folder).chmod(0o755)
        # PgBouncer refuses to run as root, and the socket is in a folder of the server's user.
        user = ["-u", Path(socket_folder).owner()] if os.geteuid() == 0 else []
        program = find_program("pgbouncer")
        assert program is not None
        process = subprocess.Popen([program, *user, str(config)], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            started = next((line for line in process.stderr if "process up" in line or "FATAL" in line), "")
            assert "process up" in started, started
            yield f"postgresql://postgres@127.0.0.1:{port}{upstream.path}"
        finally:
            process.terminate()
            process.communicate()
