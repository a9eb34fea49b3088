"""The few messages of etcd's API that we speak, and the names of its calls.

Here: a table of fields, and message classes made of it. They live in a descriptor pool of their
own, so that another etcd library may be loaded beside us; the names below stay in this process,
only numbers and types travel. Enumerations are written as int32, which has the same bytes.
Next door: who sends them (client.py).
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "kafscale.etcd"

# message -> field -> (number, type); a leading "*" means repeated.
_TABLE: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Header": {"revision": (3, "int64")},
    "KeyValue": {
        "key": (1, "bytes"),
        "mod_revision": (3, "int64"),
        "value": (5, "bytes"),
    },
    "RangeRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "limit": (3, "int64"),
        "revision": (4, "int64"),
    },
    "RangeResponse": {"header": (1, "Header"), "kvs": (2, "*KeyValue"), "more": (3, "bool")},
    "PutRequest": {
        "key": (1, "bytes"),
        "value": (2, "bytes"),
        "lease": (3, "int64"),
        "ignore_lease": (6, "bool"),
    },
    "DeleteRequest": {"key": (1, "bytes")},
    "Operation": {
        "range": (1, "RangeRequest"),
        "put": (2, "PutRequest"),
        "delete": (3, "DeleteRequest"),
    },
    "Outcome": {"range": (1, "RangeResponse")},
    "Compare": {
        "result": (1, "int32"),
        "target": (2, "int32"),
        "key": (3, "bytes"),
        "mod_revision": (6, "int64"),
    },
    "TxnRequest": {
        "compare": (1, "*Compare"),
        "success": (2, "*Operation"),
        "failure": (3, "*Operation"),
    },
    "TxnResponse": {
        "header": (1, "Header"),
        "succeeded": (2, "bool"),
        "responses": (3, "*Outcome"),
    },
    "WatchCreate": {"key": (1, "bytes"), "range_end": (2, "bytes"), "start_revision": (3, "int64")},
    "WatchRequest": {"create": (1, "WatchCreate")},
    "Event": {"type": (1, "int32"), "kv": (2, "KeyValue")},
    "WatchResponse": {
        "header": (1, "Header"),
        "canceled": (4, "bool"),
        "compact_revision": (5, "int64"),
        "cancel_reason": (6, "string"),
        "events": (11, "*Event"),
    },
    "GrantRequest": {"ttl": (1, "int64")},
    "GrantResponse": {"id": (2, "int64"), "ttl": (3, "int64")},
    "LeaseRequest": {"id": (1, "int64")},  # to revoke, to keep alive
    "RevokeResponse": {},
    "KeepAliveResponse": {"ttl": (3, "int64")},
    "AuthenticateRequest": {"name": (1, "string"), "password": (2, "string")},
    "AuthenticateResponse": {"token": (2, "string")},
}

_EQUAL: Final = 0  # Compare.result
_MOD_REVISION: Final = 2  # Compare.target
DELETED: Final = 1  # Event.type


def _classes() -> dict[str, Any]:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="kafscale/etcd.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _TABLE.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            row = message.field.add(name=field, number=number)
            row.label = kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            if kind in _TABLE:
                row.type, row.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                row.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _TABLE
    }


_CLASSES: Final = _classes()

AuthenticateRequest: Final[Any] = _CLASSES["AuthenticateRequest"]
_Compare: Final[Any] = _CLASSES["Compare"]
DeleteRequest: Final[Any] = _CLASSES["DeleteRequest"]
GrantRequest: Final[Any] = _CLASSES["GrantRequest"]
LeaseRequest: Final[Any] = _CLASSES["LeaseRequest"]
Operation: Final[Any] = _CLASSES["Operation"]
PutRequest: Final[Any] = _CLASSES["PutRequest"]
RangeRequest: Final[Any] = _CLASSES["RangeRequest"]
TxnRequest: Final[Any] = _CLASSES["TxnRequest"]
WatchCreate: Final[Any] = _CLASSES["WatchCreate"]
WatchRequest: Final[Any] = _CLASSES["WatchRequest"]

RANGE: Final = "/etcdserverpb.KV/Range"
TXN: Final = "/etcdserverpb.KV/Txn"
GRANT: Final = "/etcdserverpb.Lease/LeaseGrant"
REVOKE: Final = "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE: Final = "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH: Final = "/etcdserverpb.Watch/Watch"
AUTHENTICATE: Final = "/etcdserverpb.Auth/Authenticate"

# What each call answers with. Requests know how to write themselves.
ANSWERS: Final[dict[str, Any]] = {
    RANGE: _CLASSES["RangeResponse"],
    TXN: _CLASSES["TxnResponse"],
    GRANT: _CLASSES["GrantResponse"],
    REVOKE: _CLASSES["RevokeResponse"],
    KEEP_ALIVE: _CLASSES["KeepAliveResponse"],
    WATCH: _CLASSES["WatchResponse"],
    AUTHENTICATE: _CLASSES["AuthenticateResponse"],
}


def unchanged(key: bytes, revision: int) -> Any:
    """A comparison: the key was last written at this revision; 0 means it is not there."""
    return _Compare(result=_EQUAL, target=_MOD_REVISION, key=key, mod_revision=revision)
