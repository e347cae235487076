"""What requests about topics and settings need, where it is more than one check of one name."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.acls.names import CLUSTER_NAME, Operation, Resource
from coordinator.core.catalog.alterations import refuse_shape
from coordinator.core.catalog.catalog import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from coordinator.core.catalog.describe_configs import validate_broker
from coordinator.core.catalog.names import RESERVED, reason_invalid
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, map_in_steps
from coordinator.core.topics import NO_ID
from coordinator.dataplane.metadata import wants_all
from coordinator.runtime.authorization.guard import ERRORS, Asking, Each, need
from coordinator.runtime.authorization.refusals import AUTHORIZATION_FAILED
from coordinator.runtime.authorization.shapes import deny_nothing
from coordinator.runtime.error_response import error_response
from coordinator.runtime.partial_refusal import Judge
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponseTopic

Entry = Any
Response = Any
_O, _R = Operation, Resource
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


BY_ID_SINCE: Final = 6  # DeleteTopics


def see_topics(asking: Asking, response: Response) -> Steps[Response]:
    """Metadata: say of topics that the client has named that they are denied; where it asks for all, leave them out."""
    describes, creates = need(_R.TOPIC, _O.DESCRIBE), _may_create(asking)
    is_all = wants_all(asking.request, asking.version)
    by_id = not is_all and any(topic.topic_id != NO_ID for topic in asking.request.topics)
    found: list[MetadataResponseTopic] = []
    denied: list[MetadataResponseTopic] = []
    pace = Pace()
    for topic in response.topics:
        if pace.is_due():
            yield
        name = asking.topic(topic)
        is_missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name is None or (describes.is_met(asking, name) and (not is_missing or creates(name))):
            found.append(topic)
        elif not is_all:
            shown = (None, topic.topic_id) if by_id else (name, NO_ID)
            denied.append(MetadataResponseTopic(_TOPIC_DENIED, *shown))
    return replace(response, topics=(*found, *denied))


def _may_create(asking: Asking) -> Callable[[str], bool]:
    """Return whether a topic that is not there is no matter of rights: it may be created, or nobody asks for that."""
    is_wanted = (
        asking.request.allow_auto_topic_creation and asking.engine.world.ledger.catalog.settings.auto_create_topics
    )
    may_all = not is_wanted or asking.rights.may(_O.CREATE, _R.CLUSTER)
    return lambda name: may_all or asking.rights.may(_O.CREATE, _R.TOPIC, name)


def once(array: str) -> Callable[[Asking], Callable[[Entry], bool]]:
    """Check names that are there once. Of others the handler says that they are there twice."""

    def is_checked(asking: Asking) -> Callable[[Entry], bool]:
        counts = Counter(one.name for one in getattr(asking.request, array))
        return lambda entry: counts[entry.name] == 1 and entry.name not in RESERVED

    return is_checked


def hide_configs(asking: Asking, response: Response) -> Steps[Response]:
    """CreateTopics: tell the settings of a topic only to who may see them (KIP-525)."""
    describes = need(_R.TOPIC, _O.DESCRIBE_CONFIGS)

    def hide(topic: Entry) -> Entry:
        if topic.error_code or describes.is_met(asking, topic.name):
            return topic
        return replace(
            topic, topic_config_error_code=_TOPIC_DENIED, num_partitions=-1, replication_factor=-1, configs=()
        )

    return replace(response, topics=tuple((yield from map_in_steps(response.topics, hide))))


def deletable_topics() -> Callable[[Asking], Judge]:
    """DeleteTopics: what may be described and is not there is not there; all else that may not be deleted is denied."""
    deletes, describes = need(_R.TOPIC, _O.DELETE), need(_R.TOPIC, _O.DESCRIBE)

    def judge(asking: Asking) -> Judge:
        if asking.rights.may(_O.DELETE, _R.CLUSTER):
            return deny_nothing
        topics = asking.engine.world.ledger.catalog.topics_by_name
        entries = asking.request.topics if asking.version >= BY_ID_SINCE else asking.request.topic_names
        counts = Counter(entries)

        def deny(entry: Entry) -> ErrorCode | None:
            name = entry if isinstance(entry, str) else asking.topic(entry)
            if name is None or counts[entry] > 1 or deletes.is_met(asking, name):
                return None
            is_known = name in topics or not describes.is_met(asking, name)
            return deletes.error if is_known else None

        return deny

    return judge


def name_deleted_topic(asking: Asking, entry: Entry) -> Entry:
    """Name a topic that was asked for by its id to a client that may describe it."""
    if entry.topic_id == NO_ID:
        return entry
    name = asking.topic(entry)
    assert name is not None, "an id that no topic has is not denied"
    return replace(entry, name=name) if asking.rights.may(_O.DESCRIBE, _R.TOPIC, name) else replace(entry, name=None)


_CONFIGURED: Final[Mapping[int, Resource]] = {
    TOPIC: _R.TOPIC,
    GROUP: _R.GROUP,
    BROKER: _R.CLUSTER,
    BROKER_LOGGER: _R.CLUSTER,
    CLIENT_METRICS: _R.CLUSTER,
}


def each_config(operation: Operation, answers: str, place: str, *open_types: int) -> Each:
    """Check each resource by its type. Types that there are not, and brokers that there are not, are the handler's."""

    def judge(asking: Asking) -> Judge:
        catalog, is_change = asking.engine.world.ledger.catalog, operation == _O.ALTER_CONFIGS
        times = Counter((entry.resource_type, entry.resource_name) for entry in asking.request.resources)

        def deny(entry: Entry) -> ErrorCode | None:
            if is_change and refuse_shape(entry, times[entry.resource_type, entry.resource_name]) is not None:
                return None  # the handler refuses it, as Kafka does before it looks at rights
            kind = _CONFIGURED.get(entry.resource_type)
            if kind is None or entry.resource_type in open_types:
                return None
            if is_change and entry.resource_type == BROKER and entry.resource_name:
                if validate_broker(catalog, entry.resource_name) is not None:
                    return None
            name = CLUSTER_NAME if kind == _R.CLUSTER else entry.resource_name
            return None if asking.rights.may(operation, kind, name) else ERRORS[kind]

        return deny

    what = f"{operation.name} on the topic or group, or on the cluster for brokers, for each resource"
    finish = _untold if operation == _O.ALTER_CONFIGS else None
    return Each("resources", answers, judge, place, AUTHORIZATION_FAILED, what, finish)


def _untold(asking: Asking, entry: Entry) -> Entry:
    """Kafka has a message for each type but loggers."""
    return replace(entry, error_message=None) if entry.resource_type == BROKER_LOGGER else entry


def before_cursor(asking: Asking) -> Callable[[Entry], bool]:
    """Check the topics of this page and later ones; the handler leaves out those before it."""
    cursor = asking.request.cursor
    return lambda entry: cursor is None or entry.name >= cursor.topic_name


def refuse_producers(request: Any, version: int, error: ErrorCode) -> Response:
    response = error_response(request, version, error)

    def told(topic: Entry) -> Entry:
        partitions = [replace(one, error_message=AUTHORIZATION_FAILED) for one in topic.partitions]
        return replace(topic, partitions=tuple(partitions))

    return replace(response, topics=tuple(map(told, response.topics)))


def valid_name(asking: Asking) -> Callable[[Entry], bool]:
    return lambda entry: reason_invalid(entry.name) is None
