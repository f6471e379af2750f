"""Advisory locks of PostgreSQL. They belong to a database, so each schema has keys of its own."""

from enum import IntEnum
from hashlib import sha256

DEFAULT_SCHEMA = "chronos"
_DEFAULT_SCHEMA_KEYS = 0x6368726F00


class AdvisoryLock(IntEnum):
    """What a lock protects."""

    NUMBERS = 1  # the next number of a lane or node
    MIGRATION = 2  # one node migrates at a time
    UPKEEP = 3  # one node maintains partitions at a time
    FOLLOWED_NAMES = 4  # which job follows which

    def key(self, schema: str) -> int:
        """Return the key of this lock for one schema. The default schema has the keys of earlier releases."""
        if schema == DEFAULT_SCHEMA:
            return _DEFAULT_SCHEMA_KEYS + self
        return int.from_bytes(sha256(schema.encode()).digest()[:6]) << 8 | self


#: Held while an extension is created, which belongs to the whole database.
EXTENSION_LOCK = _DEFAULT_SCHEMA_KEYS + 5
