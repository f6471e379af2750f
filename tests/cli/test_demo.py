"""``chronos demo`` as a process: it invents its history, serves it, keeps it alive and leaves nothing behind."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.support.server_process import CHRONOS, PATIENCE_S, environment, free_port


def test_the_demo_serves_its_jobs_and_deletes_its_data(tmp_path: Path) -> None:
    (tmp_path / "chronos.yaml").write_text("this is: not a configuration\n")
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [CHRONOS, "demo", "--listen", address],
        cwd=tmp_path,
        env=environment(TMPDIR=str(tmp_path), CHRONOS_STORE="sqlite:///other.db"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Chronos")  # it is ready
            [folder] = tmp_path.glob("chronos-demo-*")
            with urllib.request.urlopen(f"http://{address}/api/v1/jobs?limit=100", timeout=PATIENCE_S) as reply:
                names = {job["name"] for job in json.load(reply)["items"]}
            assert {"nightly-etl", "payments-sync", "train-recommender"} <= names
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
            assert not folder.exists()
        finally:
            process.kill()
