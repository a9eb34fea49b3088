"""The daily part of Pulsar's admin API over HTTP, and its lookup.

Here: which path is which verb of the engine. What is not here is answered with 501 and words. A
client that asks about a partition of another broker is sent there (307). What it asks about all
partitions, this broker asks their owners in its name.
Next door: topics by their names (topics.py), subscriptions (subscriptions.py), schemas
(schemas.py), other brokers (fleet.py), the server (gateways/http.py).
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

import orjson
import structlog

from kafscale.engine.cluster.membership import Node
from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.http import HttpAnswer, HttpRequest, as_json
from kafscale.gateways.pulsar.admin import fleet
from kafscale.gateways.pulsar.admin import schemas as admin_schemas
from kafscale.gateways.pulsar.admin import subscriptions as admin_subscriptions
from kafscale.gateways.pulsar.context import GROUP_PREFIX, PulsarContext
from kafscale.gateways.pulsar.listener_names import PULSAR, PULSAR_HTTP
from kafscale.gateways.pulsar.topics import find_place
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import (
    ConsumerBusy,
    InvalidRequest,
    KafscaleError,
    NamespaceExists,
    NotTheOwner,
    SubscriptionExists,
    SubscriptionNotFound,
    TopicError,
    TopicExists,
    UnknownNamespace,
    UnknownTopic,
)
from kafscale.model.names import is_internal
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType
from kafscale.model.security.audit import ALLOWED, AuditEvent, AuditKind

logger = structlog.get_logger()

_NO_CONTENT: Final = HttpAnswer(HTTPStatus.NO_CONTENT)
_DEDUPLICATION: Final = "kafscale.deduplication"
_LISTS: Final[tuple[list[str], ...]] = ([], ["partitioned"])  # of topics: what follows a namespace
_TOPIC_PART: Final = 5  # of a path
_ATTEMPTS: Final = 5  # to find the owner of a partition that moves
_PAUSE_S: Final = 0.5  # between them

_STATUS_OF: Final[dict[type[KafscaleError], HTTPStatus]] = {
    UnknownTopic: HTTPStatus.NOT_FOUND,
    UnknownNamespace: HTTPStatus.NOT_FOUND,
    NamespaceExists: HTTPStatus.CONFLICT,
    SubscriptionNotFound: HTTPStatus.NOT_FOUND,
    TopicExists: HTTPStatus.CONFLICT,
    SubscriptionExists: HTTPStatus.CONFLICT,
    ConsumerBusy: HTTPStatus.PRECONDITION_FAILED,
    InvalidRequest: HTTPStatus.PRECONDITION_FAILED,
    TopicError: HTTPStatus.PRECONDITION_FAILED,
}


class Denied(Exception):
    """The client may not do this."""


class PulsarAdmin:
    """What one client may ask."""

    def __init__(self, context: PulsarContext, who: Principal) -> None:
        """Answers requests of one client."""
        self._context = context
        self._who = who
        self._engine = context.engine
        self._tenancy = context.tenancy

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request; every error has words. Changes are in the audit log."""
        answer = await self._handle(request)
        if request.method != "GET":
            self._note_change(request, HTTPStatus(answer.status))
        return answer

    def _note_change(self, request: HttpRequest, status: HTTPStatus) -> None:
        is_done = status < HTTPStatus.BAD_REQUEST
        event = AuditEvent(
            AuditKind.CHANGE,
            ALLOWED if is_done else status.phrase.lower().replace(" ", "_"),
            str(self._who),
            request.peer,
            request.method,
            ResourceType.TOPIC.name,
            ("/".join(request.parts[3:]),),
            api="PulsarAdmin",
            listener=PULSAR_HTTP,
        )
        self._context.audit.write(event)

    async def _handle(self, request: HttpRequest) -> HttpAnswer:
        try:
            answer = await self._route(request)
        except Denied as problem:
            return _reason(HTTPStatus.FORBIDDEN, str(problem))
        except NotTheOwner as problem:
            return await self._elsewhere(request, problem)
        except KafscaleError as problem:
            kinds = [kind for kind in type(problem).__mro__ if kind in _STATUS_OF]
            status = _STATUS_OF[kinds[0]] if kinds else HTTPStatus.SERVICE_UNAVAILABLE
            return _reason(status, str(problem))
        if answer is None:
            words = f"{request.method} /{'/'.join(request.parts)} is not part of this broker"
            return _reason(HTTPStatus.NOT_IMPLEMENTED, words)
        return answer

    async def _route(self, request: HttpRequest) -> HttpAnswer | None:
        match (request.method, *request.parts):
            case ("GET", "admin", "v2", "clusters"):
                return as_json([self._engine.identity.cluster_id])
            case ("GET", "admin", "v2", "brokers", "health" | "ready"):
                return HttpAnswer(HTTPStatus.OK, b"ok", "text/plain")
            case ("GET", "admin", "v2", "brokers") | ("GET", "admin", "v2", "brokers", _):
                nodes = self._engine.cluster.nodes()
                return as_json([str(n.endpoints[PULSAR_HTTP]) for n in nodes if _has_http(n)])
            case (_, "admin", "v2", "tenants", *rest) if len(rest) < 2:
                return await self._tenants(request, rest)
            case (_, "admin", "v2", "namespaces", tenant, *rest) if len(rest) < 2:
                return await self._spaces(request, tenant, rest)
            case ("GET", "admin", "v2", "namespaces", tenant, space, "topics"):
                return as_json(self._list(request, tenant, space))
            case ("GET", "admin", "v2", "persistent", tenant, space):
                return as_json(self._list(request, tenant, space))
            case ("GET", "admin", "v2", "persistent", tenant, space, "partitioned"):
                return as_json(self._list(request, tenant, space, partitioned=True))
            case ("GET", "admin", "v2", "non-persistent", _, _, *rest) if rest in _LISTS:
                return as_json([])  # clients ask for both kinds at once
            case ("GET", "lookup", "v2", "topic", "persistent", tenant, space, topic):
                return await self._lookup(request, f"{tenant}/{space}/{topic}")
            case ("GET", "admin", "v2", "schemas", tenant, space, topic, "schema", *rest):
                return await self._schema(request, f"{tenant}/{space}/{topic}", rest)
            case (_, "admin", "v2", "persistent", tenant, space, topic, *rest):
                return await self._topic(request, f"{tenant}/{space}/{topic}", rest)
        return None

    @property
    def _http(self) -> str:
        return "https" if self._context.is_encrypted else "http"

    # -- names -------------------------------------------------------------------------------

    def _visible(self, request: HttpRequest) -> list[tuple[Topic, list[str]]]:
        """The topics that the client may see, with tenant, namespace and name."""
        return [
            (topic, self._tenancy.full(topic.name).removeprefix("persistent://").split("/"))
            for topic in self._engine.topics.all()
            if not is_internal(topic.name)
            and self._allows(request, AccessOperation.DESCRIBE, topic.name)
        ]

    async def _namespaces(self, request: HttpRequest) -> dict[str, set[str]]:
        """Those that were made, those that have topics, and the default one, by tenant."""
        found = await self._engine.topics.namespaces.by_tenant()
        for _, (tenant, space, _) in self._visible(request):
            found.setdefault(tenant, set()).add(space)
        found.setdefault(self._tenancy.tenant, set()).add(self._tenancy.namespace)
        return found

    async def _tenants(self, request: HttpRequest, rest: list[str]) -> HttpAnswer | None:
        found, made = await self._namespaces(request), self._engine.topics.namespaces
        match (request.method, *rest):
            case ("GET",):
                return as_json(sorted(found))
            case ("GET", tenant):
                if tenant not in found:
                    raise UnknownNamespace(f"there is no tenant {tenant}")
                cluster = self._engine.identity.cluster_id
                return as_json({"adminRoles": [], "allowedClusters": [cluster]})
            case ("PUT", tenant):
                self._require_cluster(request, AccessOperation.CREATE)
                await made.add_tenant(tenant)
            case ("POST", tenant):  # roles and clusters of a tenant have no meaning here
                if tenant not in found:
                    raise UnknownNamespace(f"there is no tenant {tenant}")
            case ("DELETE", tenant):
                self._require_cluster(request, AccessOperation.DELETE)
                if found.get(tenant):
                    raise NamespaceExists(f"{tenant} has namespaces")
                await made.remove(tenant)
            case _:
                return None
        return _NO_CONTENT

    async def _spaces(
        self, request: HttpRequest, tenant: str, rest: list[str]
    ) -> HttpAnswer | None:
        found, made = await self._namespaces(request), self._engine.topics.namespaces
        if tenant not in found:
            raise UnknownNamespace(f"there is no tenant {tenant}")
        match (request.method, *rest):
            case ("GET",):
                return as_json([f"{tenant}/{space}" for space in sorted(found[tenant])])
            case ("GET", space):
                if space not in found[tenant]:
                    raise UnknownNamespace(f"there is no namespace {tenant}/{space}")
                return as_json({"replication_clusters": [self._engine.identity.cluster_id]})
            case ("PUT", space):
                self._require_cluster(request, AccessOperation.CREATE)
                await made.add(tenant, space)
            case ("DELETE", space):
                self._require_cluster(request, AccessOperation.DELETE)
                if self._list(request, tenant, space):
                    raise NamespaceExists(f"{tenant}/{space} has topics")
                await made.remove(tenant, space)
            case _:
                return None
        return _NO_CONTENT

    def _list(
        self, request: HttpRequest, tenant: str, space: str, *, partitioned: bool = False
    ) -> list[str]:
        names: list[str] = []
        for topic, (its_tenant, its_space, _) in self._visible(request):
            if (its_tenant, its_space) == (tenant, space):
                full = self._tenancy.full(topic.name)
                if partitioned or topic.partitions == 1:
                    names += [full] if partitioned == (topic.partitions > 1) else []
                else:
                    names += [f"{full}-partition-{at}" for at in range(topic.partitions)]
        return names

    def _allows(self, request: HttpRequest, operation: AccessOperation, name: str) -> bool:
        kind = ResourceType.TOPIC
        return self._context.authorizer.allows(self._who, request.peer, operation, kind, name)

    def _require(
        self,
        request: HttpRequest,
        operation: AccessOperation,
        name: str,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        if not self._context.authorizer.allows(self._who, request.peer, operation, kind, name):
            self._context.note_denied(self._who, request.peer, PULSAR_HTTP, operation, kind, name)
            raise Denied(f"{self._who} may not {operation.name} {name}")

    def _require_cluster(self, request: HttpRequest, operation: AccessOperation) -> None:
        self._require(request, operation, CLUSTER_NAME, ResourceType.CLUSTER)

    def _require_create(self, request: HttpRequest, topic: str) -> None:
        may_create = self._context.authorizer.allows(
            self._who, request.peer, AccessOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if not may_create:
            self._require(request, AccessOperation.CREATE, topic)

    async def _find(
        self, name: str, creates: HttpRequest | None = None
    ) -> tuple[Topic, int | None]:
        """A topic, and the partition if the name says one or there is only one.

        `creates`: the request for which a topic that is missing is created.
        """
        require = None if creates is None else partial(self._require_create, creates)
        place = await find_place(self._context, name, require)
        is_one = place.is_named or place.topic.partitions == 1
        return place.topic, place.partition if is_one else None

    async def _find_whole(self, name: str) -> Topic:
        """A topic that is to be changed as a whole: one partition of it is no name for that."""
        place = await find_place(self._context, name)
        if place.is_named and place.topic.partitions > 1:
            raise InvalidRequest(f"{name!r} is one partition of {place.topic.name!r}")
        return place.topic

    # -- one topic ---------------------------------------------------------------------------

    async def _topic(self, request: HttpRequest, name: str, rest: list[str]) -> HttpAnswer | None:
        match (request.method, *rest):
            case ("PUT",):
                return await self._create(request, name, 1)
            case ("PUT", "partitions"):
                return await self._create(request, name, _number(request.body))
            case ("GET", "partitions"):
                # A client that looks up by HTTP begins with this question.
                may_create = "checkAllowAutoCreation=true" in request.query.split("&")
                topic, part = await self._find(name, request if may_create else None)
                self._require(request, AccessOperation.DESCRIBE, topic.name)
                is_bare = part is not None
                return as_json({"partitions": 0 if is_bare else topic.partitions})
            case ("POST", "partitions"):
                topic = await self._find_whole(name)
                self._require(request, AccessOperation.ALTER, topic.name)
                await self._engine.topics.create_partitions(topic.name, _number(request.body))
                return _NO_CONTENT
            case ("DELETE",) | ("DELETE", "partitions"):
                topic = await self._find_whole(name)
                self._require(request, AccessOperation.DELETE, topic.name)
                await self._engine.topics.delete(topic.name)
                return _NO_CONTENT
            case (_, "deduplicationEnabled" | "deduplication"):
                return await self._deduplication(request, await self._find_whole(name))
        topic, part = await self._find(name)
        is_question = request.method == "GET"
        wanted = AccessOperation.DESCRIBE if is_question else AccessOperation.READ
        self._require(request, wanted, topic.name)
        if not is_question and len(rest) > 1:  # a subscription is a group, at every door
            change = AccessOperation.DELETE if request.method == "DELETE" else AccessOperation.READ
            self._require(request, change, f"{GROUP_PREFIX}{rest[1]}", ResourceType.GROUP)
        if part is None and admin_subscriptions.is_of_each(request.method, rest):
            return await self._of_each(request, topic.partitions)
        if rest == ["unload"] and request.method == "PUT" and part is not None:
            self._require(request, AccessOperation.ALTER, topic.name)
            return await self._unload(topic, part)
        return await admin_subscriptions.answer(self._engine, request, topic, part, rest)

    async def _unload(self, topic: Topic, part: int) -> HttpAnswer:
        """Have the clients of a partition look it up again."""
        admin_subscriptions.require_owner(self._engine, topic, part)
        self._context.names.send_away((topic.topic_id, part))
        await self._engine.subscriptions.unload(topic, part)
        return _NO_CONTENT

    async def _schema(self, request: HttpRequest, name: str, rest: list[str]) -> HttpAnswer | None:
        topic, _ = await self._find(name)
        self._require(request, AccessOperation.DESCRIBE, topic.name)
        if len(rest) > 1:
            return None
        return await admin_schemas.answer(self._engine, topic, rest[0] if rest else None)

    async def _deduplication(self, request: HttpRequest, topic: Topic) -> HttpAnswer | None:
        """Whether a sequence id is stored once: the topic's own setting, null if it has none."""
        if request.method == "GET":
            self._require(request, AccessOperation.DESCRIBE_CONFIGS, topic.name)
            own = topic.descriptor.configs.get(_DEDUPLICATION)
            return as_json(None if own is None else topic.settings.deduplication)
        if request.method not in ("POST", "DELETE"):
            return None
        self._require(request, AccessOperation.ALTER_CONFIGS, topic.name)
        wanted = {}
        if request.method == "POST":
            if request.body not in (b"true", b"false"):
                raise InvalidRequest("the body is neither true nor false")
            wanted = {_DEDUPLICATION: request.body.decode()}

        def change(configs: Mapping[str, str]) -> Mapping[str, str | None]:
            rest = {name: value for name, value in configs.items() if name != _DEDUPLICATION}
            return rest | wanted

        await self._engine.topics.change_configs(topic.name, change)
        return _NO_CONTENT

    async def _create(self, request: HttpRequest, name: str, partitions: int) -> HttpAnswer:
        canonical = self._tenancy.canonical(name)
        self._require_create(request, canonical)
        await self._engine.topics.create(canonical, partitions, {})
        return _NO_CONTENT

    # -- other brokers -----------------------------------------------------------------------

    async def _lookup(self, request: HttpRequest, name: str) -> HttpAnswer:
        topic, part = await self._find(name)
        self._require(request, AccessOperation.DESCRIBE, topic.name)
        leader = self._engine.cluster.leader_of(topic.folder(part or 0))
        for node in self._engine.cluster.nodes():
            endpoint = node.endpoints.get(PULSAR)
            if node.broker_id == leader != NO_BROKER and endpoint is not None:
                http = node.endpoints.get(PULSAR_HTTP)
                url = f"{self._context.scheme}://{endpoint}"
                pages = f"{self._http}://{http}" if http else ""
                open_urls, tls_urls = (url, pages), ("", "")
                if self._context.is_encrypted:
                    open_urls, tls_urls = tls_urls, open_urls
                return as_json(
                    {
                        "nativeUrl": url,
                        "brokerUrl": open_urls[0],
                        "brokerUrlTls": tls_urls[0],
                        "httpUrl": open_urls[1],
                        "httpUrlTls": tls_urls[1],
                    }
                )
        return _reason(HTTPStatus.SERVICE_UNAVAILABLE, f"no broker serves {name} now")

    async def _elsewhere(self, request: HttpRequest, problem: NotTheOwner) -> HttpAnswer:
        """Send the client to the owner of the partition that its path names."""
        owner = await self._owner(request)
        if owner is None:
            return _reason(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))
        location = f"{self._http}://{owner}{fleet.path_of(request)}"
        return HttpAnswer(HTTPStatus.TEMPORARY_REDIRECT, headers=(f"Location: {location}",))

    async def _owner(self, request: HttpRequest) -> Endpoint | None:
        """Which other broker has the partition that a path names; None: none that is known."""
        topic, part = await self._find("/".join(request.parts[3:6]))
        leader = self._engine.cluster.leader_of(topic.folder(part or 0))
        for node in self._engine.cluster.nodes():
            is_other = node.broker_id != self._engine.identity.broker_id
            if node.broker_id == leader and is_other and _has_http(node):
                return node.endpoints[PULSAR_HTTP]
        return None

    async def _of_each(self, request: HttpRequest, partitions: int) -> HttpAnswer:
        """Ask the owner of each partition what the client asks about the topic."""
        if self._context.knows_by_certificate and request.certificate:
            words = "a certificate cannot be shown to other brokers: name one partition"
            return _reason(HTTPStatus.NOT_IMPLEMENTED, words)
        few = asyncio.Semaphore(fleet.AT_ONCE)
        is_stats = request.parts[-1] == "partitioned-stats"

        async def ask(number: int) -> HttpAnswer:
            parts = list(request.parts)
            parts[_TOPIC_PART] += f"-partition-{number}"
            if is_stats:
                parts[-1] = "stats"
            async with few:
                return await self._of_one(request._replace(parts=tuple(parts)))

        answers = dict(enumerate(await asyncio.gather(*map(ask, range(partitions)))))
        return (
            fleet.sum_of_stats(answers) if is_stats else fleet.one_answer(request.method, answers)
        )

    async def _of_one(self, request: HttpRequest) -> HttpAnswer:
        """The answer about one partition, of this broker or of the one that has it."""
        answer = await self._handle(request)
        for attempt in range(_ATTEMPTS):
            is_moving = answer.status == HTTPStatus.SERVICE_UNAVAILABLE
            if answer.status != HTTPStatus.TEMPORARY_REDIRECT and not (is_moving and attempt):
                return answer
            if is_moving or attempt:
                await asyncio.sleep(_PAUSE_S)
            owner = await self._owner(request)
            answer = await (self._handle(request) if owner is None else self._ask(owner, request))
        return _reason(HTTPStatus.SERVICE_UNAVAILABLE, "the partition is moving: ask again")

    async def _ask(self, owner: Endpoint, request: HttpRequest) -> HttpAnswer:
        tls = None if self._context.peer_tls is None else self._context.peer_tls()
        try:
            return await fleet.ask(owner, request, tls)
        except OSError as problem:  # a timeout is one
            logger.warning("broker_unreachable", address=str(owner), error=str(problem))
            return _reason(HTTPStatus.SERVICE_UNAVAILABLE, f"{owner} does not answer")


def _has_http(node: Node) -> bool:
    return PULSAR_HTTP in node.endpoints


def _reason(status: HTTPStatus, words: str) -> HttpAnswer:
    return as_json({"reason": words}, status)


def _number(body: bytes) -> int:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as bad:
        raise InvalidRequest(f"the body is no number: {bad}") from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest("the body is no number")
    return value
