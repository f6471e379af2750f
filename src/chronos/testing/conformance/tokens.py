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


async def case_a_token_is_found_by_its_hash_until_it_is_revoked(w: StoreFixture) -> None:
    plain = _token("plain", role="admin")
    here = _token("here", role="operator", namespaces=["a", "b"], expires_us=w.now + 5)
    mixed = _token("mixed", namespaces={"b": "admin", "a": "viewer"})
    for token in (plain, here, mixed):
        await w.store.apply(CreateToken(token=token, now_us=w.now, actor=ANA))
    tokens = await w.store.tokens()
    assert [(t.name, t.role, t.namespaces, t.created_us, t.expires_us, t.author) for t in tokens] == [
        ("here", "operator", ["a", "b"], w.now, w.now + 5, "ana"),
        ("mixed", "viewer", {"a": "viewer", "b": "admin"}, w.now, None, "ana"),
        ("plain", "admin", None, w.now, None, "ana"),
    ]
    assert await w.store.token(mixed.token_hash) == tokens[1]
    assert await w.store.token("0" * 64) is None
    await w.store.apply(RevokeToken(name="here", now_us=w.tick(), actor=ANA))
    assert await w.store.token(here.token_hash) is None
    assert [token.name for token in await w.store.tokens()] == ["mixed", "plain"]
    with raises(NotFound):
        await w.store.apply(RevokeToken(name="here", now_us=w.tick()))


async def case_a_token_name_is_unique(w: StoreFixture) -> None:
    first = CreateToken(token=_token("ci"), now_us=w.now)
    await w.store.apply(first)
    await w.store.apply(first)
    with raises(Conflict):
        other = ApiToken(name="ci", token_hash="f" * 64)
        await w.store.apply(CreateToken(token=other, now_us=w.tick()))
    assert await w.store.token("f" * 64) is None
    await w.store.apply(RevokeToken(name="ci", now_us=w.tick()))
    await w.store.apply(CreateToken(token=ApiToken(name="ci", token_hash="f" * 64), now_us=w.tick()))
    assert [token.token_hash for token in await w.store.tokens()] == ["f" * 64]
    # The command was sent twice, but its audit entry is written once.
    lines = (await w.store.audit(namespace=None, limit=10)).items
    assert [(line.action, line.subject) for line in lines] == [
        ("create token", "ci"),
        ("revoke token", "ci"),
        ("create token", "ci"),
    ]


async def case_only_namespaces_with_jobs_are_listed(w: StoreFixture) -> None:
    assert await w.store.namespaces(limit=10) == []
    for namespace in ("b", "a", "B", "a.b"):
        for name in ("x", "y"):
            await w.save(name, namespace=namespace)
    assert await w.store.namespaces(limit=10) == ["B", "a", "a.b", "b"]
    assert await w.store.namespaces(limit=2) == ["B", "a"]
    for name in ("x", "y"):
        job = await w.job(name, "a.b")
        await w.store.apply(DeleteJob(job=job.id, now_us=w.tick()))
    assert await w.store.namespaces(limit=10) == ["B", "a", "b"]


async def case_deleted_jobs_are_still_known_by_name(w: StoreFixture) -> None:
    ids = []
    for _ in range(2):  # of the same name, one after the other
        await w.save("again")
        job = await w.job("again")
        ids.append(job.id)
        await w.store.apply(DeleteJob(job=job.id, now_us=w.tick()))
    await w.save("there")
    there = (await w.job("there")).id
    names = await w.store.names_of([*ids, there, bytes(16)])
    assert names == {ids[0]: ("default", "again"), ids[1]: ("default", "again"), there: ("default", "there")}
    assert await w.store.names_of([]) == {}


async def case_the_audit_log_names_actions_with_verbs(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    job = await w.job()
    states = (JobState.PAUSED, JobState.ACTIVE, JobState.DISABLED, JobState.ACTIVE)
    for state in states:
        await w.store.apply(SetJobState(job=job.id, state=state, now_us=w.tick(1), keep_cursor=True, actor=ANA))
    running = await w.admit_one()
    for _ in range(2):
        await w.store.apply(CancelExecution(execution=running.id, now_us=w.tick(), message="enough", actor=ANA))
    waiting = await w.admit_one()
    row = SuspendRow(waiting.id, waiting.token, None, ("go",), 1, 0)
    await w.store.apply(Suspend(rows=(row,), now_us=w.tick()))
    await w.store.apply(Signal(execution=waiting.id, name="go", payload="1", now_us=w.tick(), actor=ANA))
    await w.store.apply(DeleteJob(job=job.id, now_us=w.tick(), actor=ANA))
    lines = (await w.store.audit(namespace="default", limit=20)).items
    assert [line.action for line in reversed(lines)] == [
        *("create", "pause", "resume", "disable", "enable", "cancel", "signal", "delete"),
    ]
    assert {line.subject for line in lines} == {"job"}
    [canceled] = [line for line in lines if line.action == "cancel"]
    assert (canceled.actor, canceled.origin) == ("ana", "192.0.2.7")
    assert canceled.detail == f"{running.id.hex()}: enough"


async def case_lines_are_added_to_the_audit_log_once(w: StoreFixture) -> None:
    ana_elsewhere = Actor(name="ana", origin="192.0.2.8")
    lines = (AuditLine(ANA, "denied", "x", detail="twice"), AuditLine(ana_elsewhere, "denied", "x", detail="twice"))
    command = WriteAudit(lines=(*lines, AuditLine(ANA, "unlock user", "bob", "here")), now_us=w.now)
    await w.store.apply(command)
    await w.store.apply(command)
    page = await w.store.audit(namespace=None, limit=10)
    entries = {(e.at_us, e.actor, e.origin, e.action, e.namespace, e.subject, e.detail) for e in page.items}
    assert entries == {
        (w.now, "ana", "192.0.2.7", "denied", "", "x", "twice"),
        (w.now, "ana", "192.0.2.8", "denied", "", "x", "twice"),
        (w.now, "ana", "192.0.2.7", "unlock user", "here", "bob", ""),
    }
    assert len(page.items) == len(entries)
