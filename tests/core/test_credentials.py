"""Credentials: how they are recognised and masked in texts and options."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from chronos.core.credentials import (
    CREDENTIAL_SUBSTRINGS,
    CREDENTIAL_WORDS,
    hide_url_credentials,
    hide_userinfo,
    is_credential_name,
    list_secrets,
    mask_fields_by_name,
    mask_options,
)


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "proxy-authorization",
        "Cookie",
        "X-API-Key",
        "X-Auth",
        "x-vault-token",
        "X-Hub-Signature-256",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSHPASS",
        "DB_PASS",
        "dbPass",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_PAT",
        "SENTRY_DSN",
        "STRIPE_KEY",
        "apiKey",
        "SESSION_ID",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_a_name_of_a_credential_is_recognised(name: str) -> None:
    assert is_credential_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "Accept",
        "Content-Type",
        "X-Author",
        "X-Team",
        "MONKEY",
        "COMPASS",
        "PATH",
        "HOME",
        "X-Request-Id",
        "Keyboard",
        "",
    ],
)
def test_other_names_are_not_credentials(name: str) -> None:
    assert not is_credential_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ana:pw@host/x", "https://***@host/x"),
        ("https://token@host", "https://***@host"),
        ("postgres://u:p@ss@host:5432/db?x=1", "postgres://***@host:5432/db?x=1"),
        ("see redis://:pw@one/0 and amqp://a:b@two/", "see redis://***@one/0 and amqp://***@two/"),
        ('{"to": "https:\\/\\/u:p@host\\/x"}', '{"to": "https:\\/\\/***@host\\/x"}'),
        ("https://{{ payload.user }}:pw@host/", "https://***@host/"),
        ("https://u:pw@{{ payload.host }}/", "https://***@{{ payload.host }}/"),
        ("https://***@host/x", "https://***@host/x"),
    ],
)
def test_user_and_password_of_a_url_are_hidden(text: str, shown: str) -> None:
    assert hide_userinfo(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://host/@user",
        "https://host?to=a@b.c",
        "https://host#@x",
        "mail ana@example.com",
        "a://b c@d",
        "https://host",
        "git@host:repo",
        "://",
        "",
    ],
)
def test_text_without_userinfo_is_unchanged(text: str) -> None:
    assert hide_userinfo(text) == text


def test_a_long_text_is_scanned_once() -> None:
    began_s = time.thread_time()
    for text in (
        "://{{" * 50_000 + "@",
        "://a" * 50_000 + "@",
        "://" + "a" * 200_000,
        "://{{ " + ":// " * 50_000 + "@",
    ):
        hide_userinfo(text)
    assert time.thread_time() - began_s < 5.0


def test_options_without_credentials_are_not_copied() -> None:
    options: dict[str, Any] = {
        "url": "https://host/x",
        "json": {"mail": ["a@b.c", 1, None]},
        "headers": {"Accept": "x"},
    }
    assert mask_options(options) is options
    assert hide_url_credentials(options["json"]) is options["json"]


def test_fields_named_like_credentials_are_masked() -> None:
    alert = {"webhook": {"url": "https://u:p@host", "routing_key": "k", "headers": [{"X-Token": "t"}]}, "on": "failure"}
    assert mask_fields_by_name(alert) == {
        "webhook": {"url": "https://***@host", "routing_key": "***", "headers": [{"X-Token": "***"}]},
        "on": "failure",
    }


def test_the_names_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "targets.md").read_text()
    published = page.partition("**Names.**")[2].partition("**A masked value")[0]
    assert set(re.findall(r"`([a-z]+)`", published)) == {*CREDENTIAL_SUBSTRINGS, *CREDENTIAL_WORDS}


def test_the_parts_of_a_credential_are_secrets_too() -> None:
    assert set(list_secrets("Bearer tok-0123456789")) == {"Bearer tok-0123456789", "tok-0123456789"}
    assert "password" in set(list_secrets("Basic YW5hOnBhc3N3b3Jk"))
    assert "sid-0123456789" in set(list_secrets("theme=dark; sid=sid-0123456789"))
    assert list(list_secrets("1")) == []
