"""The URL of a PostgreSQL store: parameters, special characters, and what is refused."""

from urllib.parse import quote

import pytest
from asyncpg.connect_utils import _parse_connect_dsn_and_args
from hypothesis import given
from hypothesis import strategies as st

from chronos.errors import Invalid
from chronos.store.sql.postgres.database_url import ConnectionAddress, DatabaseUrl

SECRET = "canary-password"


def driver_parameters(url: DatabaseUrl) -> tuple[list[object], dict[str, object]]:
    """Return the addresses and the parameters that the client library reads from a URL."""
    names = "host port user password passfile database ssl service servicefile direct_tls server_settings"
    more = "target_session_attrs krbsrvname gsslib"
    options = dict.fromkeys((names + " " + more).split())
    addresses, parameters = _parse_connect_dsn_and_args(dsn=url.driver_url, **options)
    return addresses, parameters._asdict()


def test_own_parameters_are_not_passed_to_the_server() -> None:
    text = "postgresql://ana@db.example/jobs?schema=batch&application_name=billing&connect_timeout=3&sslmode=prefer"
    url = DatabaseUrl.parse(text)
    assert (url.schema, url.application_name, url.connect_timeout_s) == ("batch", "billing", 3.0)
    assert url.driver_url == "postgresql://ana@db.example/jobs?sslmode=prefer"
    plain = DatabaseUrl.parse("postgresql://ana@db.example/jobs")
    assert (plain.schema, plain.application_name, plain.connect_timeout_s) == ("chronos", "chronos", 10.0)
    assert driver_parameters(plain)[1]["server_settings"] is None


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.booleans())
def test_any_password_can_be_written(password: str, as_parameter: bool) -> None:
    encoded = quote(password, safe="")
    login, parameter = ("ana", f"?password={encoded}") if as_parameter else (f"ana:{encoded}", "")
    url = DatabaseUrl.parse(f"postgresql://{login}@db.example/jobs{parameter}")
    assert driver_parameters(url)[1]["password"] == password
    assert url.place == ConnectionAddress("db.example", "jobs", "ana")


@pytest.mark.parametrize(
    ("text", "place", "address"),
    [
        ("postgresql:///jobs?host=/run/pg&user=ana", "/run/pg", "/run/pg/.s.PGSQL.5432"),
        ("postgresql://ana@/jobs?host=/run/pg&port=6432", "/run/pg", "/run/pg/.s.PGSQL.6432"),
        ("postgresql://ana@%2Frun%2Fpg/jobs", "/run/pg", "/run/pg/.s.PGSQL.5432"),
        ("postgresql://ana@/jobs?host=/cloudsql/a:b:c", "/cloudsql/a:b:c", "/cloudsql/a:b:c/.s.PGSQL.5432"),
        ("postgres://ana@[::1]:6000/jobs", "[::1]:6000", ("::1", 6000)),
    ],
)
def test_sockets_and_hosts_are_read_as_the_driver_does(text: str, place: str, address: object) -> None:
    url = DatabaseUrl.parse(text)
    assert url.place == ConnectionAddress(place, "jobs", "ana")
    assert driver_parameters(url)[0] == [address]


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ana:{SECRET}@more@db.example/jobs",
        f"postgresql://ana:{SECRET}#more@db.example/jobs",
        f"postgresql://ana:{SECRET}?more@db.example/jobs",
        f"postgresql://ana:{SECRET}@[::1/jobs",
        f"ana:{SECRET}@db.example/jobs",
    ],
)
def test_an_unreadable_url_asks_for_percent_encoding(text: str) -> None:
    with pytest.raises(Invalid, match="percent-encoded") as caught:
        DatabaseUrl.parse(text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("schema", ["", "Jobs", "1st", "a-b", 'a"b', "a b", "pg_temp", "information_schema", "x" * 64])
def test_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(Invalid, match="invalid schema"):
        DatabaseUrl.parse(f"postgresql://ana@db.example/jobs?schema={quote(schema)}")


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("pgbouncer=true", 'unknown parameter "pgbouncer"; remove it, or use one of: application_name'),
        ("search_path=jobs", 'unknown parameter "search_path"'),
        ("connect_timeout=soon", 'invalid connect_timeout "soon"'),
        ("connect_timeout=0", 'invalid connect_timeout "0"'),
        ("application_name=" + "x" * 33, "invalid application_name"),
        ("channel_binding=require", "sslmode=verify-full"),
    ],
)
def test_parameters_without_an_effect_are_refused(parameter: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        DatabaseUrl.parse(f"postgresql://ana@db.example/jobs?{parameter}")


def test_files_must_be_readable() -> None:
    with pytest.raises(Invalid, match=r"sslrootcert=/nowhere/ca\.pem, but this file cannot be read"):
        DatabaseUrl.parse("postgresql://db.example/jobs?sslrootcert=/nowhere/ca.pem").check_files()
    with pytest.raises(Invalid, match="sslrootcert=system is not supported; name the file"):
        DatabaseUrl.parse("postgresql://db.example/jobs?sslrootcert=system").check_files()
