"""A server and ``chronos doctor`` behind PgBouncer, in session and in transaction mode."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pgbouncer import pooled
from tests.support.server_process import Process, free_port, run

pytestmark = pytest.mark.needs("pgbouncer")


def test_a_server_runs_jobs_through_a_pooler(tmp_path: Path, start: Callable[..., Process], postgres_url: str) -> None:
    ran = tmp_path / "ran"
    os.mkfifo(ran)
    with pooled(postgres_url, "session") as url:
        server = start("--store", url).ready()
        server.post(
            "/api/v1/jobs",
            {
                "name": "job",
                "schedule": "every second",
                "overlap": "skip",
                "command": {"argv": ["/bin/sh", "-c", f"echo ran > {ran}"]},
            },
        )
        assert ran.read_text() == "ran\n"  # waits for the command
        server.send(signal.SIGTERM)
        assert server.wait() == 0
        result = run(tmp_path, "doctor", "--store", url, CHRONOS_SERVER__LISTEN=f"127.0.0.1:{free_port()}")
        assert (result.returncode, result.stderr) == (0, "")
        assert "1 jobs" in result.stdout


def test_transaction_mode_says_which_setting_to_change(
    tmp_path: Path, start: Callable[..., Process], postgres_url: str
) -> None:
    advice = "is behind a pooler in transaction mode; set pool_mode = session for this database in the pooler, or use"
    with pooled(postgres_url, "transaction") as url:
        server = start("--store", url)
        assert server.wait() != 0
        assert advice in server.errors
        result = run(tmp_path, "doctor", "--store", url, CHRONOS_SERVER__LISTEN=f"127.0.0.1:{free_port()}")
        assert result.returncode == 1
        assert advice in result.stdout
