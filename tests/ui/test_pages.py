"""Every page: it is shown, says what it should, and shows hostile text harmlessly."""

import asyncio
import gzip
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

import pytest

from tests.support.ui_server import WITH_USERS, UiServer, serve_ui

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202etxt.exe\u202c \x1b[31mred\x1b[0m \x07"


@asynccontextmanager
async def _some_jobs() -> AsyncIterator[tuple[UiServer, str]]:
    """Serve a few jobs; yields the server and the id of a failed run of two tasks."""
    async with serve_ui() as ui:
        await ui.create(
            "nightly-etl",
            schedule="30 2 * * *",
            timezone="Europe/Paris",
            owner="data-team",
            tags={"team": "data"},
            description=HOSTILE,
            mode="graph",
            tasks=[
                {"name": "extract", "command": {"argv": ["printf", "%s\\n", "one", "two", HOSTILE]}},
                {
                    "name": "load",
                    "needs": ["extract"],
                    "command": {"argv": ["sh", "-c", "echo warning: slow; echo ERROR: read-only >&2; exit 3"]},
                },
            ],
            retry={"max_attempts": 2, "initial_interval": "1ms"},
        )
        await ui.create("hello", tags={"team": "billing"})
        await ui.create("a" * 200)
        await ui.run("hello")
        await ui.run("nightly-etl")
        failed = await ui.run("nightly-etl")
        await ui.run("nightly-etl")
        await ui.call("POST", "/jobs/hello/pause", {"reason": HOSTILE})
        yield ui, failed["id"]


def test_every_page_is_shown() -> None:
    async def scenario() -> None:
        async with _some_jobs() as (ui, run):
            pages = {
                "/jobs": "nightly-etl",
                "/jobs?q=team:x+nightly&sort=next": "is not a filter",
                "/jobs?q=status:failing": "nightly-etl",
                "/jobs?q=zzz": "No jobs match “zzz”",
                "/jobs?cursor=zz&sort=zz&tz=Mars/Base": "not understood",
                "/jobs/nightly-etl": "Failing since",
                "/jobs/nightly-etl?runs=60": "Next 10 runs",
                "/jobs/nightly-etl/runs": "load failed after 2 attempts",
                "/jobs/nightly-etl/runs?show=failed": "Failed",
                "/jobs/nightly-etl/versions": "v1",
                "/jobs/nightly-etl/definition": "needs:",
                "/jobs/nightly-etl/why": "Next run",
                "/jobs/nightly-etl/why?at=2026-11-08+02:17": "02:17",
                "/jobs/nightly-etl/why?at=tomorrow": "is not a time",
                "/jobs/hello": "Paused",
                "/runs": "Finished",
                "/runs?show=failed&grouped=no": "nightly-etl",
                f"/runs/{run}": "Why this run failed",
                f"/runs/{run}?tz=UTC": "Next run of this job",
                f"/runs/{run}?task=extract&attempt=1&find=two": "1 line found",
                f"/runs/{run}?task=load&errors=1": "read-only",
                f"/runs/{run}?attempt=x&line=zz": "is not a number",
                "/dead-letters": "3 runs failed with no attempts left",
                "/dead-letters?q=nothing": "No dead letters match",
                "/cluster": "Commit p99",
                "/audit": "create",
                "/audit?in=namespace": "Namespace default",
            }
            for path, expected in pages.items():
                html = await ui.page(path)
                assert expected in html, (path, html)
                assert "<script>alert" not in html
                assert "<img src=x" not in html
                assert html.count("<h1") == 1, path
                assert "\x1b" not in html, path
                assert "\x07" not in html, path
                assert "\u202e" not in html, path

    asyncio.run(scenario())


def test_a_region_is_the_same_markup_as_on_its_page() -> None:
    async def scenario() -> None:
        async with _some_jobs() as (ui, run):
            for path, part in (
                ("/jobs", "rows"),
                ("/jobs/nightly-etl", "rows"),
                (f"/runs/{run}", "why"),
                (f"/runs/{run}", "log"),
                ("/cluster", "body"),
            ):
                page, region = await ui.page(path), await ui.page(f"{path}?part={part}")
                assert "<html" not in region
                assert _squeeze(region)[:200] in _squeeze(page), path
            assert (await ui.get("/jobs?part=nonsense")).status == 404

    asyncio.run(scenario())


def test_unknown_things_are_pages_for_browsers_and_problems_for_programs() -> None:
    async def scenario() -> None:
        async with serve_ui() as ui:
            for path in ("/jobs/nothing", "/runs/nothing", "/nowhere", "/runs/01a1ec2a-f280-8101-aeb2-39de24de3fbd"):
                reply = await ui.get(path)
                assert reply.status == 404
                assert b"Not found" in reply.body, path
                assert reply.headers["Content-Type"].startswith("text/html"), path
            assert (await ui.get("/api/v1/nowhere")).code == "no_such_path"
            assert (await ui.get("/nowhere", Accept="*/*")).code == "no_such_path"

    asyncio.run(scenario())


def test_the_first_page_leads_to_the_jobs_and_welcomes_while_there_are_none() -> None:
    async def scenario() -> None:
        async with serve_ui() as ui:
            reply = await ui.get("/")
            assert (reply.status, reply.headers["Location"]) == (303, "/jobs")
            assert "chronosctl jobs create hello" in await ui.page("/jobs")

    asyncio.run(scenario())


def test_a_base_path_is_on_every_address() -> None:
    async def scenario() -> None:
        async with serve_ui({"server.base_path": "/ops/chronos"}) as ui:
            await ui.create("hello")
            await ui.run("hello")
            for path in ("/jobs", "/jobs/hello", "/runs", "/cluster", "/audit", "/dead-letters"):
                html = await ui.page(path)
                strays = [
                    address
                    for address in re.findall(r'(?:href|src|action|data-live-url)="(/[^"]*)"', html)
                    if not address.startswith("/ops/chronos/")
                ]
                assert not strays, (path, strays)
            assert (await ui.get("")).headers["Location"] == "/ops/chronos/jobs"

    asyncio.run(scenario())


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/New_York"])
def test_all_instants_follow_the_zone_of_the_viewer(zone: str) -> None:
    async def scenario() -> None:
        async with _some_jobs() as (ui, run):
            for path in ("/jobs", "/runs", "/jobs/nightly-etl", f"/runs/{run}", "/audit", "/cluster", "/dead-letters"):
                html = await ui.page(f"{path}?tz={zone}")
                assert f"Times in {zone}" in html
                offset = {"Asia/Kathmandu": "+05:45", "America/New_York": "-0"}[zone]
                titles = re.findall(r'<time [^>]*title="([^"]*)"', html)
                assert all(offset in title for title in titles), (path, titles)
                links = re.findall(r'href="(/jobs/[^"]*)"', html)
                assert all(f"tz={zone.replace('/', '%2F')}" in link for link in links), path

    asyncio.run(scenario())


def test_names_of_another_namespace_are_not_shown() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            await ui.create("secret-plan", namespace="hr", user="ana")
            await ui.create("invoices", namespace="billing", user="ana")
            assert (await ui.sign_in("vic")).status == 303
            assert "invoices" in await ui.page("/jobs?ns=billing")
            for path in ("/jobs?ns=hr", "/jobs/secret-plan?ns=hr", "/runs?ns=hr", "/dead-letters?ns=hr"):
                reply = await ui.get(path)
                assert reply.status == 404, path
                assert b"secret-plan" not in reply.body.replace(b'"secret-plan"', b""), path
            assert (await ui.get("/audit?ns=billing")).status == 403
            assert "hr" not in re.findall(r'\?ns=([^"&]*)', await ui.page("/cluster?ns=billing"))

    asyncio.run(scenario())


def test_pages_are_compressed_and_small() -> None:
    """The budgets of the design: 35 KB for 100 jobs, 20 KB for another page; 11, 5 and 17 KB of assets."""

    async def scenario() -> None:
        async with _some_jobs() as (ui, run):
            for number in range(120):
                await ui.create(f"job-{number:03}", schedule="*/5 * * * *", tags={"team": f"t{number % 7}"})
            await asyncio.gather(*(ui.run(f"job-{number:03}") for number in range(20)))
            for path, limit in {"/jobs": 35_000, "/runs": 20_000, f"/runs/{run}": 20_000, "/cluster": 20_000}.items():
                body = (await ui.get(path)).body
                assert len(gzip.compress(body, 5)) < limit, path
            html = await ui.page("/jobs")
            assert html.count("<") / 2 < 3_500
            sizes = {"chronos.css": 11_000, "chronos.js": 5_000, "htmx.js": 17_000}
            for name, limit in sizes.items():
                stem, suffix = name.split(".")
                [path] = re.findall(rf'"(/static/{stem}\.[0-9a-f]+\.{suffix})"', html)
                async with ui.client.get(ui.root + path, headers={"Accept-Encoding": "gzip"}) as response:
                    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
                    assert int(response.headers["Content-Length"]) < limit, name
            assert (await ui.get("/static/chronos.000000000000.css")).status == 404

    asyncio.run(scenario())


def _squeeze(html: str) -> str:
    """Return the markup without what changes from second to second."""
    return re.sub(r">\s*(in [^<]*|now|[^<]* ago|<?\d[^<]*)<", "><", re.sub(r"\s+", " ", html)).strip()


def test_the_vendored_script_is_the_published_one() -> None:
    """htmx 4.0.1 of npm, ``dist/htmx.min.js``, unchanged."""
    folder = files("chronos.ui").joinpath("static")
    digest = hashlib.sha256(folder.joinpath("htmx.js").read_bytes()).hexdigest()
    assert digest == "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
    assert "Zero-Clause BSD" in folder.joinpath("htmx.LICENSE").read_text()


def test_no_colour_is_named_outside_the_tokens() -> None:
    """Every colour is a pair for light and dark, so that neither theme can be forgotten."""
    css = files("chronos.ui").joinpath("static", "chronos.css").read_text()
    _, _, rest = css.partition("/* 2. Base")
    outside = [line for line in rest.splitlines() if re.search(r"#[0-9a-f]{3,8}\b", line) and "light-dark(" not in line]
    assert not outside
