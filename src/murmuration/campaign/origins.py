"""Web origins whose pages may take part: written exactly as browsers write them.

A browser tells the collector where a page comes from (`Origin: https://app.example`), and the text
is compared as it is. So one that no browser would send is a mistake, and is refused here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from murmuration.errors import ParameterError

MOST_ORIGINS = 64
USUAL_PORTS = {"https": 443, "http": 80}
_FORM = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?")


def checked_origin(text: str) -> str:
    """Return an origin that a browser may send, or say what is wrong with it.

    >>> checked_origin("https://app.example")
    'https://app.example'
    >>> checked_origin("https://app.example:443")
    Traceback (most recent call last):
        ...
    murmuration.errors.ParameterError: https://app.example:443: browsers leave the usual port out: \
https://app.example
    """
    parts = _FORM.fullmatch(text)
    if parts is None:
        raise ParameterError(
            f"{text}: an origin is https://HOST or https://HOST:PORT in small letters, without a "
            "path, a slash at the end or a *: name each one"
        )
    scheme, host, port = parts[1], parts[2], parts[3]
    if port is not None and (int(port) > 65535 or int(port) == USUAL_PORTS[scheme]):
        raise ParameterError(f"{text}: browsers leave the usual port out: {scheme}://{host}")
    if not _is_host(host):
        raise ParameterError(f"{text}: {host} is not a valid host")
    if scheme == "http" and not _is_here(host):
        raise ParameterError(
            f"{text}: a page that is not encrypted cannot take part, except on this machine "
            "(http://localhost:3000): use https://"
        )
    return text


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Return origins, all different and not too many, or say what is wrong with them."""
    checked = tuple(map(checked_origin, origins))
    if len(set(checked)) < len(checked) or len(checked) > MOST_ORIGINS:
        raise ParameterError(f"origins must all be different, and {MOST_ORIGINS} at most")
    return checked


def _is_host(host: str) -> bool:
    """Whether a browser would write it so: an address in its one form, or names between dots."""
    if host.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(host[1:-1])}]" == host
        except ValueError:
            return False
    labels = host.split(".")
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1]):  # then browsers take it for an address
        try:
            return str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            return False
    return all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", label) for label in labels)


def _is_here(host: str) -> bool:
    """Whether only this machine has it: what browsers trust without encryption."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
