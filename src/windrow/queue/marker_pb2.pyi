from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Marker(_message.Message):
    __slots__ = ("type", "queue", "consumer", "spans", "redeliver_after_ms", "unstarted", "reason", "carried", "epoch", "number", "counts")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Marker.Type]
        START: _ClassVar[Marker.Type]
        KEEP_ALIVE: _ClassVar[Marker.Type]
        END: _ClassVar[Marker.Type]
        RETURN: _ClassVar[Marker.Type]
        REJECT: _ClassVar[Marker.Type]
        CARRY: _ClassVar[Marker.Type]
        TICK: _ClassVar[Marker.Type]
        TALLY: _ClassVar[Marker.Type]
        CLOSE: _ClassVar[Marker.Type]
    UNKNOWN: Marker.Type
    START: Marker.Type
    KEEP_ALIVE: Marker.Type
    END: Marker.Type
    RETURN: Marker.Type
    REJECT: Marker.Type
    CARRY: Marker.Type
    TICK: Marker.Type
    TALLY: Marker.Type
    CLOSE: Marker.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    REDELIVER_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    UNSTARTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    type: Marker.Type
    queue: str
    consumer: bytes
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    redeliver_after_ms: int
    unstarted: bool
    reason: str
    carried: Carried
    epoch: bytes
    number: int
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    def __init__(self, type: _Optional[_Union[Marker.Type, str]] = ..., queue: _Optional[str] = ..., consumer: _Optional[bytes] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., redeliver_after_ms: _Optional[int] = ..., unstarted: bool = ..., reason: _Optional[str] = ..., carried: _Optional[_Union[Carried, _Mapping]] = ..., epoch: _Optional[bytes] = ..., number: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("lease", "partition", "offset", "runs")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    lease: int
    partition: int
    offset: int
    runs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease: _Optional[int] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., runs: _Optional[_Iterable[int]] = ...) -> None: ...

class Carried(_message.Message):
    __slots__ = ("key", "value", "headers", "attempt", "timestamp", "returned", "unstarted", "deadline", "as_of")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    UNSTARTED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    attempt: int
    timestamp: int
    returned: bool
    unstarted: bool
    deadline: int
    as_of: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., attempt: _Optional[int] = ..., timestamp: _Optional[int] = ..., returned: bool = ..., unstarted: bool = ..., deadline: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("queue", "redelivered", "dead_lettered")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    redelivered: int
    dead_lettered: int
    def __init__(self, queue: _Optional[str] = ..., redelivered: _Optional[int] = ..., dead_lettered: _Optional[int] = ...) -> None: ...
