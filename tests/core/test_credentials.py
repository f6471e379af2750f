"""Which values of a job are credentials, and how texts and options look without them."""

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
def test_names_of_credentials(name: str) -> None:
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
def test_names_of_other_things(name: str) -> None:
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
def test_users_and_passwords_of_urls(text: str, shown: str) -> None:
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
def test_texts_without_one(text: str) -> None:
    assert hide_userinfo(text) == text


def test_a_long_text_is_gone_through_once() -> None:
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


def test_values_of_unknown_shape() -> None:
    alert = {"webhook": {"url": "https://u:p@host", "routing_key": "k", "headers": [{"X-Token": "t"}]}, "on": "failure"}
    assert mask_fields_by_name(alert) == {
        "webhook": {"url": "https://***@host", "routing_key": "***", "headers": [{"X-Token": "***"}]},
        "on": "failure",
    }


def test_the_names_are_published() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "targets.md").read_text()
    published = page.partition("**Names.**")[2].partition("**A masked value")[0]
    assert set(re.findall(r"`([a-z]+)`", published)) == {*CREDENTIAL_SUBSTRINGS, *CREDENTIAL_WORDS}


def test_what_is_looked_for_of_a_credential() -> None:
    assert set(list_secrets("Bearer tok-0123456789")) == {"Bearer tok-0123456789", "tok-0123456789"}
    assert "password" in set(list_secrets("Basic YW5hOnBhc3N3b3Jk"))
    assert "sid-0123456789" in set(list_secrets("theme=dark; sid=sid-0123456789"))
    assert list(list_secrets("1")) == []
