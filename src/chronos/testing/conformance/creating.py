"""Promises about jobs that many create at the same time: whatever goes into one transaction, each stands for itself."""

import asyncio

from chronos.core.ids import job_id
from chronos.core.job import After
from chronos.core.node import Actor
from chronos.errors import Conflict
from chronos.store.commands import NEW, DeleteJob, SaveJobs
from chronos.store.contract import JobFilter
from chronos.testing.conformance.raises import raises
from chronos.testing.conformance.world import World

_MANY = 30


async def case_many_create_at_once_and_each_has_its_own_answer(w: World) -> None:
    commands = [
        SaveJobs(
            rows=(w.row(f"a{n}", expect=NEW, tags={"n": str(n)}), w.row(f"b{n}", expect=NEW)),
            now_us=w.now + n,
            actor=Actor(name=f"user-{n}", origin="here"),
        )
        for n in range(_MANY)
    ]
    answers = await asyncio.gather(*(w.store.apply(command) for command in commands))
    for n, saved in enumerate(answers):
        assert [(s.id, s.version, s.created, s.incarnation) for s in saved] == [
            (job_id("default", f"{letter}{n}", 1), 1, True, 1) for letter in "ab"
        ]
        job = await w.job(f"a{n}")
        assert (job.created_us, job.spec.tags) == (w.now + n, {"n": str(n)})
        [version] = await w.store.versions(job.id, limit=5)
        assert version.author == f"user-{n}"
    audited = await w.store.audit(namespace="default", limit=1000)
    assert {(e.actor, e.subject, e.at_us) for e in audited.items} == {
        (f"user-{n}", f"{letter}{n}", w.now + n) for n in range(_MANY) for letter in "ab"
    }
    assert (await w.store.counts()).jobs == {0: 2 * _MANY}


async def case_of_many_that_create_at_once_only_the_wrong_ones_are_refused(w: World) -> None:
    await w.save("taken")
    names = [f"job-{n}" for n in range(10)]
    names[3] = "taken"
    names[7] = names[8] = "twice"
    commands = [SaveJobs(rows=(w.row(name, expect=NEW),), now_us=w.now) for name in names]
    answers = await asyncio.gather(*(w.store.apply(command) for command in commands), return_exceptions=True)
    refused = [name for name, answer in zip(names, answers, strict=True) if isinstance(answer, Conflict)]
    assert sorted(refused) == ["taken", "twice"]
    assert sum(isinstance(answer, list) and answer[0].created for answer in answers) == 8
    assert len((await w.store.list_jobs(JobFilter(), limit=100)).items) == 9


async def case_the_same_key_is_the_same_job(w: World) -> None:
    def create(key: str | None, **options: str) -> SaveJobs:
        return SaveJobs(rows=(w.row("job", expect=NEW, **options),), now_us=w.tick(), idempotency=key)

    [first] = await w.store.apply(create("k"))
    assert (first.created, first.version) == (True, 1)
    [again] = await w.store.apply(create("k"))
    assert (again.id, again.version, again.created, again.changed) == (first.id, 1, False, False)
    for key in ("other", None):
        with raises(Conflict, "exists already"):
            await w.store.apply(create(key))
    [elsewhere] = await w.store.apply(create("k", namespace="elsewhere"))
    assert elsewhere.created
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    assert [saved.id for saved in await w.store.apply(create("k"))] == [first.id]
    assert await w.store.job_named("default", "job") is None
    audited = await w.store.audit(namespace="default", limit=10)
    assert [entry.action for entry in audited.items] == ["delete", "create"]


async def case_of_many_with_the_same_key_one_creates(w: World) -> None:
    command = SaveJobs(rows=(w.row("job", expect=NEW),), now_us=w.now, idempotency="k")
    others = [SaveJobs(rows=(w.row(f"job-{n}", expect=NEW),), now_us=w.now) for n in range(5)]
    sent = [command, *others, command, command]
    answers = await asyncio.gather(*(w.store.apply(one) for one in sent))
    same = [saved for one, [saved] in zip(sent, answers, strict=True) if one is command]
    assert {saved.id for saved in same} == {job_id("default", "job", 1)}
    assert sum(saved.created for saved in same) == 1
    assert len((await w.store.list_jobs(JobFilter(), limit=100)).items) == 6


async def case_jobs_that_follow_each_other_are_created_at_once(w: World) -> None:
    rows = [w.row("up", expect=NEW), w.row("down", expect=NEW, after=(After(job="up"),)), w.row("else", expect=NEW)]
    await asyncio.gather(*(w.store.apply(SaveJobs(rows=(row,), now_us=w.now)) for row in rows))
    assert [job for job, _ in await w.store.followers("default", "up")] == [job_id("default", "down", 1)]


async def case_a_name_that_is_used_again_is_told(w: World) -> None:
    first = await w.save("job")
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    again = await w.save("job")
    assert (first.incarnation, again.incarnation) == (1, 2)


async def case_tags_are_those_of_the_last_version(w: World) -> None:
    await w.save("one", tags={"team": "a", "app": "x"})
    await w.save("two", tags={"team": "a"})
    assert await _tagged(w, "team", "a") == ["one", "two"]
    saved = await w.save("one", tags={"team": "b"})
    assert await _tagged(w, "team", "a") == ["two"]
    assert await _tagged(w, "team", "b") == ["one"]
    assert await _tagged(w, "app", None) == []
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    assert await _tagged(w, "team", None) == ["two"]
    await w.save("one")
    assert await _tagged(w, "team", None) == ["two"]


async def _tagged(w: World, key: str, value: str | None) -> list[str]:
    return [job.name for job in (await w.store.list_jobs(JobFilter(tag=(key, value)), limit=10)).items]
