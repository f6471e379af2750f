"""How a store reaches its database: rights of users, passwords, Unix sockets, TLS."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from chronos.errors import Invalid, StoreBroken, StoreUnavailable
from chronos.store.sql.postgres.database_url import ConnectionAddress
from chronos.store.sql.postgres.store import PostgresStore
from chronos.testing.conformance import StoreFixture
from tests.support.databases import Server, as_user, database_url, on_server, opened
from tests.support.tcp_proxy import proxied

PASSWORD = "p@ss:fixture/rd?#%&+ =é\"'"


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """The name of a user without any rights, which is also the name of the database."""
    name = ConnectionAddress.of(postgres_url).database
    asyncio.run(on_server(postgres_url, f"create role {name} login"))
    yield name
    asyncio.run(
        on_server(postgres_url, f"reassign owned by {name} to postgres", f"drop owned by {name}", f"drop role {name}")
    )


async def use(url: str) -> None:
    """Open a store twice, write, read and maintain it."""
    for _ in range(2):
        async with opened(url) as store:
            fixture = StoreFixture(store)
            await fixture.start_node()
            await fixture.save("job")
            execution = await fixture.admit_one()
            assert (await fixture.settle(execution)).settled == [execution.id]
            await store.maintain(fixture.now_us)
            assert await store.verify() == []


def refused(url: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        asyncio.run(PostgresStore(url).open())


# --- rights


@pytest.mark.parametrize(
    "grant",
    [
        'alter database "{role}" owner to {role}',
        'grant create on database "{role}" to {role}',
        "create schema chronos authorization {role}",
        "create schema chronos; grant usage, create on schema chronos to {role}",
    ],
)
def test_a_user_needs_few_rights(postgres_url: str, role: str, grant: str) -> None:
    asyncio.run(on_server(postgres_url, *grant.format(role=role).split("; ")))
    asyncio.run(use(as_user(postgres_url, role, "")))


def test_the_messages_say_which_right_to_grant(postgres_url: str, role: str) -> None:
    url = as_user(postgres_url, role, "")
    refused(
        f"{url}&schema=batch",
        StoreBroken,
        f'the user "{role}" lacks a permission to create the schema "batch"; let an administrator run '
        f'create schema "batch" authorization "{role}", or grant create on database',
    )
    asyncio.run(on_server(postgres_url, "create schema chronos", f"grant usage on schema chronos to {role}"))
    refused(url, StoreBroken, f'run grant usage, create on schema "chronos" to "{role}"')
    asyncio.run(on_server(postgres_url, f"grant create on schema chronos to {role}"))
    asyncio.run(use(url))


def test_tables_of_another_user_are_refused_unless_the_user_shares_its_role(postgres_url: str, role: str) -> None:
    asyncio.run(use(postgres_url))
    asyncio.run(
        on_server(
            postgres_url,
            f"grant usage, create on schema chronos to {role}",
            f"grant all on all tables in schema chronos to {role}",
        )
    )
    url = as_user(postgres_url, role, "")
    refused(url, StoreBroken, f'tables in the schema "chronos" belong to "postgres"; .* grant "postgres" to "{role}"')
    asyncio.run(on_server(postgres_url, f"grant postgres to {role}"))
    asyncio.run(use(url))


# --- passwords and sockets


def test_a_password_may_have_special_characters(own_server: Server) -> None:
    literal = PASSWORD.replace("'", "''")
    asyncio.run(
        on_server(own_server.url, f"create role ana login password '{literal}'", "create database jobs owner ana")
    )
    own_server.ask_for_passwords()
    url = database_url(own_server.url, "jobs")
    asyncio.run(use(as_user(url, "ana", quote(PASSWORD, safe=""))))
    refused(as_user(url, "ana", quote(PASSWORD[:-1], safe="")), StoreUnavailable, 'rejects the user "ana"')


def test_a_unix_socket_is_named_in_two_ways(prepared_url: str, tmp_path: Path) -> None:
    parts = urlsplit(prepared_url)
    folder = parse_qs(parts.query)["host"][0]
    asyncio.run(use(f"postgresql://{parts.path}?host={folder}&user=postgres"))
    asyncio.run(use(f"postgresql://postgres@{quote(folder, safe='')}{parts.path}"))
    refused(
        f"postgresql://{parts.path}?host={tmp_path}&user=postgres",
        StoreUnavailable,
        f"PostgreSQL at {tmp_path}, .* cannot be reached .no socket there.; check that it runs and that host",
    )


# --- TLS


@pytest.fixture
def make_certificate(tmp_path: Path) -> Callable[..., Path]:
    """A function that makes a certificate, signed by another one or by itself; its key has the suffix ``.key``."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make certificates with")

    def make(name: str, *extensions: str, signer: Path | None = None) -> Path:
        file = tmp_path / f"{name}.pem"
        options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        files = ["-subj", f"/CN={name}", "-keyout", str(file.with_suffix(".key")), "-out", str(file)]
        more = [part for extension in extensions for part in ("-addext", extension)]
        signed = [] if signer is None else ["-CA", str(signer), "-CAkey", str(signer.with_suffix(".key"))]
        subprocess.run([openssl, *options.split(), *files, *more, *signed], check=True, capture_output=True)
        return file

    return make


def test_verify_full_accepts_only_the_right_certificate(
    prepared_url: str, make_certificate: Callable[..., Path]
) -> None:
    authority, stranger = make_certificate("authority"), make_certificate("stranger")
    certificate = make_certificate("server", "subjectAltName=DNS:localhost", signer=authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))

    async def is_refused(url: str, error: type[Exception], reason: str) -> None:
        with pytest.raises(error, match=reason):
            await PostgresStore(url).open()

    async def check() -> None:
        async with proxied(prepared_url, tls) as proxy:
            by_name = proxy.url.replace("127.0.0.1", "localhost")
            await use(f"{by_name}?sslmode=verify-full&sslrootcert={authority}")
            await use(f"{proxy.url}?sslmode=verify-ca&sslrootcert={authority}")
            advice = "name the file of the authority that signed it as sslrootcert in the store URL, and the host as"
            for url, file in ((by_name, stranger), (proxy.url, authority)):
                await is_refused(f"{url}?sslmode=verify-full&sslrootcert={file}", StoreUnavailable, advice)
            missing = f"{by_name}?sslmode=verify-full&sslrootcert={authority}.old"
            await is_refused(missing, Invalid, "this file cannot be read")
            await is_refused(f"{by_name}?sslmode=verify-most", Invalid, "`sslmode` parameter must be one of: disable")

    asyncio.run(check())


def test_a_server_without_tls_is_named(prepared_url: str) -> None:
    async def check() -> None:
        async with proxied(prepared_url) as proxy:
            with pytest.raises(StoreUnavailable, match="does not offer TLS; set ssl = on"):
                await PostgresStore(f"{proxy.url}?sslmode=require").open()

    asyncio.run(check())
