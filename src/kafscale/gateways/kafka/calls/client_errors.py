"""Telling operators about requests that a client should not have sent.

Here: how errors that clients cause are counted and logged: once per request and reason, with the
number of rows. Errors that well-behaved clients meet now and then are counted apart from bad
requests and hardly logged.
Next door: which errors these are (gateways/client_mistakes.py), connections that were ended
(gateways/connections.py), how many lines a client gets (gateways/client_log.py).
"""

from dataclasses import replace
from typing import Final

import structlog

from kafscale.gateways.audit_log import MOST_RESOURCES
from kafscale.gateways.client_mistakes import Blame, blame_of, reason_of
from kafscale.gateways.kafka.calls.call import Call, ClientError, KafkaContext, api_name
from kafscale.gateways.kafka.calls.errors import words_of
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.model.security.audit import DENIED, AuditEvent, AuditKind

logger = structlog.get_logger()

_MOST_NAME: Final = 100  # characters of a name that a client chose


def note(call: Call, problem: KafscaleError) -> None:
    """Keep an error for the log if the client caused it."""
    blame = blame_of(problem)
    if blame is Blame.NONE:
        return
    reason = reason_of(type(problem))
    known = call.errors.get(reason)
    if known is not None:
        known.count += 1
    else:
        call.errors[reason] = ClientError(words_of(problem), blame is Blame.BAD)


def note_bad(call: Call, reason: str, detail: str) -> None:
    """Keep something that no correct client sends."""
    _note(call, reason, detail, is_bad=True)


def note_ordinary(call: Call, reason: str, detail: str) -> None:
    """Keep something that correct clients meet, too."""
    _note(call, reason, detail, is_bad=False)


def note_denied(
    call: Call, reason: str, operation: AccessOperation, kind: ResourceType, name: str
) -> None:
    """Keep that a client may not do what it asks for; the audit log gets a line of it, too."""
    known = call.errors.get(reason)
    if known is not None and known.denial is not None:
        known.count += 1
        if known.count <= MOST_RESOURCES:
            known.denial = replace(known.denial, resources=(*known.denial.resources, name))
        return
    detail = f"{call.principal} asks for {operation.name} of a {kind.name.lower()}"
    denial = AuditEvent(
        AuditKind.DENIED,
        outcome=DENIED,
        principal=str(call.principal),
        address=call.peer,
        operation=operation.name,
        resource_type=kind.name,
        resources=(name,),
        client_id=call.client_id,
        api=api_name(call.message),
        listener=call.listener,
    )
    call.errors[reason] = ClientError(detail, is_bad=False, denial=denial)


def _note(call: Call, reason: str, detail: str, *, is_bad: bool) -> None:
    known = call.errors.get(reason)
    if known is not None:
        known.count += 1
    else:
        call.errors[reason] = ClientError(detail, is_bad)


def tell(context: KafkaContext, peer: str, errors: dict[str, ClientError]) -> None:
    """Count and log what was wrong with a request, however many of its rows were.

    What correct clients meet, too, is logged at level debug.
    """
    metrics = context.engine.metrics
    for reason, error in errors.items():
        if error.denial is not None:
            context.audit.write(replace(error.denial, count=error.count))
        if error.is_bad:
            metrics.bad_requests.labels(reason).inc()
            context.client_log.write(
                "bad_request", peer, reason, detail=error.detail, count=error.count
            )
        else:
            metrics.client_errors.labels(reason).inc()
            logger.debug(
                "client_error", peer=peer, reason=reason, detail=error.detail, count=error.count
            )
    errors.clear()
