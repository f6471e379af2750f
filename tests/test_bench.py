"""The benchmarks' table tells who is better, and by how much."""

from bench import Row
from bench.__main__ import table


def test_ratios_above_one_mean_we_are_better() -> None:
    assert Row(case="next", unit="µs", ours=2, others={"x": 10}).ratio("x") == 5
    assert Row(case="claims", unit="/s", ours=10, others={"x": 2}, higher_is_better=True).ratio("x") == 5


def test_the_table_has_a_column_per_library() -> None:
    rows = [
        Row(case="* * * * *", unit="µs", ours=2, others={"cronsim": 3}),
        Row(case="parse", unit="µs", ours=10, others={"croniter": 5}),
    ]
    assert table(rows).splitlines() == [
        "           unit  chronos      cronsim     croniter",
        "* * * * *    µs     2.00  3.00 (1.5×)            –",
        "parse        µs    10.00            –  5.00 (0.5×)",
    ]
