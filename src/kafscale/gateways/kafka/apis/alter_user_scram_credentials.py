"""AlterUserScramCredentials: API 51, version 0.

Clients stretch passwords themselves: the broker never sees one.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from kafscale.access.scram import SCRAM_BY_NUMBER, ScramMechanism
from kafscale.engine.access.credentials import NewCredential, OldCredential
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import CHANGES_USERS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_Change = ScramCredentialDeletion | ScramCredentialUpsertion

_WITHIN_S: Final = 30.0
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_UNKNOWN: Final = "Unknown SCRAM mechanism"


def _denied(call: Call, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    request: AlterUserScramCredentialsRequest = call.message
    names = dict.fromkeys(one.name for one in _all(request))
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, code) for name in names]
    )


API_KEY: Final = AlterUserScramCredentialsRequest.api_key
VERSIONS: Final = AlterUserScramCredentialsRequest.versions
ORDER: Final = CHANGES_USERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER, ResourceType.CLUSTER, cluster, _denied),
)


def answer(call: Call) -> Answer:
    """Write and remove credentials; a user with an error keeps all of its own."""
    return _answer(call)


def _all(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


async def _answer(call: Call) -> AlterUserScramCredentialsResponse:
    request: AlterUserScramCredentialsRequest = call.message
    times = Counter((one.name, one.mechanism) for one in _all(request))
    results: dict[str, AlterUserScramCredentialsResult] = {}
    new: list[NewCredential] = []
    old: list[OldCredential] = []
    async for change in _each(call, request):
        try:
            mechanism = SCRAM_BY_NUMBER.get(change.mechanism)
            if mechanism is None:
                results[change.name] = _result(
                    change, ErrorCode.UNSUPPORTED_SASL_MECHANISM, _UNKNOWN
                )
            elif times[change.name, change.mechanism] > 1:
                results[change.name] = _result(change, ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            else:
                _take(call, change, mechanism, new, old)
                results.setdefault(change.name, AlterUserScramCredentialsResult(change.name))
        except KafscaleError as problem:
            results[change.name] = _result(change, code_of(problem), words_of(problem))
    bad = {name for name, result in results.items() if result.error_code}
    good = (
        [one for one in new if one.user not in bad],
        [one for one in old if one.user not in bad],
    )
    try:
        await in_time(call, call.engine.credentials.change(*good), _WITHIN_S)
    except KafscaleError as problem:
        for name in results.keys() - bad:
            code, words = code_of(problem), words_of(problem)
            results[name] = AlterUserScramCredentialsResult(name, code, words)
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _each(call: Call, request: AlterUserScramCredentialsRequest) -> AsyncIterator[_Change]:
    return call.each(_all(request))


def _result(change: _Change, code: ErrorCode, words: str) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(change.name, code, words)


def _take(
    call: Call,
    change: _Change,
    mechanism: ScramMechanism,
    new: list[NewCredential],
    old: list[OldCredential],
) -> None:
    """Check one change and keep it for later."""
    credentials = call.engine.credentials
    if isinstance(change, ScramCredentialDeletion):
        removed = OldCredential(change.name, mechanism)
        credentials.check_old(removed)
        old.append(removed)
        return
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    made = NewCredential(change.name, mechanism, change.iterations, salt, salted)
    credentials.check_new(made)
    new.append(made)
