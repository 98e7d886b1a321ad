"""A real Chromium, and a site that is not the collector's: its pages embed campaigns.

    with chromium() as browser, Site() as site:
        site.add("/", embedding(campaign_url, client_url))
        page = browser.new_page()
        page.goto(site.origin)

The site is `localhost` and collectors are 127.0.0.1: two sites to a browser, both of which may use
crypto.subtle without a certificate.
"""

import html
import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.support.between import HOST
from tests.support.tools import require_tool

SWITCHES = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
CLIENT = "/client/murmuration-client.js"
"""Where collectors serve the client."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, installed if it is missing."""
    path = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        try:
            yield browser
        finally:
            browser.close()


def embedding(
    campaign: str, client: str, attributes: Mapping[str, str] | None = None, body: str = ""
) -> str:
    """A page as the documentation has it: a script and an element."""
    given = {"src": campaign, **(attributes or {})}
    written = " ".join(f'{name}="{html.escape(value)}"' for name, value in given.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>A site</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<script type="module" src="{client}"></script>{body}'
        f"<murmur-campaign {written}></murmur-campaign></html>"
    )


class Site:
    """Another site: pages by their path, each with the content security policy it has."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[str, str]] = {}
        pages = self._pages

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text, policy = pages.get(self.path, ("", ""))
                self.send_response(200 if text else 404)
                kind = "text/javascript" if self.path.endswith(".js") else "text/html"
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                if policy:
                    self.send_header("Content-Security-Policy", policy)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def origin(self) -> str:
        return f"http://localhost:{self._server.server_address[1]}"

    def add(self, path: str, text: str, policy: str = "") -> str:
        """Publish a page; return its address."""
        self._pages[path] = text, policy
        return self.origin + path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def under(prefix: str, port: int) -> Iterator[str]:
    """A proxy that has a collector under a path of its site, and says so; yields that address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = {name: value for name, value in self.headers.items() if name != "Connection"}
            told["X-Forwarded-Prefix"] = prefix
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            behind = http.client.HTTPConnection(HOST, port)
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            behind.request(self.command, self.path.removeprefix(prefix), body, told)
            answer = behind.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # a page that is left hears no more
                while part := answer.read1():
                    self.wfile.write(part)
            behind.close()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}{prefix}"
    finally:
        server.shutdown()
        server.server_close()


class Watch:
    """All that a page asks for, and what goes wrong on it."""

    def __init__(self, page: Page) -> None:
        self.requests: list[Request] = []
        self.mistakes: list[str] = []
        page.on("request", lambda request: self.requests.append(request))
        page.on("pageerror", lambda problem: self.mistakes.append(str(problem)))

    @property
    def bodies(self) -> list[str]:
        """What was sent."""
        return [one.post_data or "" for one in self.requests if one.method == "POST"]

    @property
    def told(self) -> set[str]:
        """The names of headers of what the element has asked for."""
        asked = [one for one in self.requests if one.resource_type == "fetch"]
        return {name for one in asked for name in one.all_headers()}

    def elsewhere(self, *origins: str) -> list[str]:
        """The addresses of requests to anybody else."""
        return [one.url for one in self.requests if not one.url.startswith(origins)]
