"""Calls to etcd: which member, how long, how often, as whom.

Here: one channel per endpoint, trying the next when one does not answer, passwords and their
tokens, and which failures leave it open whether something was done.
Next door: the messages (messages.py), what is asked (store.py, commits.py, watching.py).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import structlog

from kafscale.metadata.etcd import messages
from kafscale.model.errors import MetadataUnavailable
from kafscale.model.security.secret import NO_SECRET, Secret
from kafscale.retry import Backoff, RetryPolicy

logger = structlog.get_logger()

_RETRY: Final = RetryPolicy(first_s=0.1, longest_s=1.0)
_PING_S: Final = 10.0  # etcd drops those who ping an idle connection more often than every 5 s
_LARGEST_ANSWER_BYTES: Final = 256 << 20

_Code = grpc.StatusCode
# Said before anything was proposed: certainly not done. Everything else may have been.
_NOT_DONE: Final = {
    _Code.UNAUTHENTICATED,
    _Code.PERMISSION_DENIED,
    _Code.INVALID_ARGUMENT,
    _Code.FAILED_PRECONDITION,
    _Code.NOT_FOUND,
    _Code.OUT_OF_RANGE,
    _Code.RESOURCE_EXHAUSTED,
    _Code.UNIMPLEMENTED,
}
_STALE_TOKEN: Final = (
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
)
_TOO_MANY: Final = "etcdserver: too many requests"


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """How to reach etcd. Endpoints are `host:port`; files are PEM."""

    endpoints: tuple[str, ...]
    dial_timeout_s: float = 5.0
    request_timeout_s: float = 10.0
    username: str = ""
    password: Secret = NO_SECRET
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    prefix: str = ""  # before every key, for those who share an etcd


class EtcdRefused(MetadataUnavailable):
    """etcd said no, in these words; `in_doubt`: an earlier attempt may have been carried out."""

    def __init__(self, code: grpc.StatusCode, words: str, in_doubt: bool) -> None:
        super().__init__(f"etcd: {words or code.name}")
        self.code = code
        self.words = words
        self.in_doubt = in_doubt


class EtcdClient:
    """All members behind one door. Must be made inside the event loop that uses it."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Connects when first asked."""
        self._settings = settings
        credentials = _credentials(settings)
        options = _options(settings)
        self._channels: list[Any] = [
            grpc.aio.secure_channel(endpoint, credentials, options)
            if credentials is not None
            else grpc.aio.insecure_channel(endpoint, options)
            for endpoint in settings.endpoints
        ]
        self._at = 0
        self._token = ""
        self._asking = asyncio.Lock()

    async def ask(self, method: str, request: Any) -> tuple[Any, bool]:
        """Ask until there is an answer or the time is up.

        Gives the answer, and whether an attempt before it may have been carried out as well.
        Raises EtcdRefused, or MetadataUnavailable when nothing is known.
        """
        return await self._try(lambda channel: self._unary(channel, method, request))

    async def call(self, method: str, request: Any) -> Any:
        """Ask for something that may be done twice."""
        return (await self.ask(method, request))[0]

    async def exchange(self, method: str, request: Any) -> Any:
        """The same for a call that is a stream, of which one question and one answer are used."""

        async def once(channel: Any) -> Any:
            async with asyncio.timeout(self._attempt_s):
                stream = self._open(channel, method)
                try:
                    await stream.write(request)
                    if (answer := await stream.read()) is grpc.aio.EOF:
                        raise TimeoutError("etcd ended the stream")
                    return answer
                finally:
                    stream.cancel()

        return (await self._try(once))[0]

    def doubt_token(self) -> None:
        """Ask for a new one before the next question."""
        self._token = ""

    async def listen(self, method: str, request: Any) -> AsyncGenerator[Any, None]:
        """Answers to one question, until the stream breaks: then MetadataUnavailable."""
        if self._settings.username and not self._token:
            await self._log_in(self._token)
        at, token = self._at, self._token
        stream = self._open(self._channels[at], method)
        try:
            await stream.write(request)
            while (answer := await stream.read()) is not grpc.aio.EOF:
                yield answer
            raise MetadataUnavailable("etcd ended the stream")
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as problem:
            self._leave(at)
            self._forgive_token(problem, token)
            raise MetadataUnavailable(f"etcd: {_words(problem)}") from problem
        finally:
            stream.cancel()

    async def aclose(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    @property
    def _attempt_s(self) -> float:
        """A member that hangs must leave time to ask the others."""
        return self._settings.request_timeout_s / len(self._channels)

    async def _try(self, attempt: Callable[[Any], Awaitable[Any]]) -> tuple[Any, bool]:
        in_doubt, tries, words = False, 0, "no answer"
        backoff = Backoff(_RETRY)
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                while True:
                    at, token = self._at, self._token
                    try:
                        if self._settings.username and not token:
                            await self._log_in(token)
                        return await attempt(self._channels[at]), in_doubt
                    except grpc.aio.AioRpcError as problem:
                        words = _words(problem)
                        if problem.code() not in _NOT_DONE:
                            in_doubt = True
                        elif not self._forgive_token(problem, token) and words != _TOO_MANY:
                            raise EtcdRefused(problem.code(), words, in_doubt) from problem
                    except (asyncio.InvalidStateError, TimeoutError) as problem:
                        words, in_doubt = _words(problem), True
                    self._leave(at)
                    tries += 1
                    if tries % len(self._channels) == 0:
                        await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            where = ", ".join(self._settings.endpoints)
            raise MetadataUnavailable(f"etcd ({where}) does not answer: {words}") from None

    def _forgive_token(self, problem: Exception, token: str) -> bool:
        """Whether asking for a new token may help; if so the old one is forgotten."""
        if not (self._settings.username and token and _words(problem) in _STALE_TOKEN):
            return False
        if self._token == token:
            self._token = ""
        return True

    async def _log_in(self, stale: str) -> None:
        async with self._asking:
            if self._token != stale:
                return  # another call has a new one already
            request = messages.AuthenticateRequest(
                name=self._settings.username, password=self._settings.password.reveal()
            )
            answer = await self._unary(self._channels[self._at], messages.AUTHENTICATE, request)
            self._token = answer.token

    def _leave(self, at: int) -> None:
        """Ask another member from now on, unless another call has moved on already."""
        if self._at == at:
            self._at = (at + 1) % len(self._channels)

    async def _unary(self, channel: Any, method: str, request: Any) -> Any:
        ask = channel.unary_unary(
            method,
            request_serializer=_write,
            response_deserializer=messages.ANSWERS[method].FromString,
        )
        return await ask(request, timeout=self._attempt_s, metadata=self._metadata())

    def _open(self, channel: Any, method: str) -> Any:
        return channel.stream_stream(
            method,
            request_serializer=_write,
            response_deserializer=messages.ANSWERS[method].FromString,
        )(metadata=self._metadata())

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        # A member without contact to the others must refuse instead of letting the client wait.
        told = (("hasleader", "true"),)
        return (*told, ("token", self._token)) if self._token else told


def _write(request: Any) -> bytes:
    return bytes(request.SerializeToString())


def _words(problem: Exception) -> str:
    if isinstance(problem, grpc.aio.AioRpcError):
        return str(problem.details() or problem.code().name)
    return str(problem) or type(problem).__name__


def _options(settings: EtcdSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.min_reconnect_backoff_ms", int(settings.dial_timeout_s * 1000)),
        ("grpc.keepalive_time_ms", int(_PING_S * 1000)),
        ("grpc.keepalive_timeout_ms", int(settings.dial_timeout_s * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_receive_message_length", _LARGEST_ANSWER_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),  # a write that is sent again behind our back would not be safe
    ]


def _credentials(settings: EtcdSettings) -> Any:
    if not settings.tls:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=_pem(settings.ca_file),
        private_key=_pem(settings.key_file),
        certificate_chain=_pem(settings.cert_file),
    )


def _pem(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise MetadataUnavailable(f"cannot read {path}: {problem.strerror}") from problem
