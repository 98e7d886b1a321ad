"""Devices and a collector with TLS, by a private authority: trusted if named, refused if not."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from murmuration import Client
from murmuration.errors import SendError
from tests.support import command
from tests.support.collectors import Collection, one, running
from tests.support.tools import require_tool

CAMPAIGN = one("phones")
ANSWERS = {"phone": "ios"}
NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def openssl(*arguments: object) -> None:
    subprocess.run([require_tool("openssl"), *map(str, arguments)], check=True, capture_output=True)


@dataclass(frozen=True)
class Authority:
    """Somebody who signs certificates."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    def make(self) -> Authority:
        openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj"),
            *(f"/CN={self.name}", "-keyout", self.key, "-out", self.certificate),
        )
        return self

    def signed(self, name: str, days: int = 2, names: str = NAMES) -> tuple[Path, Path]:
        """A certificate for this machine, and its key."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extra = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extra.write_text(names)
        openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=collector"),
            *("-keyout", key, "-out", request),
        )
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key),
            *("-CAcreateserial", "-days", days, "-extfile", extra, "-out", certificate),
        )
        return certificate, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours").make()


@pytest.fixture(scope="module")
def stranger(authority: Authority) -> Authority:
    return Authority(authority.folder, "strangers").make()


@contextmanager
def secured(authority: Authority, store: Path, *given: object) -> Iterator[Collection]:
    """A collector whose certificate this authority has signed; the tests themselves trust it."""
    certificate, key = authority.signed(store.stem, *given)  # type: ignore[arg-type]
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with running(store, CAMPAIGN, certificate=certificate, key=key, tls=anybody) as collector:
        yield collector.collection("phones")


@pytest.fixture(scope="module")
def phones(authority: Authority) -> Iterator[Collection]:
    with secured(authority, authority.folder / "phones.db") as found:
        yield found


def trusting(patch: pytest.MonkeyPatch, authority: Authority | None) -> None:
    if authority is None:
        patch.delenv("SSL_CERT_FILE", raising=False)
    else:
        patch.setenv("SSL_CERT_FILE", str(authority.certificate))


def document_of(phones: Collection, folder: Path) -> Path:
    path = folder / "phones.json"
    path.write_bytes(phones.collector.get("/v1/campaigns/phones").body)
    return path


@pytest.mark.slow
def test_a_client_that_trusts_the_authority(
    phones: Collection, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting(monkeypatch, authority)
    before = phones.status()["people"]
    client = Client(phones.url, tmp_path / "ledger.db")
    assert client.report(ANSWERS).outcome == "stored"
    assert phones.status()["people"] == before + 1


@pytest.mark.slow
def test_murmur_send(phones: Collection, authority: Authority, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("phone\n" + "ios\nother\n" * 50)
    trusted = {"SSL_CERT_FILE": str(authority.certificate)}
    done = command.murmur("send", phones.url, table, "--json", environment=trusted)
    assert json.loads(done.stdout)["stored"] == 100
    document = document_of(phones, tmp_path)
    refused = command.murmur("send", document, table, "--to", phones.url, "--json", code=3)
    assert "certificate is not trusted" in refused.problem + refused.stdout


@pytest.mark.slow
@pytest.mark.parametrize("who", ["nobody", "a stranger"])
def test_a_client_that_does_not_trust_it_keeps_its_report(
    phones: Collection,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
) -> None:
    trusting(monkeypatch, stranger if who == "a stranger" else None)
    with pytest.raises(SendError, match="certificate is not trusted"):
        Client(phones.url, tmp_path / "never.db")
    before = phones.status()["received"]
    client = Client(document_of(phones, tmp_path), tmp_path / "ledger.db", send_to=phones.url)
    with pytest.raises(SendError, match=r"not trusted \(.*SSL_CERT_FILE.*The report is kept"):
        client.report(ANSWERS)
    assert len(client.ledger.pending()) == 1
    assert phones.status()["received"] == before
    trusting(monkeypatch, authority)
    assert [receipt.outcome for receipt in client.resend()] == ["stored"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "days", "names", "why"),
    [
        ("expired.db", -1, NAMES, "expired"),
        ("elsewhere.db", 2, "subjectAltName=DNS:elsewhere.example", "mismatch"),
    ],
)
def test_a_certificate_that_is_not_for_this_host_or_time(
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    days: int,
    names: str,
    why: str,
) -> None:
    trusting(monkeypatch, authority)
    with secured(authority, authority.folder / store, days, names) as phones:
        client = Client(document_of(phones, tmp_path), tmp_path / "ledger.db", send_to=phones.url)
        with pytest.raises(SendError, match=why):
            client.report(ANSWERS)
        assert len(client.ledger.pending()) == 1
        assert phones.status()["received"] == 0


@pytest.mark.slow
def test_a_collector_refuses_a_key_that_others_can_read(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.signed("loose")
    key.chmod(0o644)
    (tmp_path / "phones.toml").write_text(CAMPAIGN)
    done = command.murmur(
        *("serve", "phones.toml", "--certificate", certificate, "--key", key),
        folder=tmp_path,
        code=2,
    )
    assert f"chmod 600 {key}" in done.problem
    assert not (tmp_path / "phones.db").exists()
