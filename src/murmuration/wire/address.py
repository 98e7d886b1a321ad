"""The address of a campaign, whose collector it is, and which may be spoken to in plain HTTP.

Plain HTTP only with this machine itself: what stays on it can be read by nobody else. A collector
is a host, whatever ports it listens on: the person's limit on a collector is a limit on a host.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from murmuration.errors import ParameterError


@dataclass(frozen=True)
class Address:
    """Where a campaign is collected, such as https://collector.example/v1/campaigns/phones."""

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str, allow_plain_http: bool = False) -> Self:
        """Read an address; refuse one whose traffic others could read, unless it is allowed.

        >>> Address.parse("http://127.0.0.1:8750/v1/campaigns/phones").port
        8750
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        secure = parts.scheme == "https"
        extra = parts.query or parts.fragment or "@" in parts.netloc
        if parts.scheme not in ("http", "https") or not host or extra or not _plain(url):
            raise ParameterError(
                "not an address of a campaign: use https://HOST/v1/campaigns/NAME, "
                "without a user, a query or a fragment"
            )
        if not secure and not allow_plain_http and not is_loopback(host):
            raise ParameterError(
                f"{host} is another machine and this is plain HTTP: reports and tokens could be "
                "read on the way. Use https://, or allow it: --plain-http, allow_plain_http=True."
            )
        return cls(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))

    @property
    def origin(self) -> str:
        """Whose collector it is: how to speak to it, host and port, as browsers have it.

        >>> Address.parse("https://Collector.example/v1/campaigns/phones").origin
        'https://collector.example:443'
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host.lower()}:{self.port}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.secure else 80)
        place = host if usual else f"{host}:{self.port}"
        return f"http{'s' if self.secure else ''}://{place}{self.path}"


def _plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it.

    >>> [is_loopback(host) for host in ("localhost", "127.1", "::1", "0.0.0.0", "10.0.0.1")]
    [True, True, True, False, False]
    """
    ip = _ip_of(host)
    return host.lower().rstrip(".") == "localhost" if ip is None else ip.is_loopback


def collector_of(origin: str) -> str:
    """Return which collector an origin belongs to: its host, in one spelling.

    All names of this machine are one; so are all spellings of an IP address.

    >>> {collector_of(f"http://{host}:8750") for host in ("localhost", "127.1", "[::1]")}
    {'localhost'}
    >>> collector_of("https://Collector.example.:8443"), collector_of("https://[2001:DB8:0::1]:443")
    ('collector.example', '2001:db8::1')
    """
    host = (urlsplit(origin).hostname or origin).rstrip(".")
    ip = _ip_of(host)
    if is_loopback(host):
        return "localhost"
    return host if ip is None else str(ip)


def _ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a host is, by any spelling that systems take (127.1); or None."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip
