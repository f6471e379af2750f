"""The web UI in a real Chromium: every page, both themes, four widths, keyboard, live updates, sign-in."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.support.api_server import SECRET

pytestmark = pytest.mark.browser
AXE = Path(__file__).parent.parent / "support" / "vendor" / "axe.min.js"
WIDTHS = (1440, 768, 390, 360)
_WATCH_POLICY = "addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective));"


def _call(url: str, method: str = "GET", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as response:
        return json.load(response)


@contextmanager
def _visit(browser: Any, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """Open a page; yields it and the list of its faults: console errors, policy violations, foreign requests."""
    context = browser.new_context(**options)
    context.add_init_script(_WATCH_POLICY)
    page = context.new_page()
    page.set_default_timeout(30_000)
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda request: faults.append(request.url) if urlsplit(request.url).hostname != "127.0.0.1" else None,
    )
    try:
        yield page, faults
    finally:
        context.close()


def _pages(url: str) -> dict[str, str]:
    """Return the addresses of every kind of page, with the data of the demo."""
    failed = _call(f"{url}/api/v1/jobs/nightly-etl/executions?status=failed&limit=1")["items"][0]["id"]
    skipped = _call(f"{url}/api/v1/executions?status=skipped&limit=1")["items"][0]["id"]
    return {
        "jobs": "/jobs",
        "failing": "/jobs?q=status:failing",
        "no match": "/jobs?q=nothing-like-this+status:x",
        "job": "/jobs/nightly-etl",
        "job runs": "/jobs/nightly-etl/runs",
        "versions": "/jobs/nightly-etl/versions",
        "definition": "/jobs/nightly-etl/definition",
        "why": "/jobs/nightly-etl/why?at=2026-11-08+02:17",
        "runs": "/runs",
        "failed run": f"/runs/{failed}",
        "skipped run": f"/runs/{skipped}",
        "dead letters": "/dead-letters",
        "cluster": "/cluster",
        "audit": "/audit",
        "missing": "/jobs/nothing",
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_clean(browser: Any, demo_url: str, theme: str, width: int) -> None:
    """No console error, no policy violation, no foreign request, no sideways scrolling, no axe violation."""
    found: list[str] = []
    with _visit(browser, viewport={"width": width, "height": 900}, color_scheme=theme) as (page, faults):
        for name, path in _pages(demo_url).items():
            page.goto(demo_url + path)
            found += [f"{name}: {fault}" for fault in faults if name != "missing"]
            faults.clear()
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                found.append(f"{name}: {wide} px too wide")
            page.evaluate(AXE.read_text())
            result = page.evaluate("axe.run({resultTypes: ['violations']})")
            found += [
                f"{name}: {one['id']}: {one['nodes'][0]['html'][:160]} ({len(one['nodes'])})"
                for one in result["violations"]
            ]
    assert not found, "\n".join(found)


def test_pages_work_without_javascript(browser: Any, demo_url: str) -> None:
    with _visit(browser, java_script_enabled=False) as (page, faults):
        page.goto(f"{demo_url}/")
        page.fill("#q", "nightly")
        page.click("form.filters button[type=submit]")
        page.click("text=nightly-etl")
        assert page.text_content("h1") == "nightly-etl"
        page.click("text=View run")
        assert "Why this run failed" in page.content()
        page.click("nav.nav >> text=Runs")
        page.click("text=Skipped or missed")
        page.click("nav.nav >> text=Cluster")
        assert "node-a" in page.content()
        assert not faults


def test_the_keyboard_finds_a_failing_job_and_its_why(browser: Any, demo_url: str) -> None:
    with _visit(browser, viewport={"width": 1440, "height": 900}) as (page, faults):
        page.goto(f"{demo_url}/runs")
        page.keyboard.press("g")
        page.keyboard.press("j")
        page.wait_for_url("**/jobs")
        page.keyboard.press("/")
        page.keyboard.type("status:failing")
        page.keyboard.press("Enter")
        page.wait_for_url("**status*failing**")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == "nightly-etl"
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs/nightly-etl")
        page.keyboard.press("5")
        page.wait_for_url("**/jobs/nightly-etl/why")
        page.keyboard.press("w")
        assert page.evaluate("document.activeElement.id") == "h-why"
        page.keyboard.press("?")
        assert page.is_visible("#keys")
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        page.keyboard.type("payments-sync")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs/payments-sync**")
        assert not faults


def test_a_viewer_in_another_zone_sees_no_other_zone(browser: Any, demo_url: str) -> None:
    with _visit(browser, viewport={"width": 1440, "height": 900}) as (page, _):
        page.goto(f"{demo_url}/jobs")
        page.click("summary.zonepick")
        page.fill("#zone", "Asia/Kathmandu")
        page.click("text=Use this zone")
        for path in ("/jobs", "/runs", "/jobs/nightly-etl", "/audit"):
            page.goto(demo_url + path)
            titles = page.eval_on_selector_all("time[title]", "all => all.map(one => one.title)")
            assert titles
            assert all("+05:45" in title for title in titles)
            assert "Times in Asia/Kathmandu (UTC+5:45)" in page.content()


def test_the_theme_is_kept(browser: Any, demo_url: str) -> None:
    with _visit(browser) as (page, _):
        page.goto(f"{demo_url}/jobs?q=shop")
        for expected in ("light", "dark", None):
            page.click('button[name="theme"]')
            assert page.get_attribute("html", "data-theme") == expected
            assert "q=shop" in page.url


def test_a_base_path_is_kept(browser: Any, start_ui: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "chronos.yaml").write_text("server: {base_path: /ops/chronos}\nstore: 'sqlite://'\n")
    server = start_ui("--listen", "127.0.0.1:0")
    job = {"name": "hello", "schedule": "manual", "command": {"argv": ["echo", "hi"]}}
    _call(f"{server.url}/api/v1/jobs", "POST", job)
    with _visit(browser, viewport={"width": 1440, "height": 900}) as (page, faults):
        page.goto(f"{server.url}/")
        page.wait_for_selector("#live:not([hidden])")
        for text in ("Runs", "Dead letters", "Cluster", "Jobs"):
            page.click(f"nav.nav >> text={text}")
            assert "/ops/chronos/" in page.url
        page.click("text=hello")
        page.click("text=Definition")
        assert "echo" in page.content()
        assert not faults


def test_people_sign_in_and_out(browser: Any, start_ui: Callable[..., Any], tmp_path: Path) -> None:
    settings = {"auth": {"type": "basic", "users": {"ana": {"password_hash": SECRET, "role": "admin"}}}}
    (tmp_path / "chronos.yaml").write_text(json.dumps({"store": "sqlite://", **settings}))
    server = start_ui("--listen", "127.0.0.1:0")
    with _visit(browser) as (page, faults):
        page.goto(f"{server.url}/runs")
        assert page.url.endswith("/login?next=%2Fruns")
        page.fill("#u", "ana")
        page.fill("#p", "wrong")
        page.click('button:has-text("Sign in") >> nth=0')
        assert "4 attempts left" in page.text_content('[role="alert"]')
        faults.clear()  # the browser reports the 401 itself
        page.fill("#p", "secret")
        page.click('button:has-text("Sign in") >> nth=0')
        page.wait_for_url("**/runs")
        page.click("summary.who")
        page.click('button:text-is("Sign out")')
        page.wait_for_url("**/login")
        page.goto(f"{server.url}/jobs")
        assert "/login" in page.url
        assert not faults


def test_live_updates_keep_what_the_viewer_does(browser: Any, start_ui: Callable[..., Any]) -> None:
    server = start_ui("--store", "sqlite://", "--listen", "127.0.0.1:0")
    with _visit(browser, viewport={"width": 1440, "height": 900}) as (page, faults):
        page.goto(f"{server.url}/jobs")
        page.wait_for_selector("#live:not([hidden])")
        job = {"name": "first", "schedule": "manual", "command": {"argv": ["echo", "hi"]}}
        _call(f"{server.url}/api/v1/jobs", "POST", job)
        page.wait_for_selector("text=No runs yet")  # the welcome page turns into the list by itself
        page.wait_for_selector("#live:not([hidden])")
        page.click("#q")
        page.keyboard.type("fir")
        _call(f"{server.url}/api/v1/jobs", "POST", {**job, "name": "second"})
        page.wait_for_selector("text=1 new job")
        assert page.locator("#job-second").count() == 0  # new rows wait
        _call(f"{server.url}/api/v1/jobs/first/trigger", "POST", {})
        page.wait_for_selector("#job-first >> text=OK")
        assert page.input_value("#q") == "fir"
        assert page.evaluate("document.activeElement.id") == "q"
        page.click("text=Show")
        page.wait_for_selector("#job-second")
        assert page.locator("text=1 new job").count() == 0
        assert not faults


def test_a_page_says_that_the_server_is_away_and_recovers(
    browser: Any, start_ui: Callable[..., Any], tmp_path: Path
) -> None:
    server = start_ui("--store", "sqlite:///jobs.db", "--listen", "127.0.0.1:0")
    port = str(urlsplit(server.url).port)
    _call(f"{server.url}/api/v1/jobs", "POST", {"name": "first", "command": {"argv": ["true"]}, "schedule": "manual"})
    with _visit(browser, viewport={"width": 1440, "height": 900}) as (page, _):
        page.goto(f"{server.url}/jobs")
        page.wait_for_selector("#live:not([hidden])")
        server.kill()
        page.wait_for_selector("#connection:not([hidden])")
        said = page.text_content("#connection")
        assert re.search(r"Disconnected since \d\d:\d\d:\d\d\. This page is \d+[sm] old\.", said)
        start_ui("--store", "sqlite:///jobs.db", "--listen", f"127.0.0.1:{port}")
        page.wait_for_selector("#connection", state="hidden", timeout=60_000)
        assert page.text_content("#live").strip() == "Live"
