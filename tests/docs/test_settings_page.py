"""The page about settings contains the table that the code generates."""

from pathlib import Path

from chronos.core.config import Settings
from chronos.core.settings.cascade import NESTED
from chronos.server.cascade_table import cascade_rows, to_markdown

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "settings.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->"


def test_the_page_has_the_table_of_the_code() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert table == to_markdown()


def test_the_table_has_every_field_of_every_setting() -> None:
    named = {row.name for row in cascade_rows()}
    for field in Settings.__struct_fields__:
        count = len(NESTED[field].__struct_fields__) if field in NESTED else 1
        name = field.removesuffix("_us")
        assert sum(one == name or one.startswith(f"{name}.") for one in named) == count, field
