"""Links between Markdown pages lead to a file and a heading, and the site's navigation lists every page."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_examples import BLOCK, PAGES, ROOT, name

DOCS = ROOT / "docs"
SOURCES = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+?) *$", re.MULTILINE)


def text_without_code(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "code", BLOCK.sub("", page.read_text()))


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(text_without_code(page)) if not target.startswith("https://")]


def site_anchor(heading: str) -> str:
    """The anchor that the site makes of a heading."""
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def forge_anchor(heading: str) -> str:
    """The anchor that GitHub and GitLab make of a heading."""
    return re.sub(r"[^\w\s-]", "", heading).lower().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Anchors that work in both places."""
    texts = [heading.replace("`", "") for heading in HEADING.findall(BLOCK.sub("", page.read_text()))]
    return {site_anchor(text) for text in texts} & {forge_anchor(text) for text in texts}


@pytest.mark.parametrize("page", SOURCES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{name(page)}: {link} does not exist"
        assert not anchor or anchor in anchors(target), f"{name(page)}: {link} names a heading that does not exist"
        assert DOCS not in page.parents or DOCS in target.parents, f"{name(page)}: {link} is not part of the site"


def test_a_heading_has_one_anchor() -> None:
    linked = {link.partition("#")[2] for source in SOURCES for link in links(source)}
    for page in SOURCES:
        texts = [site_anchor(text) for text in HEADING.findall(BLOCK.sub("", page.read_text()))]
        assert not [text for text in set(texts) & linked if texts.count(text) > 1], name(page)


def test_broken_links_are_found() -> None:
    page = ROOT / "README.md"
    assert LINK.findall("[a](b.md#c) and [d](https://e)") == ["b.md#c", "https://e"]
    assert "no-such-heading" not in anchors(page)
    assert site_anchor("`retry`, `retry_policy`") == forge_anchor("retry, retry_policy") == "retry-retry_policy"


def pages_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages_of(value)


def test_the_navigation_lists_every_page() -> None:
    """Decisions are listed by their index instead."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    listed = list(pages_of(site["nav"]))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == {page for page in pages if not re.match(r"decisions/\d", page)}


def test_the_index_lists_every_decision() -> None:
    index = DOCS / "decisions" / "index.md"
    pages = sorted(page.name for page in index.parent.glob("[0-9]*.md"))
    assert sorted(links(index)) == pages
    assert [int(page[:4]) for page in pages] == list(range(1, len(pages) + 1))
