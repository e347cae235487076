"""AlterClientQuotas and DescribeClientQuotas, and what a client that is over its quota is told."""

from typing import Any, Final

from tests.conformance.batches import batch
from tests.conformance.requests import topic_data
from tests.conformance.stage import Answer, Stage
from tests.conformance.stories.topics import new
from tests.conformance.story import story

USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2


def entity(*parts: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in parts]


def op(key: str, value: float | None) -> dict[str, Any]:
    return {"key": key, "value": 0.0 if value is None else value, "remove": value is None}


def alter(k: Stage, who: list[dict[str, Any]], *ops: dict[str, Any], version: int = 1, validates: bool = False) -> None:
    """Alter the quotas of one entity, and write the answer down."""
    k.line("a").call(
        "alter_client_quotas", version, entries=[{"entity": who, "ops": list(ops)}], validate_only=validates
    )


def matching(kind: str, match: int, name: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match, "match": name}


def shown(k: Stage, answer: Answer) -> list[Any]:
    """The entries of this story, sorted: Kafka has no order."""
    found = []
    for one in answer.entries or []:
        names = sorted([part.entity_type, part.entity_name] for part in one.entity)
        if any((name or "").startswith(k.prefix) or (name or "").startswith("10.77.") for _, name in names):
            found.append([names, sorted([value.key, value.value] for value in one["values"])])
    return sorted(k.normal.values(found), key=str)


def described(k: Stage, *components: dict[str, Any], strict: bool = False, until: int | None = None) -> None:
    """Describe, and write down what is of this story; Kafka's broker learns of a change a little later."""
    for _ in range(200):
        answer = k.line("a").quietly("describe_client_quotas", 1, components=list(components), strict=strict)
        found = shown(k, answer)
        if until is None or len(found) == until:
            break
        k.pump.run(25)
    k.events.append({"error": answer.error_code, "entries": found})


@story("V-007")
def quotas_are_set_and_found(k: Stage) -> None:
    """By user, client id, both of them and address; a filter finds them by name, default or any name."""
    u, c = k.name("u"), k.name("c")
    alter(k, entity((USER, u)), op("producer_byte_rate", 1000), op("request_percentage", 12.5))
    alter(k, entity((CLIENT, c)), op("consumer_byte_rate", 2000), version=0)
    alter(k, entity((USER, u), (CLIENT, c)), op("controller_mutation_rate", 0.5))
    alter(k, entity((USER, u), (CLIENT, None)), op("producer_byte_rate", 3000))
    alter(k, entity((IP, "10.77.0.1")), op("connection_creation_rate", 7))
    described(k, matching(USER, EXACT, u), until=3)
    described(k, matching(USER, EXACT, u), strict=True)
    described(k, matching(CLIENT, EXACT, c))
    described(k, matching(CLIENT, EXACT, c), strict=True)
    described(k, matching(USER, EXACT, u), matching(CLIENT, EXACT, c))
    described(k, matching(USER, EXACT, u), matching(CLIENT, DEFAULT), strict=True)
    described(k, matching(USER, ANY), matching(CLIENT, ANY), strict=True)
    described(k, matching(USER, ANY))
    described(k, matching(CLIENT, ANY))
    described(k, matching(IP, ANY))
    described(k, matching(IP, EXACT, "10.77.0.1"), strict=True)
    described(k, matching(USER, DEFAULT))
    described(k)
    described(k, strict=True)


@story("V-007")
def quotas_are_changed_and_removed(k: Stage) -> None:
    """A key alone, a key that is not there, the last key: then there is no entry."""
    u = entity((USER, k.name("u")))
    mine = matching(USER, EXACT, k.name("u"))
    alter(k, u, op("producer_byte_rate", 1000), op("consumer_byte_rate", 2000))
    described(k, mine, until=1)
    alter(k, u, op("producer_byte_rate", 5000), op("consumer_byte_rate", None))
    k.pause(300)
    described(k, mine)
    alter(k, u, op("request_percentage", None))
    alter(k, u, op("producer_byte_rate", 9000), validates=True)
    alter(k, u)
    k.pause(300)
    described(k, mine)
    alter(k, u, op("producer_byte_rate", None))
    described(k, mine, until=0)
    alter(k, u, op("producer_byte_rate", None))


@story("V-007")
def quotas_that_make_no_sense(k: Stage) -> None:
    """Keys that an entity has not, values that no rate has, entities that are none."""
    u, c, ip = (USER, k.name("u")), (CLIENT, k.name("c")), (IP, "10.77.1.1")
    for who, change in (
        ((u,), op("no_such_key", 1)),
        ((u,), op("", 1)),
        ((u,), op("connection_creation_rate", 1)),
        ((ip,), op("producer_byte_rate", 1)),
        ((ip,), op("request_percentage", 1)),
        ((u,), op("producer_byte_rate", 0)),
        ((u,), op("producer_byte_rate", -1)),
        ((u,), op("producer_byte_rate", 1.5)),
        ((u,), op("producer_byte_rate", 1.0000001)),
        ((u,), op("producer_byte_rate", 1e19)),
        ((u,), op("consumer_byte_rate", 0.5)),
        ((u,), op("request_percentage", 0)),
        ((u,), op("request_percentage", -5)),
        ((u,), op("request_percentage", 0.1)),
        ((u,), op("controller_mutation_rate", 0)),
        ((u,), op("controller_mutation_rate", -1)),
        ((ip,), op("connection_creation_rate", -1)),
        ((ip,), op("connection_creation_rate", 0)),
        ((ip,), op("connection_creation_rate", 1.5)),
        ((ip,), op("connection_creation_rate", 3e9)),
        ((), op("producer_byte_rate", 1)),
        (((USER, ""),), op("producer_byte_rate", 1)),
        (((CLIENT, ""),), op("producer_byte_rate", 1)),
        (((IP, ""),), op("connection_creation_rate", 1)),
        (((IP, "no address"),), op("connection_creation_rate", 1)),
        (((IP, "localhost"),), op("connection_creation_rate", 1)),
        ((("group", k.name("g")),), op("producer_byte_rate", 1)),
        ((("", k.name("g")),), op("producer_byte_rate", 1)),
        ((u, ip), op("producer_byte_rate", 1)),
        ((u, u), op("producer_byte_rate", 1)),
        ((u, c, ip), op("producer_byte_rate", 1)),
        ((u,), op("no_such_key", None)),
    ):
        alter(k, entity(*who), change, validates=True)
    alter(k, entity(u), op("producer_byte_rate", 1), op("producer_byte_rate", 2), validates=True)
    k.line("a").call("alter_client_quotas", 1, entries=[], validate_only=True)
    twice = {"entity": entity(u), "ops": [op("producer_byte_rate", 1)]}
    k.line("a").call("alter_client_quotas", 1, entries=[twice, twice], validate_only=True)
    wrong = {"entity": entity(u), "ops": [op("nothing", 1)]}
    other = {"entity": entity(c), "ops": [op("producer_byte_rate", 1)]}
    k.line("a").call("alter_client_quotas", 1, entries=[other, wrong], validate_only=True)


RECORDS: Final = batch(b"x" * 40_000)


def produce(k: Stage, line: str, name: str) -> Answer:
    client = k.line(line, client_id=k.name(line))
    return client.quietly("produce", 9, acks=-1, timeout_ms=5000, topic_data=topic_data(name, RECORDS))


def limit(k: Stage, client: str, key: str, value: float) -> None:
    """Set a quota of a client id, and wait until the broker has it. Stage setting."""
    who = entity((CLIENT, k.name(client)))
    k.line("a").quietly(
        "alter_client_quotas", 1, entries=[{"entity": who, "ops": [op(key, value)]}], validate_only=False
    )
    wanted = {"components": [matching(CLIENT, EXACT, k.name(client))], "strict": True}
    k.line("a").until(client, "describe_client_quotas", 1, lambda answer: answer.entries, **wanted)
    k.pump.run(200)


@story("V-007")
def a_producer_over_its_quota(k: Stage) -> None:
    """Its response comes at once and says how long to wait; other clients do not wait."""
    name = k.topic()
    limit(k, "p", "producer_byte_rate", 5_000)
    told = [produce(k, "p", name).throttle_time_ms > 0 for _ in range(2)]
    k.events.append({"throttled": told, "other": produce(k, "q", name).throttle_time_ms})


@story("V-007")
def a_consumer_over_its_quota(k: Stage) -> None:
    """It is told to wait, and gets no records when it asks for more at once."""
    name = k.topic()
    for _ in range(4):
        produce(k, "stage", name)
    limit(
        k, "c", "consumer_byte_rate", 3_000
    )  # one batch, which a response has at least, is more than ten seconds of it

    def fetch(line: str) -> Answer:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
        return k.line(line, client_id=k.name(line)).quietly(
            "fetch", 12, max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=-1, rack_id="", forgotten_topics_data=[],
            topics=[{"topic": name, "partitions": [part]}],
        )  # fmt: skip

    first, other = fetch("c"), fetch("d")
    k.events.append({"throttled": first.throttle_time_ms > 0, "other": other.throttle_time_ms})


@story("V-007")
def a_client_that_makes_more_topics_than_its_quota(k: Stage) -> None:
    """New versions are refused beyond the quota; old ones do what is asked and are told to wait.

    Each request has a connection of its own, for one that is told to wait is not read meanwhile.
    """
    limit(k, "t", "controller_mutation_rate", 0.1)

    def create(version: int, count: int, short: str) -> Answer:
        topics = [new(k.name(f"{short}{number}"), 5) for number in range(count)]
        return k.line(f"t{short}", client_id=k.name("t")).quietly(
            "create_topics", version, timeout_ms=5000, validate_only=False, topics=topics
        )

    for version, count, short in ((7, 2, "a"), (7, 2, "b"), (7, 1, "c"), (5, 1, "d")):
        answer = create(version, count, short)
        k.events.append({
            "version": version,
            "errors": sorted(one.error_code for one in answer.topics),
            "throttled": answer.throttle_time_ms > 0,
        })  # fmt: skip
    grown, other = (
        k.line(line, client_id=k.name(client)).quietly(
            "create_partitions", 3, timeout_ms=5000, validate_only=False,
            topics=[{"name": k.name("a0"), "count": 9, "assignments": None}],
        )
        for line, client in (("tp", "t"), ("u", "u"))
    )  # fmt: skip
    k.events.append({"partitions": [grown.results[0].error_code, grown.throttle_time_ms > 0]})
    k.events.append({"other": [other.results[0].error_code, other.throttle_time_ms]})


@story("V-007")
def a_client_whose_topics_are_made_as_it_asks_for_them(k: Stage) -> None:
    """They count for its quota, beyond which none is made; another client still has them made."""
    limit(k, "t", "controller_mutation_rate", 0.1)

    def ask(client: str, short: str) -> None:
        topics = [{"name": k.name(short)}]
        line = k.line(client + short, client_id=k.name(client))
        line.quietly("metadata", 12, topics=topics, allow_auto_topic_creation=True)
        k.pause(1_000)
        found = k.line("a").quietly("metadata", 12, topics=topics, allow_auto_topic_creation=False)
        k.events.append({"client": client, "topic": short, "error": found.topics[0].error_code})

    for client, short in (("t", "a"), ("t", "b"), ("t", "c"), ("u", "d")):
        ask(client, short)
    made = k.line("tx", client_id=k.name("t")).quietly(
        "create_topics", 7, timeout_ms=5000, validate_only=False, topics=[new(k.name("e"))]
    )
    k.events.append({"made": made.topics[0].error_code, "throttled": made.throttle_time_ms > 0})
