"""The work of the jobs: records its start and its end in a file of its own, and is slow in between.

``python -I -S work.py FOLDER FIRST_S AGAIN_S [together]``: the first attempt of an execution takes FIRST_S seconds,
later ones AGAIN_S. If FIRST_S is ``gate``, it waits until the test opens FOLDER/gate. Every line is on disk before the
work continues. A file lock, which the kernel releases when a process dies, tells whether the attempt is alone in its
job, or, with ``together``, in its execution.
"""

import fcntl
import json
import os
import sys
import time


def main() -> None:
    folder, first_s, again_s = sys.argv[1:4]
    together = sys.argv[4:] == ["together"]
    fields: dict[str, object] = {name: int(os.environ[f"CHRONOS_{name.upper()}"]) for name in ("attempt", "token")}
    fields |= {name: os.environ[f"CHRONOS_{name.upper()}"] for name in ("job", "execution_id", "scheduled_at")}
    lock = os.open(f"{folder}/{fields['execution_id' if together else 'job']}.lock", os.O_CREAT | os.O_WRONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    history = os.open(f"{folder}/history.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    write_line(history, {**fields, "event": "start", "alone": alone, "pid": os.getpid()})
    work(folder, first_s if is_first(f"{folder}/{fields['execution_id']}.started") else again_s)
    write_line(history, {**fields, "event": "end"})


def work(folder: str, takes_s: str) -> None:
    if takes_s == "gate":
        os.close(os.open(f"{folder}/gate", os.O_RDONLY))  # blocks until the test opens it for writing
    else:
        time.sleep(float(takes_s))


def is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def write_line(history: int, line: dict[str, object]) -> None:
    """Append one whole line, with the time."""
    line |= {"at_s": time.monotonic(), "wall_us": time.time_ns() // 1_000}
    os.write(history, json.dumps(line).encode() + b"\n")
    os.fsync(history)


if __name__ == "__main__":
    main()
