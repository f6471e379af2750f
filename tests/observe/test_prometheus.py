"""The metrics, collected by a real Prometheus from a running server. Its binaries come with Debian's ``prometheus``."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.server_process import PATIENCE_S, Process

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "metrics.md"
#: Gauges that are called like counters: the contract names them so.
CALLED_TOTAL = {
    "scheduler_jobs_running_total",
    "scheduler_jobs_in_queue_total",
    "scheduler_jobs_paused_total",
}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def documented() -> dict[str, tuple[str, set[str]]]:
    """Every metric of the reference: its kind and its labels."""
    rows = re.findall(r"^\| `(scheduler_\w+)` \| (\w+) \| ([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def blocks(page: str) -> list[str]:
    """What the reference shows as YAML."""
    return re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Prometheus with the configuration that the reference shows, pointed at a server; gives its address."""
    assert PROMETHEUS is not None
    [shown] = [block for block in blocks(PAGE.read_text()) if "scrape_configs" in block]
    config = yaml.safe_load(shown)
    config["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def asked(url: str) -> Any:
    """What Prometheus answers; None while it is not there, or not ready."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == 503, error.read()
        return None
    except (urllib.error.URLError, ConnectionError):
        return None


def until(url: str, found: Any) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while not ((answer := asked(url)) and found(answer)):
        assert time.monotonic() < end_s, (url, answer)
        time.sleep(0.1)
    return answer


def busy_server(folder: Path) -> Process:
    """A server to which everything happened that is counted: it was down for a while, too."""
    every = {"schedule": {"every": "500ms"}, "recovery": {"strategy": "last", "after": "500ms"}}
    with Process(folder, (), {}).ready() as first:
        first.post("/api/v1/jobs", {"name": "works", "command": {"argv": ["true"]}, **every})
        first.post("/api/v1/jobs", {"name": "fails", "command": {"argv": ["false"]}, **every, "namespace": "other"})
        first.until("/api/v1/executions", lambda page: len(page["items"]) > 1)
    time.sleep(1.5)  # longer than ``after``: what was due meanwhile was missed
    return Process(folder, (), {}).ready()


@pytest.mark.slow
@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian: apt install prometheus)")
def test_prometheus_takes_in_every_metric(tmp_path: Path) -> None:
    with busy_server(tmp_path) as server, prometheus(tmp_path, urllib.parse.urlsplit(server.url).netloc) as url:
        until(f"{url}/targets", lambda data: [one["health"] for one in data["activeTargets"]] == ["up"])
        kinds = until(f"{url}/metadata", lambda data: documented().keys() <= data.keys())
        for name, (kind, labels) in documented().items():
            [said] = kinds[name]
            assert (said["type"], bool(said["help"])) == (kind, True), name
            for part in HISTOGRAM_PARTS if kind == "histogram" else ("",):
                found = until(f"{url}/query?query={name}{part}", lambda data: data["result"])["result"]
                for series in found:
                    own = series["metric"].keys() - {"__name__", "instance", "le"}
                    assert own - {"job"} == labels - {"job"}, series
                    if "job" in labels:
                        assert series["metric"]["job"] in ("works", "other/fails"), series
        query = urllib.parse.quote('scheduler_job_occurrences_total{job="other/fails",status="failed"}')
        [failed] = until(f"{url}/query?query={query}", lambda data: data["result"])["result"]
        assert float(failed["value"][1]) >= 1


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_promtool_finds_nothing_but_names_that_are_agreed(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    with busy_server(tmp_path) as server:
        status, text = server.get("/metrics")
    assert status == 200
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    complaints = {tuple(line.split(" ", 1)) for line in checked.stderr.splitlines()}
    assert complaints == {(name, 'non-counter metrics should not have "_total" suffix') for name in CALLED_TOTAL}


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_the_alerts_of_the_reference_are_rules(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    [rules] = [yaml.safe_load(block) for block in blocks(PAGE.read_text()) if "alert:" in block]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "chronos", "rules": rules}]}))
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout
