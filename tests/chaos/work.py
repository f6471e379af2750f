"""The work of the jobs: writes down on its own account that it began and that it ended, and is slow in between.

``python -I -S work.py FOLDER FIRST_S AGAIN_S [together]``: it takes FIRST_S seconds when an execution begins and
AGAIN_S when it has begun before; where FIRST_S is ``gate``, it takes until somebody opens FOLDER/gate. Every line is on
disk before the work goes on. A lock, which the kernel takes from the dead, tells whether it is alone: among all of its
job, or, with ``together``, among the tries of its execution.
"""

import fcntl
import json
import os
import sys
import time


def main() -> None:
    folder, first_s, again_s = sys.argv[1:4]
    together = sys.argv[4:] == ["together"]
    said: dict[str, object] = {name: int(os.environ[f"CHRONOS_{name.upper()}"]) for name in ("attempt", "token")}
    said |= {name: os.environ[f"CHRONOS_{name.upper()}"] for name in ("job", "execution_id", "scheduled_at")}
    lock = os.open(f"{folder}/{said['execution_id' if together else 'job']}.lock", os.O_CREAT | os.O_WRONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    history = os.open(f"{folder}/history.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    note(history, {**said, "what": "start", "alone": alone, "pid": os.getpid()})
    work(folder, first_s if is_first(f"{folder}/{said['execution_id']}.begun") else again_s)
    note(history, {**said, "what": "end"})


def work(folder: str, takes_s: str) -> None:
    if takes_s == "gate":
        os.close(os.open(f"{folder}/gate", os.O_RDONLY))  # which waits for somebody who could write to it
    else:
        time.sleep(float(takes_s))


def is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def note(history: int, line: dict[str, object]) -> None:
    """One line, whole, in the order in which things happened on this machine."""
    line |= {"at_s": time.monotonic(), "wall_us": time.time_ns() // 1_000}
    os.write(history, json.dumps(line).encode() + b"\n")
    os.fsync(history)


if __name__ == "__main__":
    main()
