"""The address of a campaign, and which addresses may be spoken to in plain HTTP.

Only this machine itself: what stays on it can be read by nobody else.
"""

from __future__ import annotations

import ipaddress
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

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
