"""Reads the filters that select jobs for lists and bulk actions: tags and states."""

from chronos.core.job import Job, JobState
from chronos.errors import Invalid

Tag = tuple[str, str | None]  # a key, and its value or None for any value


def parse_tag(text: str) -> Tag:
    """Parse ``key``, ``key=value`` or ``key:value``."""
    for separator in "=:":
        key, found, value = text.partition(separator)
        if found:
            return key, value
    return text, None


def parse_state(text: str) -> JobState:
    """Parse the name of a state. Raises ``Invalid``."""
    try:
        return JobState[text.upper()]
    except KeyError:
        allowed = ", ".join(state.name.lower() for state in JobState)
        raise Invalid(f'invalid state "{text[:64]}"; use one of {allowed}') from None


def has_tags(job: Job, tags: tuple[Tag, ...]) -> bool:
    """Return whether a job has all these tags."""
    own = job.spec.tags
    return all(key in own and value in (None, own[key]) for key, value in tags)
