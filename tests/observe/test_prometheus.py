"""A real Prometheus scrapes a running server. Its programs come with Debian's package ``prometheus``."""

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
#: Gauges with names of counters, as the specification requires.
GAUGES_NAMED_TOTAL = {
    "scheduler_jobs_running_total",
    "scheduler_jobs_in_queue_total",
    "scheduler_jobs_paused_total",
}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def read_documented_metrics() -> dict[str, tuple[str, set[str]]]:
    """Return kind and labels of every metric in the reference."""
    rows = re.findall(r"^\| `(scheduler_\w+)` \| (\w+) \| ([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def yaml_blocks(page: str) -> list[str]:
    """Return the YAML blocks of a page."""
    return re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Run Prometheus with the configuration of the reference against a server. Yields its API URL."""
    assert PROMETHEUS is not None
    [shown] = [block for block in yaml_blocks(PAGE.read_text()) if "scrape_configs" in block]
    config = yaml.safe_load(shown)
    config["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
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


def fetch(url: str) -> Any:
    """Return the data of a response; None while Prometheus is not ready."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            return json.load(response)["data"]
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == 503, error.read()
        return None
    except (urllib.error.URLError, ConnectionError):
        return None


def wait_for(url: str, is_ready: Any) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while not ((data := fetch(url)) and is_ready(data)):
        assert time.monotonic() < end_s, (url, data)
        time.sleep(0.1)
    return data


def busy_server(folder: Path) -> Process:
    """Start a server with successes, failures and missed runs."""
    every = {"schedule": {"every": "500ms"}, "recovery": {"strategy": "last", "after": "500ms"}}
    with Process(folder, (), {}).ready() as first:
        first.post("/api/v1/jobs", {"name": "works", "command": {"argv": ["true"]}, **every})
        first.post("/api/v1/jobs", {"name": "fails", "command": {"argv": ["false"]}, **every, "namespace": "other"})
        first.until("/api/v1/executions", lambda page: len(page["items"]) > 1)
    time.sleep(1.5)  # longer than ``after``, so that runs are missed
    return Process(folder, (), {}).ready()


@pytest.mark.slow
@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian: apt install prometheus)")
def test_prometheus_scrapes_every_documented_metric(tmp_path: Path) -> None:
    with busy_server(tmp_path) as server, prometheus(tmp_path, urllib.parse.urlsplit(server.url).netloc) as url:
        wait_for(f"{url}/targets", lambda data: [target["health"] for target in data["activeTargets"]] == ["up"])
        kinds = wait_for(f"{url}/metadata", lambda data: read_documented_metrics().keys() <= data.keys())
        for name, (kind, labels) in read_documented_metrics().items():
            [metadata] = kinds[name]
            assert (metadata["type"], bool(metadata["help"])) == (kind, True), name
            for part in HISTOGRAM_PARTS if kind == "histogram" else ("",):
                all_series = wait_for(f"{url}/query?query={name}{part}", lambda data: data["result"])["result"]
                for series in all_series:
                    own = series["metric"].keys() - {"__name__", "instance", "le"}
                    assert own - {"job"} == labels - {"job"}, series
                    if "job" in labels:
                        assert series["metric"]["job"] in ("works", "other/fails"), series
        query = urllib.parse.quote('scheduler_job_occurrences_total{job="other/fails",status="failed"}')
        [failed] = wait_for(f"{url}/query?query={query}", lambda data: data["result"])["result"]
        assert float(failed["value"][1]) >= 1


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_promtool_complains_only_about_required_names(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    with busy_server(tmp_path) as server:
        status, text = server.get("/metrics")
    assert status == 200
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    complaints = {tuple(line.split(" ", 1)) for line in checked.stderr.splitlines()}
    assert complaints == {(name, 'non-counter metrics should not have "_total" suffix') for name in GAUGES_NAMED_TOTAL}


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_the_documented_alerts_are_valid_rules(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    [rules] = [yaml.safe_load(block) for block in yaml_blocks(PAGE.read_text()) if "alert:" in block]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "chronos", "rules": rules}]}))
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout
