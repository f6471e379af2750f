"""Templates: names are looked up, nothing is evaluated, and secrets are masked."""

from typing import Any

import pytest

from chronos.core.credentials import MASK
from chronos.core.planner import CoveredSpan
from chronos.errors import Invalid, NotFound
from chronos.runners.secret_mask import MaskedStream, SecretMask
from chronos.runners.templates import Renderer, check_template
from tests.support.target_calls import make_call

PAYLOAD = {"order": {"id": 17, "tags": ["a", {"b": None}]}, "text": "x", "__class__": "plain"}


def renderer(mask: SecretMask | None = None, **changes: Any) -> Renderer:
    call = make_call({}, payload=PAYLOAD, **changes)
    return Renderer(call, {"KEY": "s3cr3t/+ value"}.get, mask or SecretMask())


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("plain", "plain"),
        ("{ {x} }", "{ {x} }"),
        ("at {{execution.scheduled_at}}", "at 2027-01-15T08:00:00Z"),
        ("{{ execution.id }}", "0190f1f2-aaaa-8bbb-8ccc-dddddddddddd"),
        ("{{ job.namespace }}/{{ job.name }}#{{ execution.attempt }}", "default/report#1"),
        ("{{ payload.order.id }}", 17),
        ("n={{ payload.order.id }}", "n=17"),
        ("{{ payload.order.tags }}", ["a", {"b": None}]),
        ("t={{ payload.order.tags }}", 't=["a",{"b":null}]'),
        ("{{ payload.order.tags.1.b }}", None),
        ("{{ payload.__class__ }}", "plain"),
        ({"a": ["{{ payload.text }}", 5, None]}, {"a": ["x", 5, None]}),
        ({"{{ payload.text }}": 1}, {"{{ payload.text }}": 1}),
        ("{{ execution.last_run_at }}", None),
    ],
)
def test_placeholders_become_values(template: Any, value: Any) -> None:
    check_template("x", template)
    assert renderer().value("x", template) == value


def test_rendered_values_are_not_rendered_again() -> None:
    call = make_call({}, payload={"a": "{{ secret.KEY }}"})
    assert Renderer(call, {"KEY": "no"}.get, SecretMask()).text("x", "<{{ payload.a }}>") == "<{{ secret.KEY }}>"


def test_the_span_of_a_compressed_run() -> None:
    span = CoveredSpan(from_us=0, to_us=60_000_000, count=2)
    text = "{{ span.from }} {{ span.to }} {{ span.count }}"
    assert renderer(span=span).text("x", text) == "1970-01-01T00:00:00Z 1970-01-01T00:01:00Z 2"


def test_any_other_run_spans_its_own_instant() -> None:
    text = "{{ span.from }} {{ span.to }} {{ span.count }}"
    assert renderer().text("x", text) == "2027-01-15T08:00:00Z 2027-01-15T08:00:00Z 1"


def test_the_ids_of_a_task_run_and_an_attempt() -> None:
    text = renderer().text("x", "{{ execution.task_run_id }} {{ execution.attempt_id }}")
    assert text == "033f4f5f-b6dd-56a3-a068-49b6c1c1b588 1c881070-c766-8e38-93f7-adb9a0cde1ba"


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("{{ payload.order.idd }}", '"payload.order.idd" does not exist; did you mean "id"?'),
        ("{{ payload.nothing }}", '"payload.nothing" does not exist; use one of order, text'),
        ("{{ payload.order.id.x }}", '"payload.order.id.x" does not exist'),
        ("{{ payload.order.tags.2 }}", '"payload.order.tags.2" does not exist'),
        ("{{ payload.text.upper }}", '"payload.text.upper" does not exist'),
    ],
)
def test_unknown_names_are_reported(template: str, error: str) -> None:
    check_template("x", template)
    with pytest.raises(Invalid) as raised:
        renderer().text("x", template)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("{{ exection.id }}", '"exection.id" is unknown; did you mean "execution"?'),
        ("{{ execution.schduled_at }}", 'did you mean "scheduled_at"?'),
        ("{{ execution.id.hex }}", "is unknown"),
        ("{{ execution }}", "is unknown"),
        ("{{ secret }}", "write secret.NAME"),
        ("{{ 7*7 }}", "nothing is evaluated"),
        ("{{ payload['a'] }}", "nothing is evaluated"),
        ("{{ ''.__class__ }}", "nothing is evaluated"),
        ("{{ payload. }}", "nothing is evaluated"),
        ("{{}}", "nothing is evaluated"),
        ("{{ payload", 'has "{{" without "}}"'),
        ("{{ {{ payload }} }}", "nothing is evaluated"),
        ({"a": ["{{ nope }}"]}, "x.a[0]"),
    ],
)
def test_invalid_placeholders_are_rejected_when_a_job_is_saved(template: Any, error: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_template("x", template)
    assert error in str(raised.value)


def test_the_nesting_of_values_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(1_000):
        deep = [deep]
    with pytest.raises(Invalid, match="nested more than 64 levels deep"):
        check_template("json", deep)


def test_secrets_are_looked_up_by_name_and_masked() -> None:
    mask = SecretMask()
    assert renderer(mask).text("x", "Bearer {{ secret.KEY }}") == "Bearer s3cr3t/+ value"
    shown = "raw s3cr3t/+ value, url s3cr3t%2F%2B%20value, form s3cr3t%2F%2B+value, base64 czNjcjN0LysgdmFsdWU="
    assert mask(shown) == f"raw {MASK}, url {MASK}, form {MASK}, base64 {MASK}"
    with pytest.raises(NotFound, match='secret "OTHER" does not exist'):
        renderer().text("x", "{{ secret.OTHER }}")


def test_a_secret_is_masked_wherever_a_stream_is_split() -> None:
    secret, text = "abcabd", "xabcabcabdyabcab abcabd"
    for first in range(len(text)):
        for second in range(first, len(text)):
            mask = SecretMask()
            mask.add(secret)
            stream = MaskedStream(mask)
            pieces = (text[:first], text[first:second], text[second:])
            assert "".join(map(stream.feed, pieces)) + stream.flush() == f"xabc{MASK}yabcab {MASK}"


def test_a_stream_masks_the_password_of_a_url_that_arrives_in_pieces() -> None:
    for size in (1, 3, 7, 100):
        text, stream = "to postgres://robot:pw-0123456789@db/orders: done\nhttp://host/ ok", MaskedStream(SecretMask())
        pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join((*pieces, stream.flush())) == "to postgres://***@db/orders: done\nhttp://host/ ok"
