"""Refused logins and denied requests, seen from outside: the log, the metrics, the audit log."""

import base64

from tests.support.e2e_server import V1, Client


def test_a_failed_login_is_logged_counted_and_audited(api: Client) -> None:
    wrong = Client(api.process, "Basic " + base64.b64encode(b"mallory:guess").decode())
    assert wrong.call("GET", f"{V1}/jobs").status == 401
    api.create("nightly")
    token = api.post("/tokens", {"name": "viewer", "role": "viewer"}, 201)["token"]
    viewer = Client(api.process, f"Bearer {token}")
    for _ in range(2):
        assert viewer.call("POST", f"{V1}/jobs/nightly/trigger").status == 403
    found = api.until("/audit", lambda page: {"failed login", "denied"} <= {one["action"] for one in page["items"]})
    entries = {one["action"]: one for one in found["items"]}
    assert (entries["failed login"]["subject"], entries["failed login"]["origin"]) == ("mallory", "127.0.0.1")
    assert (entries["denied"]["actor"], entries["denied"]["subject"]) == (
        "token:viewer",
        "POST /api/v1/jobs/nightly/trigger",
    )
    metrics = api.call("GET", "/metrics").body.decode()
    assert 'scheduler_auth_failures_total{reason="password"} 1.0' in metrics
    assert 'scheduler_auth_failures_total{reason="forbidden"} 2.0' in metrics
    lines = [line for line in api.process.errors.splitlines() if "mallory" in line]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert "warning" in lines[0]
    assert "guess" not in api.process.errors
