"""Runs the benchmarks: ``python -m bench [NAME…]`` prints a table per benchmark and writes results.json."""

import argparse
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from bench import Row

HERE = Path(__file__).parent


def list_names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def format_table(rows: Sequence[Row]) -> str:
    """The rows as text: one column per library, with the ratio to ours, then the goals."""
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    with_goals = any(row.goal is not None for row in rows)
    cells = [["", "unit", "chronos", *others, *(["goal"] if with_goals else [])]]
    for row in rows:
        figures = [f"{row.others[o]:,.2f} ({row.ratio(o):.2f}×)" if o in row.others else "–" for o in others]
        cells.append([row.case, row.unit, f"{row.ours:,.2f}", *figures, *([row.verdict()] if with_goals else [])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_format_line(line, widths) for line in cells)


def _format_line(cells: Iterable[str], widths: Iterable[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(list_names()) or 'none yet'}")
    chosen: list[str] = parser.parse_args().names or list_names()
    if unknown := set(chosen) - set(list_names()):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are: {', '.join(list_names())}")

    results: dict[str, list[Row]] = {}
    for name in chosen:
        results[name] = import_module(f"bench.bench_{name}").run()
        print(f"{name}\n{format_table(results[name])}\n", flush=True)

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
