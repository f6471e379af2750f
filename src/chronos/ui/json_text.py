"""JSON for people: indented by two spaces and bounded."""

import json
from typing import Any

MAX_CHARS = 64 << 10


def format_json(value: Any) -> str:
    """Return a value as indented JSON, cut at ``MAX_CHARS``."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n… {len(text) - MAX_CHARS:,} more characters"
