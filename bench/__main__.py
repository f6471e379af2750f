"""Runs the benchmarks: ``python -m bench [NAME…]`` prints a table of each and writes results.json."""

import argparse
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from bench import Row

HERE = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def table(rows: Sequence[Row]) -> str:
    """The rows as text: one column per library, each with how many times better we are, then the goals, if any."""
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    with_goals = any(row.goal is not None for row in rows)
    cells = [["", "unit", "chronos", *others, *(["goal"] if with_goals else [])]]
    for row in rows:
        figures = [f"{row.others[o]:,.2f} ({row.ratio(o):.2f}×)" if o in row.others else "–" for o in others]
        cells.append([row.case, row.unit, f"{row.ours:,.2f}", *figures, *([row.verdict()] if with_goals else [])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(line, widths) for line in cells)


def _line(cells: Iterable[str], widths: Iterable[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(names()) or 'none yet'}")
    chosen: list[str] = parser.parse_args().names or names()
    if unknown := set(chosen) - set(names()):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are: {', '.join(names())}")

    results: dict[str, list[Row]] = {}
    for name in chosen:
        results[name] = import_module(f"bench.bench_{name}").run()
        print(f"{name}\n{table(results[name])}\n", flush=True)

    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "results": {
            name: [{**asdict(row), "verdict": row.verdict()} for row in rows] for name, rows in results.items()
        },
    }
    (HERE / "results.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
