"""Certificates near their end: a warning in time, and a metric."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
import trustme
from cryptography import x509
from tests.service.rig import Rig

from dutiful.httpd.tls import TlsFiles
from dutiful.service.metrics import Metrics, look_at_certificates
from dutiful.testing import VirtualClock

END = datetime(2030, 6, 30, 12, tzinfo=UTC)


@pytest.fixture
def files(tmp_path):
    ca = trustme.CA()
    leaf = ca.issue_cert("localhost", not_after=END.replace(tzinfo=None))
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    ca.cert_pem.write_to_path(tmp_path / "clients.pem")
    return TlsFiles(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"), str(tmp_path / "clients.pem"))


def looked(files, now, caplog):
    caplog.clear()
    metrics = Metrics(lambda: 0)
    look_at_certificates(files, VirtualClock(now), metrics)
    text = metrics.text()
    return [record.getMessage() for record in caplog.records], text


@pytest.mark.parametrize(
    ("now", "warnings"),
    [
        ("2030-06-16T11:59:00+00:00", []),
        (
            "2030-06-16T12:00:00+00:00",
            ["the certificate of the server expires: 2030-06-30 12:00Z; put a new one in its place"],
        ),
        (
            "2030-06-30T12:00:00+00:00",
            ["the certificate of the server has expired: 2030-06-30 12:00Z; put a new one in its place"],
        ),
    ],
)
def test_what_expires_within_two_weeks_is_warned_of(files, now, warnings, caplog):
    assert looked(files, now, caplog)[0] == warnings


def test_the_authority_of_the_clients_is_looked_at_too(files, caplog):
    assert files.client_ca is not None
    with open(files.client_ca, "rb") as file:
        end = x509.load_pem_x509_certificate(file.read()).not_valid_after_utc
    warnings, text = looked(files, end.isoformat(), caplog)
    assert f"the authority of the clients has expired: {end:%Y-%m-%d %H:%M}Z" in warnings[1]
    name = "dutiful_certificate_expires_timestamp_seconds"
    told = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line.startswith(name)}
    assert told == {
        f'{name}{{certificate="server"}}': END.timestamp(),
        f'{name}{{certificate="client_ca"}}': end.timestamp(),
    }


def test_a_file_that_cannot_be_read_is_reported_and_stops_nothing(files, caplog):
    with open(files.cert, "w") as file:
        file.write("nonsense")
    [warning], _ = looked(files, "2030-01-01T00:00:00+00:00", caplog)
    assert warning.startswith("it is not known when the certificates expire: TLS cannot be set up from ")


def test_a_service_with_tls_looks_by_itself_when_it_starts_and_later(files, caplog):
    environ = {"DUTIFUL_TLS_CERT": files.cert, "DUTIFUL_TLS_KEY": files.key}

    async def story():
        async with Rig(start="2030-06-16T09:00:00+00:00", **environ) as rig:
            await rig.clock.advance(1)
            before = len(caplog.records)
            await rig.clock.advance(6 * 3600)
            return before, rig.service.metrics()

    before, text = asyncio.run(story())
    warnings = [record.getMessage() for record in caplog.records[before:]]
    assert "the certificate of the server expires: 2030-06-30 12:00Z; put a new one in its place" in warnings
    assert 'dutiful_certificate_expires_timestamp_seconds{certificate="server"}' in text
