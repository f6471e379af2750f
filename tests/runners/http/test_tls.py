"""The http target with TLS: which certificates are accepted, and for how long."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.runners.http.runner import HttpRunner
from tests.support.http_servers import Server, answer, failed
from tests.support.target_calls import make_call


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate_file = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate_file)]
    subprocess.run([openssl, *options.split(), *files], check=True, capture_output=True)
    return certificate_file, key


async def _secure_calls(
    certificate: tuple[Path, Path], hosts: list[str], between: Callable[[], object] = int, **settings: Any
) -> tuple[list[Outcome], int]:
    """Make calls to a TLS server. Returns the outcomes and the number of connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = Server(answer())
    listening = await asyncio.start_server(server._accept, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    runner = HttpRunner(allow_private=True, **settings)
    outcomes = []
    try:
        for host in hosts:
            outcomes.append(await runner.run(make_call({"url": f"https://{host}:{port}/"})))
            between()
        return outcomes, server.connections
    finally:
        await runner.close()
        listening.close()
        for task in server._tasks:
            task.cancel()
        await asyncio.gather(*server._tasks, return_exceptions=True)


def test_an_untrusted_certificate_fails(certificate: tuple[Path, Path]) -> None:
    [outcome], _ = asyncio.run(_secure_calls(certificate, ["localhost"]))
    assert failed(outcome).kinds == ("connection", "tls")
    assert "certificate" in failed(outcome).error
    assert failed(outcome).worth_retrying


def test_a_certificate_is_valid_for_its_own_name_only(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    outcomes, connections = asyncio.run(_secure_calls(certificate, ["localhost", "localhost", "127.0.0.1"]))
    assert outcomes[:2] == [Succeeded(), Succeeded()]
    assert failed(outcomes[2]).kinds == ("connection", "tls")
    assert connections == 1


@pytest.mark.parametrize(("max_age_s", "ends"), [(0.0, Failed), (3_600.0, Succeeded)])
def test_authorities_that_are_no_longer_trusted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, max_age_s: float, ends: type[Outcome]
) -> None:
    """A connection made while they were trusted is not reused after the node has loaded the authorities again."""
    authorities = certificate[0].with_name("authorities.pem")
    authorities.write_bytes(certificate[0].read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    monkeypatch.setenv("SSL_CERT_DIR", str(authorities.with_name("none")))

    async def go() -> list[Outcome]:
        return (
            await _secure_calls(
                certificate, ["localhost"] * 2, lambda: authorities.unlink(missing_ok=True), max_age_s=max_age_s
            )
        )[0]

    assert [type(outcome) for outcome in asyncio.run(go())] == [Succeeded, ends]


def test_a_server_that_does_not_speak_tls() -> None:
    async def go() -> Outcome:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        runner = HttpRunner(allow_private=True)
        port = server.sockets[0].getsockname()[1]
        try:
            return await runner.run(make_call({"url": f"https://127.0.0.1:{port}/"}))
        finally:
            await runner.close()
            server.close()

    assert failed(asyncio.run(go())).kinds == ("connection", "tls")
