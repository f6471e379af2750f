"""Values about the versions, schedule and settings of a job, from the service or from the JSON of a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chronos.core.calendar import from_us
from chronos.core.job import JobVersion
from chronos.core.schedule_change import ComingRuns
from chronos.sdk.info_reader import parse_instant
from chronos.service.schedule_preview import Preview
from chronos.service.serializers import write_spec
from chronos.service.version_diff import VersionDiff

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """One version of a job.

    ``version`` counts from 1, ``saved_at`` and ``author`` say when and by whom it was saved. ``definition`` has its
    fields as REST writes them, with credentials masked.
    """

    version: int
    saved_at: datetime
    author: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDiff:
    """A field that differs between two versions: its path, such as ``/schedule``, and both values; None: absent."""

    pointer: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsDiff:
    """Coming runs on one side of a comparison: how many, and the first of them."""

    count: int
    first: tuple[datetime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffInfo:
    """The difference between two versions of a job.

    - ``from_``, ``to``: the two versions.
    - ``fields``: the fields that differ.
    - ``added``, ``canceled``, ``kept``: the effect on the coming runs until ``until``.
    - ``whole``: False if there are too many runs to compare all of them.
    """

    from_: int
    to: int
    fields: tuple[FieldDiff, ...]
    added: RunsDiff
    canceled: RunsDiff
    kept: RunsDiff
    until: datetime
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWarning:
    """What may surprise in a schedule: its kind, a sentence, and for a clock change when that is."""

    kind: str
    message: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewInfo:
    """What the schedule of a job means from now on.

    - ``words``: the schedule in words.
    - ``understood_as``: the expression that words, names and macros stand for; None: the text itself.
    - ``timezone``: its time zone; None without a schedule.
    - ``next``: the next instants, whether or not the job is paused or disabled.
    - ``warnings``: what may surprise, such as instants that a clock change moves.
    """

    words: str
    understood_as: str | None
    timezone: str | None
    next: tuple[datetime, ...]
    warnings: tuple[ScheduleWarning, ...]


# --- from the service


def to_version_info(version: JobVersion) -> VersionInfo:
    """A stored version as users see it."""
    return VersionInfo(
        version=version.version,
        saved_at=from_us(version.saved_us),
        author=version.author,
        definition=write_spec(version.spec),
    )


def to_diff_info(diff: VersionDiff) -> DiffInfo:
    """A difference as users see it."""
    runs = diff.runs
    return DiffInfo(
        from_=diff.old,
        to=diff.new,
        fields=tuple(FieldDiff(pointer=one.pointer, old=one.old, new=one.new) for one in diff.fields),
        added=_to_runs_diff(runs.added),
        canceled=_to_runs_diff(runs.cancelled),
        kept=_to_runs_diff(runs.kept),
        until=from_us(runs.until_us),
        whole=runs.whole,
    )


def _to_runs_diff(runs: ComingRuns) -> RunsDiff:
    return RunsDiff(count=runs.count, first=tuple(from_us(us) for us in runs.first_us))


def to_preview_info(preview: Preview) -> PreviewInfo:
    """A preview as users see it."""
    return PreviewInfo(
        words=preview.words,
        understood_as=preview.understood_as,
        timezone=preview.timezone,
        next=tuple(from_us(us) for us in preview.next_us),
        warnings=(
            *(ScheduleWarning(kind=one.kind.value, message=one.message) for one in preview.surprises),
            *(
                ScheduleWarning(kind=one.kind.value, message=one.message, at=from_us(one.at_us))
                for one in preview.oddities
            ),
        ),
    )


def describe_without_schedule(upstream: tuple[str, ...]) -> PreviewInfo:
    """The preview of a job without a schedule, which may run after other jobs."""
    words = f"After {', '.join(upstream)}" if upstream else "Only when triggered"
    return PreviewInfo(words=words, understood_as=None, timezone=None, next=(), warnings=())


# --- from JSON


def read_version_info(version: JsonObject) -> VersionInfo:
    """Read a version."""
    return VersionInfo(
        version=version["version"],
        saved_at=parse_instant(version["saved_at"]),
        author=version["author"],
        definition=dict(version["spec"]),
    )


def read_diff_info(diff: JsonObject) -> DiffInfo:
    """Read a difference."""
    runs = diff["runs"]
    return DiffInfo(
        from_=diff["from"],
        to=diff["to"],
        fields=tuple(FieldDiff(pointer=one["pointer"], old=one["old"], new=one["new"]) for one in diff["fields"]),
        added=_read_runs_diff(runs["added"]),
        canceled=_read_runs_diff(runs["canceled"]),
        kept=_read_runs_diff(runs["kept"]),
        until=parse_instant(runs["until"]),
        whole=runs["whole"],
    )


def _read_runs_diff(runs: JsonObject) -> RunsDiff:
    return RunsDiff(count=runs["count"], first=tuple(parse_instant(text) for text in runs["first"]))


def read_preview_info(preview: JsonObject) -> PreviewInfo:
    """Read a preview."""
    return PreviewInfo(
        words=preview["words"],
        understood_as=preview["understood_as"],
        timezone=preview["timezone"],
        next=tuple(parse_instant(text) for text in preview["next"]),
        warnings=tuple(
            ScheduleWarning(
                kind=one["kind"],
                message=one["message"],
                at=parse_instant(one["at"]) if "at" in one else None,
            )
            for one in preview["warnings"]
        ),
    )


# --- effective settings


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """The value of a setting, and the level it came from: default, server, namespace, job or task.

    ``fields`` has the level of each field of a setting that is an object, such as ``retry``.
    """

    value: Any
    level: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveInfo(Mapping[str, EffectiveSetting]):
    """The settings of a job by name. ``tasks`` has those that tasks may override, by task.

    ``versions`` has the numbers of the job's version, the server's defaults and the namespace's settings.
    """

    settings: Mapping[str, EffectiveSetting]
    tasks: Mapping[str, Mapping[str, EffectiveSetting]]
    versions: Mapping[str, int]

    def __getitem__(self, name: str) -> EffectiveSetting:
        return self.settings[name]

    def __iter__(self) -> Any:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)


def to_effective_info(written: Mapping[str, Any]) -> EffectiveInfo:
    """Build the settings from their JSON."""
    return EffectiveInfo(
        settings=_to_settings({name: one for name, one in written.items() if name not in ("tasks", "versions")}),
        tasks={name: _to_settings(task) for name, task in written["tasks"].items()},
        versions=written["versions"],
    )


def _to_settings(written: Mapping[str, Any]) -> dict[str, EffectiveSetting]:
    return {
        name: EffectiveSetting(value=one["value"], level=one["from"], fields=one.get("fields", {}))
        for name, one in written.items()
    }
