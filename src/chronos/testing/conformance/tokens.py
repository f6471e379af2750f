"""API tokens, namespaces, names of deleted jobs, and the audit log."""

from chronos.core.config import Overlap
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.errors import Conflict, NotFound
from chronos.store.commands import (
    AuditLine,
    CancelExecution,
    CreateToken,
    DeleteJob,
    RevokeToken,
    SetJobState,
    Signal,
    Suspend,
    SuspendRow,
    WriteAudit,
)
from chronos.testing.conformance.fixture import StoreFixture, raises

ANA = Actor(name="ana", origin="192.0.2.7")


def _token(name: str, **options: object) -> ApiToken:
    return ApiToken(name=name, token_hash=name.encode().hex().zfill(64), **options)  # type: ignore[arg-type]


async def case_a_token_is_found_by_its_hash_until_it_is_revoked(fixture: StoreFixture) -> None:
    plain = _token("plain", role="admin")
    here = _token("here", role="operator", namespaces=["a", "b"], expires_us=fixture.now_us + 5)
    mixed = _token("mixed", namespaces={"b": "admin", "a": "viewer"})
    for token in (plain, here, mixed):
        await fixture.store.apply(CreateToken(token=token, now_us=fixture.now_us, actor=ANA))
    tokens = await fixture.store.tokens()
    assert [(t.name, t.role, t.namespaces, t.created_us, t.expires_us, t.author) for t in tokens] == [
        ("here", "operator", ["a", "b"], fixture.now_us, fixture.now_us + 5, "ana"),
        ("mixed", "viewer", {"a": "viewer", "b": "admin"}, fixture.now_us, None, "ana"),
        ("plain", "admin", None, fixture.now_us, None, "ana"),
    ]
    assert await fixture.store.token(mixed.token_hash) == tokens[1]
    assert await fixture.store.token("0" * 64) is None
    await fixture.store.apply(RevokeToken(name="here", now_us=fixture.tick(), actor=ANA))
    assert await fixture.store.token(here.token_hash) is None
    assert [token.name for token in await fixture.store.tokens()] == ["mixed", "plain"]
    with raises(NotFound):
        await fixture.store.apply(RevokeToken(name="here", now_us=fixture.tick()))


async def case_a_token_name_is_unique(fixture: StoreFixture) -> None:
    first = CreateToken(token=_token("ci"), now_us=fixture.now_us)
    await fixture.store.apply(first)
    await fixture.store.apply(first)
    with raises(Conflict):
        other = ApiToken(name="ci", token_hash="f" * 64)
        await fixture.store.apply(CreateToken(token=other, now_us=fixture.tick()))
    assert await fixture.store.token("f" * 64) is None
    await fixture.store.apply(RevokeToken(name="ci", now_us=fixture.tick()))
    await fixture.store.apply(CreateToken(token=ApiToken(name="ci", token_hash="f" * 64), now_us=fixture.tick()))
    assert [token.token_hash for token in await fixture.store.tokens()] == ["f" * 64]
    # The command was sent twice, but its audit entry is written once.
    lines = (await fixture.store.audit(namespace=None, limit=10)).items
    assert [(line.action, line.subject) for line in lines] == [
        ("create token", "ci"),
        ("revoke token", "ci"),
        ("create token", "ci"),
    ]


async def case_only_namespaces_with_jobs_are_listed(fixture: StoreFixture) -> None:
    assert await fixture.store.namespaces(limit=10) == []
    for namespace in ("b", "a", "B", "a.b"):
        for name in ("x", "y"):
            await fixture.save(name, namespace=namespace)
    assert await fixture.store.namespaces(limit=10) == ["B", "a", "a.b", "b"]
    assert await fixture.store.namespaces(limit=2) == ["B", "a"]
    for name in ("x", "y"):
        job = await fixture.job(name, "a.b")
        await fixture.store.apply(DeleteJob(job=job.id, now_us=fixture.tick()))
    assert await fixture.store.namespaces(limit=10) == ["B", "a", "b"]


async def case_deleted_jobs_are_still_known_by_name(fixture: StoreFixture) -> None:
    ids = []
    for _ in range(2):  # of the same name, one after the other
        await fixture.save("again")
        job = await fixture.job("again")
        ids.append(job.id)
        await fixture.store.apply(DeleteJob(job=job.id, now_us=fixture.tick()))
    await fixture.save("there")
    there = (await fixture.job("there")).id
    names = await fixture.store.names_of([*ids, there, bytes(16)])
    assert names == {ids[0]: ("default", "again"), ids[1]: ("default", "again"), there: ("default", "there")}
    assert await fixture.store.names_of([]) == {}


async def case_the_audit_log_names_actions_with_verbs(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    job = await fixture.job()
    states = (JobState.PAUSED, JobState.ACTIVE, JobState.DISABLED, JobState.ACTIVE)
    for state in states:
        await fixture.store.apply(
            SetJobState(job=job.id, state=state, now_us=fixture.tick(1), keep_cursor=True, actor=ANA)
        )
    running = await fixture.admit_one()
    for _ in range(2):
        await fixture.store.apply(
            CancelExecution(execution=running.id, now_us=fixture.tick(), message="enough", actor=ANA)
        )
    waiting = await fixture.admit_one()
    row = SuspendRow(waiting.id, waiting.token, None, ("go",), 1, 0)
    await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.tick()))
    await fixture.store.apply(Signal(execution=waiting.id, name="go", payload="1", now_us=fixture.tick(), actor=ANA))
    await fixture.store.apply(DeleteJob(job=job.id, now_us=fixture.tick(), actor=ANA))
    lines = (await fixture.store.audit(namespace="default", limit=20)).items
    assert [line.action for line in reversed(lines)] == [
        *("create", "pause", "resume", "disable", "enable", "cancel", "signal", "delete"),
    ]
    assert {line.subject for line in lines} == {"job"}
    [canceled] = [line for line in lines if line.action == "cancel"]
    assert (canceled.actor, canceled.origin) == ("ana", "192.0.2.7")
    assert canceled.detail == f"{running.id.hex()}: enough"


async def case_lines_are_added_to_the_audit_log_once(fixture: StoreFixture) -> None:
    ana_elsewhere = Actor(name="ana", origin="192.0.2.8")
    lines = (AuditLine(ANA, "denied", "x", detail="twice"), AuditLine(ana_elsewhere, "denied", "x", detail="twice"))
    command = WriteAudit(lines=(*lines, AuditLine(ANA, "unlock user", "bob", "here")), now_us=fixture.now_us)
    await fixture.store.apply(command)
    await fixture.store.apply(command)
    page = await fixture.store.audit(namespace=None, limit=10)
    entries = {(e.at_us, e.actor, e.origin, e.action, e.namespace, e.subject, e.detail) for e in page.items}
    assert entries == {
        (fixture.now_us, "ana", "192.0.2.7", "denied", "", "x", "twice"),
        (fixture.now_us, "ana", "192.0.2.8", "denied", "", "x", "twice"),
        (fixture.now_us, "ana", "192.0.2.7", "unlock user", "here", "bob", ""),
    }
    assert len(page.items) == len(entries)
