"""The daily part of Pulsar's admin API over HTTP, and its lookup.

Here: which path is which verb of the engine. What is not here is answered with 501 and words.
Next door: topics by their names (topics.py), subscriptions (admin_subscriptions.py), the server
(gateways/http.py). A request about a partition of another broker is sent there (307).
"""

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import orjson

from kafscale.engine.cluster.membership import Node
from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.http import HttpAnswer, HttpRequest, as_json
from kafscale.gateways.pulsar import admin_subscriptions
from kafscale.gateways.pulsar.context import PulsarContext
from kafscale.gateways.pulsar.listener_names import PULSAR, PULSAR_HTTP
from kafscale.gateways.pulsar.topics import find_place
from kafscale.model.access import (
    ANONYMOUS,
    CLUSTER_NAME,
    AccessOperation,
    ResourceType,
)
from kafscale.model.errors import (
    ConsumerBusy,
    InvalidRequest,
    KafscaleError,
    NotTheOwner,
    SubscriptionExists,
    SubscriptionNotFound,
    TopicError,
    TopicExists,
    UnknownTopic,
)
from kafscale.model.names import is_internal

_NO_CONTENT: Final = HttpAnswer(HTTPStatus.NO_CONTENT)

_STATUS_OF: Final[dict[type[KafscaleError], HTTPStatus]] = {
    UnknownTopic: HTTPStatus.NOT_FOUND,
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
    """Answers requests."""

    def __init__(self, context: PulsarContext) -> None:
        self._context = context
        self._engine = context.engine
        self._tenancy = context.tenancy

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request; every error has words."""
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
            case ("GET", "admin", "v2", "tenants"):
                return as_json(sorted({tenant for tenant, _ in self._namespaces(request)}))
            case ("GET", "admin", "v2", "namespaces", tenant):
                known = sorted(self._namespaces(request))
                return as_json([f"{its}/{space}" for its, space in known if its == tenant])
            case ("GET", "admin", "v2", "namespaces", tenant, space, "topics"):
                return as_json(self._list(request, tenant, space))
            case ("GET", "admin", "v2", "persistent", tenant, space):
                return as_json(self._list(request, tenant, space))
            case ("GET", "admin", "v2", "persistent", tenant, space, "partitioned"):
                return as_json(self._list(request, tenant, space, partitioned=True))
            case ("GET", "lookup", "v2", "topic", "persistent", tenant, space, topic):
                return await self._lookup(request, f"{tenant}/{space}/{topic}")
            case (_, "admin", "v2", "persistent", tenant, space, topic, *rest):
                return await self._topic(request, f"{tenant}/{space}/{topic}", rest)
        return None

    # -- names -------------------------------------------------------------------------------

    def _visible(self, request: HttpRequest) -> list[tuple[Topic, list[str]]]:
        """The topics that the client may see, with tenant, namespace and name."""
        return [
            (topic, self._tenancy.full(topic.name).removeprefix("persistent://").split("/"))
            for topic in self._engine.topics.all()
            if not is_internal(topic.name)
            and self._allows(request, AccessOperation.DESCRIBE, topic.name)
        ]

    def _namespaces(self, request: HttpRequest) -> set[tuple[str, str]]:
        """Those that have topics, and the default one."""
        found = {(tenant, space) for _, (tenant, space, _) in self._visible(request)}
        return found | {(self._tenancy.tenant, self._tenancy.namespace)}

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
        return self._context.authorizer.allows(ANONYMOUS, request.peer, operation, kind, name)

    def _require(self, request: HttpRequest, operation: AccessOperation, name: str) -> None:
        if not self._allows(request, operation, name):
            raise Denied(f"{ANONYMOUS} may not {operation.name} {name}")

    async def _find(self, name: str) -> tuple[Topic, int | None]:
        """A topic, and the partition if the name says one or there is only one."""
        place = await find_place(self._context, name)
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
                topic, part = await self._find(name)
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
        topic, part = await self._find(name)
        is_question = request.method == "GET"
        wanted = AccessOperation.DESCRIBE if is_question else AccessOperation.READ
        self._require(request, wanted, topic.name)
        return await admin_subscriptions.answer(self._engine, request, topic, part, rest)

    async def _create(self, request: HttpRequest, name: str, partitions: int) -> HttpAnswer:
        canonical = self._tenancy.canonical(name)
        may_create = self._context.authorizer.allows(
            ANONYMOUS, request.peer, AccessOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if not may_create:
            self._require(request, AccessOperation.CREATE, canonical)
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
                url = f"pulsar://{endpoint}"
                return as_json(
                    {
                        "brokerUrl": url,
                        "nativeUrl": url,
                        "httpUrl": f"http://{http}" if http else "",
                    }
                )
        return _reason(HTTPStatus.SERVICE_UNAVAILABLE, f"no broker serves {name} now")

    async def _elsewhere(self, request: HttpRequest, problem: NotTheOwner) -> HttpAnswer:
        """Send the client to the owner of the partition that its path names."""
        topic, part = await self._find("/".join(request.parts[3:6]))
        if part is None:
            words = f"other brokers have partitions of {topic.name}: name one of them"
            return _reason(HTTPStatus.NOT_IMPLEMENTED, words)
        leader = self._engine.cluster.leader_of(topic.folder(part))
        for node in self._engine.cluster.nodes():
            is_other = node.broker_id != self._engine.identity.broker_id
            if node.broker_id == leader and is_other and _has_http(node):
                path = "/".join(quote(one, safe="") for one in request.parts)
                query = f"?{request.query}" if request.query else ""
                location = f"http://{node.endpoints[PULSAR_HTTP]}/{path}{query}"
                return HttpAnswer(HTTPStatus.TEMPORARY_REDIRECT, location=location)
        return _reason(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))


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
