"""The public keys of the issuer of tokens, from a file or from the issuer's own address.

Here: reading them, and reading them again: when the file changes, now and then from an address, and
when a token names a key that is not known, because issuers change their keys. The keys that were
known last stay in use while the issuer does not answer.
Next door: checking tokens by the keys (access/bearer.py).
Never here: addresses from anything but the broker's settings.
"""

import asyncio
import http.client
import ssl
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NoReturn, Protocol

import structlog

from kafscale.engine.access.reread_file import MOST_BYTES, RereadFile, read_text
from kafscale.model.clock import Clock
from kafscale.model.errors import AuthenticationFailed

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

logger = structlog.get_logger()

_ANSWER_WITHIN_S: Final = 5.0  # each piece of it
_DOCUMENT_WITHIN_S: Final = 10.0
_PIECE_BYTES: Final = 64 << 10
_ASK_AGAIN_AFTER_S: Final = 5.0  # so that bad tokens do not make the broker flood the issuer


class SigningKeys(Protocol):
    """Where keys come from."""

    async def current(self) -> "KeySet":
        """The keys known. Raises AuthenticationFailed if there are none yet."""
        ...

    async def newer(self) -> "KeySet":
        """The same, after looking whether there are new ones."""
        ...


class KeysOfFile:
    """Implements SigningKeys by a JWKS file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file. Raises OSError, ValueError."""
        from kafscale.access.bearer import read_keys

        def read(file: Path) -> "KeySet":
            return read_keys(read_text(file).encode(), with_secrets=True)

        self._file = RereadFile(path, read, clock)

    async def current(self) -> "KeySet":
        """See SigningKeys."""
        return await self._file.current()

    async def newer(self) -> "KeySet":
        """See SigningKeys."""
        return await self._file.current()


class KeysOfUrl:
    """Implements SigningKeys by the issuer's JWKS address."""

    def __init__(self, url: str, ca_file: str | None, refresh_s: float, clock: Clock) -> None:
        """Nothing is fetched yet: the issuer may start after the broker.

        Raises ValueError for an address that is not one of HTTP, OSError for the authorities.
        """
        if not url.startswith(("https://", "http://")):
            raise ValueError(f"expected https://..., found {url!r}")
        self._url = url
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if url.startswith("https://"):
            context = ssl.create_default_context(cafile=ca_file)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)
        self._refresh_s = refresh_s
        self._clock = clock
        self._keys: KeySet | None = None
        self._asked_s: float | None = None
        self._asking = asyncio.Lock()

    async def current(self) -> "KeySet":
        """See SigningKeys."""
        if self._keys is None or self._age_s() >= self._refresh_s:
            await self._ask()
        return self._known()

    async def newer(self) -> "KeySet":
        """See SigningKeys."""
        await self._ask()
        return self._known()

    def _known(self) -> "KeySet":
        if self._keys is None:
            raise AuthenticationFailed("the keys of the token's issuer are not known yet")
        return self._keys

    def _age_s(self) -> float:
        return float("inf") if self._asked_s is None else self._clock.elapsed_s() - self._asked_s

    async def _ask(self) -> None:
        """Fetch the keys, unless that was done or tried a moment ago."""
        async with self._asking:
            if self._age_s() < _ASK_AGAIN_AFTER_S:
                return
            self._asked_s = self._clock.elapsed_s()
            from kafscale.access.bearer import read_keys

            try:
                self._keys = read_keys(await asyncio.to_thread(self._fetch))
            except (OSError, http.client.HTTPException, ValueError) as problem:
                logger.error("issuer_keys_unavailable", url=self._url, reason=str(problem))

    def _fetch(self) -> bytes:
        """The document. Its size and the time that it takes are bounded."""
        began_s = self._clock.elapsed_s()
        body = b""
        with self._opener.open(self._url, timeout=_ANSWER_WITHIN_S) as answer:
            while piece := answer.read1(_PIECE_BYTES):
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES} bytes")
                if self._clock.elapsed_s() - began_s > _DOCUMENT_WITHIN_S:
                    raise TimeoutError("the document comes too slowly")
        return body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses to go elsewhere: the address of the settings decides whose keys count."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> NoReturn:
        raise urllib.error.HTTPError(req.full_url, code, "it points elsewhere", headers, fp)
