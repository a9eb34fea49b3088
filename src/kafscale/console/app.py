"""The console's HTTP server: routes, answers, refusals, streams.

Here: from a request to a call and back. Next door: who comes in (entry/), what is
answered (pages/), the page's files (entry/static_files.py).
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from kafscale.admin.errors import AdminError, InvalidArgument
from kafscale.console import openapi
from kafscale.console.answers.refusals import STATUS, ApiRefusal
from kafscale.console.answers.shapes import (
    ErrorAnswer,
    ErrorFacts,
    HealthAnswer,
    LoginRequest,
    SessionFacts,
)
from kafscale.console.call import ApiCall, Download, EventStream, Handlers, PageHandler, Services
from kafscale.console.entry.doorway import COOKIE_MAX_AGE_S, Doorway, Visitor
from kafscale.console.entry.static_files import StaticFiles
from kafscale.console.entry.wall import COOKIE, HEADERS, SAFE_METHODS
from kafscale.console.routes import PREFIX, ROUTES, Route
from kafscale.console.watch.notes import worst_state
from kafscale.model.errors import KafscaleError, StoreError

logger = structlog.get_logger()

_LARGEST_BODY: Final = 64 << 10
_LARGEST_RECORDS: Final = 1 << 20
_LARGEST_ANSWER: Final = 8 << 20
_ALIVE_S: Final = 10.0  # between two signs of life of a stream
_LOOK_S: Final = 0.5  # how soon a stream notices that its reader has gone
_STREAMS_OF_ONE: Final = 4
_STREAMS_OF_ALL: Final = 16
_JSON: Final = "application/json"
_VISITOR: Final = web.RequestKey("visitor", Visitor)
_STREAM: Final = "text/event-stream"
_KAFKA_CODES: Final = {
    -186: "invalid",  # the client library does not take an argument
    -188: "unknown_topic",
    -190: "unknown_topic",  # no such partition
    3: "unknown_topic",
    7: "timeout",
    17: "invalid",
    36: "exists",
    37: "invalid",
    40: "invalid",
    68: "not_empty",
    69: "unknown_group",
}


class ConsoleApp:
    """All routes over one set of services."""

    def __init__(
        self,
        services: Services,
        doorway: Doorway,
        load_pages: Callable[[], Handlers],
        files: StaticFiles,
    ) -> None:
        """`load_pages`: called in a thread, when the API is asked for the first time."""
        self._services = services
        self._doorway = doorway
        self._files = files
        self._streams: dict[bytes, int] = {}
        self._load_pages = load_pages
        self._pages: Handlers = {}
        self._loading = asyncio.Lock()
        self._own: dict[str, Callable[[Visitor, ApiCall], Awaitable[web.StreamResponse]]] = {
            "get_session": self._get_session,
            "get_openapi": self._get_openapi,
            "log_in": self._log_in,
            "log_out": self._log_out,
        }

    def build(self) -> web.Application:
        """Make the application."""
        app = web.Application(middlewares=[self._guard], client_max_size=_LARGEST_RECORDS)
        app.on_response_prepare.append(_dress)
        for route in ROUTES:
            app.router.add_route(route.method, f"/{PREFIX}{route.path}", self._answering(route))
        app.router.add_route("*", f"/{PREFIX}{{rest:.*}}", _refuse_path)
        app.router.add_get("/health", _health)
        app.router.add_get("/{path:.*}", self._show_file)
        return app

    # -- every request ---------------------------------------------------------------------------

    @web.middleware
    async def _guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        visitor = self._doorway.visitor(request)
        request[_VISITOR] = visitor
        try:
            self._doorway.wall.check_host(request.headers.get("Host"))
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            refusal = ApiRefusal("method", "the path does not have this method")
        except web.HTTPException as bad:
            refusal = ApiRefusal("unknown_path" if bad.status == 404 else "invalid", bad.reason)
        except (ApiRefusal, AdminError, KafscaleError, TimeoutError) as bad:
            refusal = as_refusal(bad)
        except Exception:
            logger.exception("console_failed", path=request.path, request_id=visitor.request_id)
            refusal = ApiRefusal("internal", "the console failed; its log says why")
        return _refused(refusal, visitor.request_id)

    def _answering(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            visitor: Visitor = request[_VISITOR]
            outcome = "ok"
            call: ApiCall | None = None
            try:
                self._admit(route, visitor)
                call = await self._call(route, request, visitor)
                return await self._dispatch(request, visitor, call)
            except (ApiRefusal, AdminError, KafscaleError, TimeoutError) as bad:
                outcome = as_refusal(bad).code
                raise
            finally:
                if route.effect == "changes" or route.name in ("log_in", "log_out"):
                    self._note(route, request, visitor, outcome, call)

        return answer

    def _admit(self, route: Route, visitor: Visitor) -> None:
        if not self._doorway.is_enabled and route.name != "get_session":
            raise ApiRefusal("disabled", "UI access is disabled until both variables are set")
        if route.method not in SAFE_METHODS:
            self._doorway.wall.check_origin(visitor.headers)
        if visitor.session is None and not route.is_open:
            raise ApiRefusal("not_logged_in", "log in first")
        if route.effect == "changes" and self._services.read_only:
            raise ApiRefusal("read_only", "this console changes nothing (console.readOnly)")

    async def _call(self, route: Route, request: web.Request, visitor: Visitor) -> ApiCall:
        try:
            query = msgspec.convert(dict(request.query), route.query, strict=False)
        except msgspec.ValidationError as bad:
            raise ApiRefusal("invalid", f"query: {bad}") from bad
        body = await _read_body(route, request) if route.body is not None else None
        return ApiCall(
            route,
            self._services,
            request.match_info,
            query,
            body,
            visitor.session,
            visitor.address,
            visitor.request_id,
        )

    async def _dispatch(
        self, request: web.Request, visitor: Visitor, call: ApiCall
    ) -> web.StreamResponse:
        route = call.route
        if route.name in self._own:
            return await self._own[route.name](visitor, call)
        await self._services.watcher.use()
        answer = await (await self._page(route))(call)
        if route.effect == "changes":
            self._services.ranges.forget()
        if route.events:
            return await self._stream(request, call, answer)
        if isinstance(answer, Download):
            return _download(answer)
        if answer is None:
            return web.Response(status=route.status)
        return _json(request, answer, route.status)

    async def _page(self, route: Route) -> PageHandler:
        if not self._pages:
            async with self._loading:
                self._pages = self._pages or await self._services.cluster.run(self._load_pages)
        return self._pages[route.name]

    def _note(
        self,
        route: Route,
        request: web.Request,
        visitor: Visitor,
        outcome: str,
        call: ApiCall | None,
    ) -> None:
        named = [*request.match_info.values()]
        named += [request.query[name] for name in ("id", "topic", "name") if name in request.query]
        if call is not None and (name := getattr(call.body, "name", None)):
            named.append(name)
        user = visitor.session.username if visitor.session is not None else ""
        if call is not None and route.name == "log_in" and outcome == "ok":
            user = call.body.username  # of a wrong login it is not noted: it may be a password
        self._services.activity.note(
            user, visitor.address, route.name, " ".join(named), outcome, visitor.request_id
        )

    # -- streams ---------------------------------------------------------------------------------

    async def _stream(
        self, request: web.Request, call: ApiCall, events: EventStream
    ) -> web.StreamResponse:
        key = call.session.key if call.session is not None else b""
        mine = self._streams.get(key, 0)
        if mine >= _STREAMS_OF_ONE or sum(self._streams.values()) >= _STREAMS_OF_ALL:
            raise ApiRefusal("slow_down", "too many searches run already", retry_after_s=5)
        self._streams[key] = mine + 1
        response = web.StreamResponse(
            headers={
                "Content-Type": _STREAM,
                "X-Accel-Buffering": "no",
                "Cache-Control": "no-store",
            }
        )
        try:
            await response.prepare(request)
            await self._send_events(request, response, call, events)
        except (ConnectionError, asyncio.CancelledError):
            logger.debug("console_stream_left", request_id=call.request_id)
            raise
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]
        return response

    async def _send_events(
        self, request: web.Request, response: web.StreamResponse, call: ApiCall, events: EventStream
    ) -> None:
        """Send events until there are no more, or the reader has gone."""
        clock = self._services.clock
        sent_s = clock.elapsed_s()
        try:
            async for event in events:
                if request.transport is None or request.transport.is_closing():
                    return
                if event is not None:
                    await response.write(_frame(*event))
                    sent_s = clock.elapsed_s()
                elif clock.elapsed_s() - sent_s > _ALIVE_S:
                    await response.write(b": still here\n\n")
                    sent_s = clock.elapsed_s()
        except (ApiRefusal, AdminError, KafscaleError, TimeoutError) as bad:
            await response.write(_frame("error", _error(as_refusal(bad), call.request_id)))
        await response.write_eof()

    # -- the routes that are the server's own ----------------------------------------------------

    async def _get_session(self, visitor: Visitor, call: ApiCall) -> web.StreamResponse:
        services = self._services
        is_in = visitor.session is not None
        features: list[str] | None = None
        if is_in:
            await services.watcher.use()
            said = (state.said.features for state in services.watcher.brokers.values())
            features = sorted({feature for one in said for feature in one})
        state = SessionFacts(
            enabled=self._doorway.is_enabled,
            authenticated=is_in,
            version=services.version,
            requires=[] if self._doorway.is_enabled else list(self._doorway.variables),
            username=visitor.session.username if visitor.session is not None else None,
            read_only=services.read_only if is_in else None,
            values_hidden=not services.show_values if is_in else None,
            features=features,
            has_bucket=services.bucket is not None if is_in else None,
            has_sql=services.has_sql if is_in else None,
            has_weeks=bool(services.prometheus) if is_in else None,
            store=worst_state(services.watcher) if is_in else None,
            as_of_ms=services.watcher.as_of_ms if is_in else None,
        )
        return _json(visitor.request, state, 200)

    async def _log_in(self, visitor: Visitor, call: ApiCall) -> web.StreamResponse:
        body: LoginRequest = call.body
        token = await self._doorway.log_in(visitor, body.username, body.password)
        response = web.Response(status=204)
        response.set_cookie(
            COOKIE,
            token,
            httponly=True,
            samesite="Strict",
            path=visitor.base,
            secure=visitor.is_secure,
            max_age=COOKIE_MAX_AGE_S,
        )
        return response

    async def _log_out(self, visitor: Visitor, call: ApiCall) -> web.StreamResponse:
        if visitor.session is not None:
            self._doorway.sessions.end(visitor.session.key)
        response = web.Response(status=204)
        response.del_cookie(
            COOKIE, path=visitor.base, httponly=True, samesite="Strict", secure=visitor.is_secure
        )
        return response

    async def _get_openapi(self, visitor: Visitor, call: ApiCall) -> web.StreamResponse:
        return _json(visitor.request, openapi.document(self._services.version), 200)

    async def _show_file(self, request: web.Request) -> web.StreamResponse:
        visitor: Visitor = request[_VISITOR]
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        found = self._files.find(request.match_info["path"], visitor.base, packed=packed)
        if found is None:
            raise ApiRefusal("unknown_path", "there is no such file")
        headers = {
            "Content-Type": found.kind,
            "Cache-Control": found.caching,
            "ETag": found.etag,
            "Vary": "Accept-Encoding",
        }
        if found.is_packed:
            headers["Content-Encoding"] = "gzip"
        if request.headers.get("If-None-Match") == found.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, headers=headers)


async def _health(request: web.Request) -> web.StreamResponse:
    return web.Response(body=msgspec.json.encode(HealthAnswer(status="ok")), content_type=_JSON)


async def _refuse_path(request: web.Request) -> web.StreamResponse:
    raise ApiRefusal("unknown_path", "the API has no such path")


async def _dress(request: web.Request, response: web.StreamResponse) -> None:
    """Put on what every answer carries, and take off what tells too much."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.popall("Server", None)


async def _read_body(route: Route, request: web.Request) -> Any:
    """Read and check a body, but for its length not before its kind is right."""
    if request.content_type != _JSON:
        raise ApiRefusal("media_type", f"expected a body of type {_JSON}")
    largest = _LARGEST_RECORDS if route.name == "produce_records" else _LARGEST_BODY
    data = bytearray()
    while chunk := await request.content.read(largest + 1 - len(data)):
        data += chunk
        if len(data) > largest:
            raise ApiRefusal("too_large", f"a body may have up to {largest} bytes")
    try:
        return msgspec.json.decode(bytes(data), type=route.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
        raise ApiRefusal("invalid", str(bad)) from bad


def as_refusal(bad: Exception) -> ApiRefusal:
    """What went wrong in the API's words."""
    if isinstance(bad, ApiRefusal):
        return bad
    if isinstance(bad, TimeoutError):
        return ApiRefusal("timeout", str(bad) or "no answer within the time")
    if isinstance(bad, StoreError):
        return ApiRefusal("store", f"the object store: {bad}")
    if isinstance(bad, InvalidArgument):
        return ApiRefusal("invalid", str(bad))
    if isinstance(bad, AdminError) and bad.code is not None:
        usual = "refused" if bad.code > 0 else "broker"
        return ApiRefusal(_KAFKA_CODES.get(bad.code, usual), str(bad), kafka_code=bad.code)
    return ApiRefusal("refused", str(bad))


def _error(refusal: ApiRefusal, request_id: str) -> ErrorAnswer:
    return ErrorAnswer(
        error=ErrorFacts(
            code=refusal.code,
            message=refusal.message,
            field=refusal.field,
            retry=refusal.retry,
            request_id=request_id,
            kafka_code=refusal.kafka_code,
        )
    )


def _refused(refusal: ApiRefusal, request_id: str) -> web.Response:
    response = web.Response(
        body=msgspec.json.encode(_error(refusal, request_id)),
        status=STATUS[refusal.code],
        content_type=_JSON,
    )
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, round(refusal.retry_after_s + 0.5)))
    return response


def _json(request: web.Request, answer: Any, status: int) -> web.Response:
    body = msgspec.json.encode(answer)
    if len(body) > _LARGEST_ANSWER:
        raise ApiRefusal("too_large", "the answer is too large; ask for less")
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    if request.method in SAFE_METHODS and request.headers.get("If-None-Match") == etag:
        return web.Response(status=304, headers={"ETag": etag})
    return web.Response(body=body, status=status, content_type=_JSON, headers={"ETag": etag})


def _frame(name: str, event: msgspec.Struct) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def _download(answer: Download) -> web.Response:
    plain = "".join(char if char.isalnum() or char in "._-" else "_" for char in answer.filename)
    return web.Response(
        body=answer.body,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{plain}"',
        },
    )
