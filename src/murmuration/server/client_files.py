"""The client for browsers: files of this package that any page may load.

They are built from `web/client` (`make web`) and travel in the package. Read once, at the start:
what is not there then is not there.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from murmuration.server.encoded import Encoded

MEDIA = {".js": "text/javascript", ".css": "text/css", ".map": "application/json"}
"""Endings of files that are served."""
HEADERS = {
    "cache_control": "public, no-cache",  # kept, and asked for again each time: it may be newer
    "access_control_allow_origin": "*",
    "cross_origin_resource_policy": "cross-origin",
    "x_content_type_options": "nosniff",
}


def client_files(folder: Traversable | None = None) -> dict[str, Encoded]:
    """Return what is served, by file name."""
    folder_of_files = files("murmuration.server") / "static" if folder is None else folder
    if not folder_of_files.is_dir():
        return {}
    return {
        file.name: Encoded.of(file.read_bytes(), MEDIA[_ending(file.name)], **HEADERS)
        for file in sorted(folder_of_files.iterdir(), key=lambda file: file.name)
        if file.is_file() and _ending(file.name) in MEDIA
    }


def _ending(name: str) -> str:
    return name[name.rfind(".") :]
