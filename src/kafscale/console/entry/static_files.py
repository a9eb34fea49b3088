"""The page's files, as Vite has built them, or a page that says why they are not there yet.

Here: finding a file by its path, never outside the folder; the console's base path in
`index.html`. Files are read when they have changed: a page kept from before a build would name
scripts that are gone. Next door: the sources of the page (`ui/`).
"""

import gzip
import hashlib
import html
import mimetypes
import re
from pathlib import Path
from typing import Final, NamedTuple

STATIC: Final = Path(__file__).parents[1] / "static"
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_BASE: Final = re.compile(rb"<base\b[^>]*>", re.IGNORECASE)
_HEAD: Final = re.compile(rb"<head\b[^>]*>", re.IGNORECASE)
_HASHED: Final = re.compile(r"assets/[\w.-]+-[\w-]{8,}\.\w+")
_WORTH_PACKING: Final = 1000  # bytes
_STYLE: Final = "building.css"
_FAILED: Final = "failed"
_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}
_ENDINGS: Final = frozenset({*_KINDS, ".ico", ".png", ".txt", ".map", ".webmanifest"})
_BUILDING_CSS: Final = b"""
body { margin: 0; min-height: 100vh; display: grid; place-items: center;
  font: 16px/1.5 system-ui, sans-serif; background: #0d1117; color: #1f2328 }
main { background: #fff; border-radius: 16px; padding: 40px; max-width: 405px; margin: 16px }
h1 { font-size: 22px; margin: 0 0 12px } code { background: #eef1f4; padding: 2px 5px }
@media (prefers-color-scheme: dark) { main { background: #161b22; color: #e6edf3 }
  code { background: #262c36 } }
"""


class FoundFile(NamedTuple):
    """A file to send."""

    body: bytes
    kind: str
    caching: str
    etag: str
    is_packed: bool = False  # by gzip


class StaticFiles:
    """The files of one folder."""

    def __init__(self, folder: Path = STATIC, build_log: Path | None = None) -> None:
        """`build_log`: what the build of the page has printed, if it is built here."""
        self._folder = folder
        self._build_log = build_log
        self._kept: dict[str, tuple[int, bytes]] = {}  # by path: when it was changed, its bytes
        self._packed: dict[str, tuple[int, bytes]] = {}

    def find(self, path: str, base: str, *, packed: bool = False) -> FoundFile | None:
        """The file at a path; what looks like no file is the page itself, which reads the path.

        `packed`: the browser takes gzip.
        """
        index = self._read("index.html")
        if path == _STYLE:
            return _found(_BUILDING_CSS, "building.css", _ASK_AGAIN)
        if index is None:
            page = self._building(base)
            return None if _is_file(path) else _found(page, "index.html", "no-store")
        if path and path != "index.html" and (body := self._read(path)) is not None:
            caching = _FOR_A_YEAR if _HASHED.fullmatch(path) else _ASK_AGAIN
            if packed and len(body) >= _WORTH_PACKING and Path(path).suffix.lower() in _KINDS:
                return _found(self._pack(path, body), path, caching)._replace(is_packed=True)
            return _found(body, path, caching)
        if _is_file(path) and path != "index.html":
            return None
        return _found(_with_base(index, base), "index.html", _ASK_AGAIN)

    def _read(self, path: str) -> bytes | None:
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            return None
        file = self._folder.joinpath(*parts)
        try:
            if file.is_symlink() or not file.is_file():
                return None
            changed = file.stat().st_mtime_ns
            kept = self._kept.get(path)
            if kept is None or kept[0] != changed:
                kept = self._kept[path] = changed, file.read_bytes()
        except OSError:
            return None
        return kept[1]

    def _pack(self, path: str, body: bytes) -> bytes:
        changed = self._kept[path][0]
        kept = self._packed.get(path)
        if kept is None or kept[0] != changed:
            kept = self._packed[path] = changed, gzip.compress(body, 9, mtime=0)
        return kept[1]

    def _building(self, base: str) -> bytes:
        """The page while there is no page: without scripts, it asks again by itself."""
        title, text, refresh = self._why()
        again = '<meta http-equiv="refresh" content="2">' if refresh else ""
        href = html.escape(base, quote=True)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><base href="{href}">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
            f'<title>Kafscale Console</title><link rel="stylesheet" href="{_STYLE}"></head>'
            f"<body><main><h1>Kafscale Console</h1><p><strong>{title}</strong></p>"
            f"<p>{text}</p></main></body></html>"
        ).encode()

    def _why(self) -> tuple[str, str, bool]:
        lines: list[str] = []
        if self._build_log is not None and self._build_log.exists():
            lines = self._build_log.read_text(errors="replace").strip().splitlines()
        elif self._build_log is not None:
            return (
                "The console's page has not been built.",
                "<code>make console</code> builds it, once.",
                True,
            )
        else:
            return "The console's page is missing in this installation.", "", False
        if lines and lines[-1].startswith(_FAILED):
            last = html.escape(lines[-2] if len(lines) > 1 else lines[-1])
            return (
                "The console's page could not be built.",
                f"{last}</p><p><code>make console</code> tries again.",
                True,
            )
        return "The console is being built.", "That takes less than a minute, once.", True


def _is_file(path: str) -> bool:
    """Whether a path can only mean a file: names of topics, deeper in a path, have dots, too."""
    is_named = "/" not in path and Path(path).suffix.lower() in _ENDINGS
    return is_named or path.startswith("assets/")


def _found(body: bytes, name: str, caching: str) -> FoundFile:
    ending = Path(name).suffix.lower()
    kind = _KINDS.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FoundFile(body, kind, caching, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')


def _with_base(page: bytes, base: str) -> bytes:
    tag = f'<base href="{html.escape(base, quote=True)}">'.encode()
    if _BASE.search(page):
        return _BASE.sub(lambda _: tag, page, count=1)
    return _HEAD.sub(lambda head: head[0] + tag, page, count=1)
