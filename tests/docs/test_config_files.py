"""Every configuration file and every JSON example of a target in the documentation is valid."""

import json
from pathlib import Path

import pytest

from chronos.server.config import load_config
from tests.docs.test_examples import PAGES, ROOT, blocks, name
from tests.support.accepted_fields import CHECKS
from tests.support.cli_server import SECRET

CONFIG = "# chronos.yaml\n"
FILES = [
    pytest.param(text, id=f"{name(page)}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "yaml"), 1)
    if text.startswith(CONFIG)
]
KINDS = ("http", "command", "wait")  # in the order of their examples


@pytest.mark.parametrize("text", FILES)
def test_configuration_files_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "chronos.yaml"
    file.write_text(text.replace("$argon2id$…", SECRET))
    load_config(file, {}, {})


def test_targets_are_valid() -> None:
    texts = blocks(ROOT / "docs" / "reference" / "targets.md", "json")
    for kind, text in zip(KINDS, texts, strict=True):
        CHECKS[kind](json.loads(text))
