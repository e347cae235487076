"""The table of needs and its guards: which APIs stand in it, what a client without rights can do, and what is kept."""

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Rights
from coordinator.core.acls.names import Operation, Resource
from coordinator.core.pace import UNITS
from coordinator.core.principal import OPERATOR_PRINCIPAL, Principal
from coordinator.core.result import Call
from coordinator.runtime.authorization.guard import Asking, Each, Need, Whole
from coordinator.runtime.authorization.needs import NEEDS
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.engine import Engine
from coordinator.runtime.router import HANDLERS, routes, supported_versions
from coordinator.runtime.steps import UnfinishedRequests
from protocol.apis import ADVERTISED_ONLY, APIS, BY_NAME
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
)
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsRequestResource
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestDeleteAclsFilter
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequestGroup
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.wire import ZERO_UUID
from storage.memory_files import MemoryFiles
from tests import requests
from tests.dataplane.broker import batch
from tests.protocol.values import Choices, value_of
from tests.requests import create_topics, produce
from tests.runtime.guarded import AUTHORIZER, rule, server, user
from tests.server.in_memory import DATA_DIR, InMemory, Peer
from tests.simulation.promises import codes_in
from tests.steps import count_steps, finish

OPEN = {  # to everybody: what comes before a client is known, and tokens, of which there are none
    "ApiVersions", "SaslHandshake", "SaslAuthenticate",
    "CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken",
}  # fmt: skip
SILENT = {  # what is denied is left out; or what these requests ask for is of no type that there is
    "DescribeCluster", "ListGroups", "ListTransactions", "AlterConfigs", "DescribeConfigs", "IncrementalAlterConfigs",
}  # fmt: skip
DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def join(peer: Peer) -> int:
    answer = peer.ask(requests.join("g"), 3)
    return ErrorCode.NONE if answer is None else answer.error_code


def test_every_api_is_in_the_table_or_open_to_everybody() -> None:
    assert NEEDS.keys() | OPEN == HANDLERS.keys()
    assert not NEEDS.keys() & OPEN


def test_without_an_authorizer_no_handler_has_a_guard() -> None:
    """Switched off, it costs nothing: the routes are the handlers themselves."""
    assert all(route.handle is HANDLERS[route.api] for route in routes(supported_versions("4.3"), None).values())


def test_a_server_does_not_start_with_an_api_that_needs_no_rights_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = server().node.engine.authorizer
    assert needed is not None, "it has an authorizer"
    monkeypatch.delitem(cast("dict[str, Any]", NEEDS), "ShareFetch")
    with pytest.raises(AssertionError, match="everybody could call ShareFetch"):
        routes(supported_versions("4.3"), needed)


def test_a_quota_that_may_not_be_altered_is_named() -> None:
    who = AlterClientQuotasRequestEntityData("user", "bob")
    request = AlterClientQuotasRequest((AlterClientQuotasRequestEntryData((who,), ()),))
    (entry,) = user(server()).ask(request, 1).entries
    assert (entry.error_code, entry.error_message) == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Authorization failed.",
    )
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", "bob")]


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_client_without_rights_changes_nothing(name: str) -> None:
    """Whatever it asks, in every version: no record is written, no group is there, and each answer can be encoded."""
    api, one = BY_NAME[name], server()
    stranger = user(one)
    before = {path: bytes(data) for path, data in contents(one).items()}
    said: set[int] = set()
    for version in supported_versions("4.3")[api.key]:
        if (api.key, version) in ADVERTISED_ONLY:
            continue
        for seed in range(4):
            choices = Choices(bytes((seed * 37 + at * (seed + 1)) % 251 for at in range(600)))
            request = value_of(api.request.at(version, api.is_flexible(version)), choices)
            if hasattr(request, "isolation_level"):  # which is refused without a look at anything else
                request = replace(request, isolation_level=seed % 2)
            if stranger.connection.closing:
                stranger = user(one)
            answer = stranger.ask(request, version)
            if answer is not None:
                encode_response(api.key, version, 1, answer)
                said |= codes_in(answer)
    assert contents(one) == before
    assert not [group for partition in one.node.world.partitions for group in partition.shard.groups]
    assert not one.node.world.edge.failures, "and nothing failed"
    assert said & DENIED or name in SILENT, f"and it is told so, not {said}"


def contents(one: InMemory) -> dict[str, bytes]:
    """The bytes of all logs."""
    one.node.engine.flush()
    files, found = one.files, {}
    for directory in files.list(DATA_DIR):
        for name in files.list(f"{DATA_DIR}/{directory}"):
            file = files.open(f"{DATA_DIR}/{directory}/{name}", readonly=True)
            found[f"{directory}/{name}"] = file.pread(0, file.size())
            file.close()
    return found


def test_rules_are_there_after_a_restart() -> None:
    files = MemoryFiles()
    one = server(files)
    admin = user(one, "admin")
    assert join(user(one)) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    created = admin.ask(CreateAclsRequest((rule(), rule(resource_name="h"))), 3)
    assert [result.error_code for result in created.results] == [ErrorCode.NONE] * 2
    gone = DeleteAclsRequestDeleteAclsFilter(
        resource_type_filter=Resource.GROUP, resource_name_filter="h", operation=1, permission_type=1
    )
    assert len(admin.ask(DeleteAclsRequest((gone,)), 3).filter_results[0].matching_acls) == 1
    assert join(user(one)) == ErrorCode.NONE
    one.node.close()

    two = server(files)
    assert join(user(two)) == ErrorCode.NONE
    assert join(user(two, "bob")) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    everything = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    (found,) = user(two, "admin").ask(everything, 3).resources
    assert (found.resource_type, found.resource_name, len(found.acls)) == (Resource.GROUP, "g", 1)


def test_a_restart_without_the_authorizer_asks_nobody_and_forgets_nothing() -> None:
    files = MemoryFiles()
    one = server(files)
    user(one, "admin").ask(CreateAclsRequest((rule(),)), 3)
    one.node.close()
    off = InMemory(files)
    assert join(user(off, "bob")) == ErrorCode.NONE
    assert user(off).ask(CreateAclsRequest((rule(),)), 3).results[0].error_code == ErrorCode.SECURITY_DISABLED
    off.node.close()
    assert join(user(server(files), "bob")) == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("values", [{}, {"authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS"}])
def test_a_number_that_stands_for_nothing_closes_the_connection(values: dict[str, Any]) -> None:
    """With an authorizer and without, as Kafka does; the server goes on."""
    one = InMemory(None, **values)
    for request in (
        CreateAclsRequest((rule(), rule(operation=0))),
        DescribeAclsRequest(resource_type_filter=0, operation=1, permission_type=1),
        DeleteAclsRequest((DeleteAclsRequestDeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=0),)),
    ):
        peer = one.connect()
        assert peer.ask(request, 3) is None
        assert peer.connection.closing
    assert not one.node.world.edge.failures
    assert not list(one.node.world.ledger.catalog.acls)


def test_a_producer_that_wants_no_answer_gets_none_of_a_denial_either() -> None:
    """Its connection is closed, by which it learns that something is wrong."""
    one = server()
    for transactional_id in (None, "x"):
        peer = user(one)
        assert peer.ask(produce("orders", {0: batch("a")}, transactional_id, acks=0), 11) is None
        assert peer.connection.parked is None and peer.connection.closing


@pytest.mark.parametrize("allowed", [(), ("orders",), ("orders", "b")])
def test_of_what_a_producer_may_write_only_a_part_all_of_that_is_written(allowed: tuple[str, ...]) -> None:
    """And with acks=0 its connection is closed for the rest."""
    one = server(topics={"orders": 1, "b": 1})
    rules = [rule(resource_type=Resource.TOPIC, resource_name=name, operation=Operation.WRITE) for name in allowed]
    assert {told.error_code for told in user(one, "admin").ask(CreateAclsRequest(tuple(rules)), 3).results} <= {0}
    both = [produce(name, {0: batch("a", at_ms=one.clock.now_ms())}, acks=0) for name in ("b", "orders")]
    request = replace(both[0], topic_data=tuple([topic for each in both for topic in each.topic_data]))
    peer = user(one)
    assert peer.ask(request, 11) is None
    assert peer.connection.closing == (len(allowed) < 2)
    ends = {name: one.node.world.dataplane.find_end_offset(name, 0) for name in ("orders", "b")}
    assert ends == {name: int(name in allowed) for name in ends}


def test_types_of_resources_that_there_are_not_need_no_rights() -> None:
    """Loggers are refused whoever alters them by the older API; a client hears of other types what an admin hears."""
    one = server()
    apis: dict[int, tuple[type, type]] = {
        32: (DescribeConfigsRequest, DescribeConfigsRequestResource),
        33: (AlterConfigsRequest, AlterConfigsRequestResource),
        44: (IncrementalAlterConfigsRequest, IncrementalAlterConfigsRequestResource),
    }
    for key, (request, resource) in apis.items():
        needed = set()
        for kind in range(40):
            asked = request((resource(kind, "orders" if kind == 2 else "0"),))
            answers = [user(one, name).ask(asked, 1 if key == 44 else 2) for name in ("alice", "admin")]
            (said,), (known,) = [answer.results if key == 32 else answer.responses for answer in answers]
            if said.error_code != known.error_code:
                assert said.error_code in DENIED
                needed.add(kind)
        assert needed == {2, 4, 8, 16, 32} - ({8} if key == 33 else set()), key


def test_names_of_the_table_are_apis() -> None:
    assert NEEDS.keys() <= {api.name for api in APIS.values()}
    assert all(list(guard.sentences()) for guard in NEEDS.values()), "and each says what it checks"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("User:admin", {"admin"}),
        ("User:admin;User:ops", {"admin", "ops"}),
        (" User:admin ; User:ops;\tUser:CN=a,OU=b ", {"admin", "ops", "CN=a,OU=b"}),
        (";User:admin;; ", {"admin"}),
        ("User:größer;Group:ops", {"größer"}),
        ("", set()),
        (" ; ", set()),
    ],
)
def test_super_users_are_who_the_setting_names_however_it_is_written(given: str, names: set[str]) -> None:
    one = InMemory(authorizer_class_name=AUTHORIZER, super_users=given)
    every = {"admin", "ops", "CN=a,OU=b", "CN=a", "größer", "", " ops", "User:ops", given}
    assert {name for name in every if join(user(one, name)) == ErrorCode.NONE} == names


def test_the_operator_needs_no_rights() -> None:
    """The admin port authenticates by its own means: the verbs of an operator are no client's requests."""
    one = server()
    call = Call(0, one.clock.now_ms(), 7, "operator", "/operator", fresh_ids(1), OPERATOR_PRINCIPAL)
    request = create_topics({"made": 1})
    answer = one.node.engine.handle(BY_NAME["CreateTopics"].key, request, call, one.listener.where).response
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]
    impostor = replace(call, principal=Principal("User", "admin port"))
    answer = one.node.engine.handle(BY_NAME["CreateTopics"].key, request, impostor, one.listener.where).response
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("group_rights", [True, False])
def test_a_commit_of_very_many_partitions_is_checked_in_parts(group_rights: bool) -> None:
    """Other requests are decided in between, and each topic has its own answer, in the order of the request."""
    one = server(topics={"a": 3000, "b": 3000, "c": 3000}, frame_bytes_max=1 << 20)
    rules = [rule(resource_type=Resource.TOPIC, resource_name=name) for name in ("a", "c")]
    if group_rights:
        rules.append(rule())
    user(one, "admin").ask(CreateAclsRequest(tuple(rules)), 3)
    partitions = tuple(OffsetCommitRequestPartition(index, 1) for index in range(3000))
    topics = tuple(OffsetCommitRequestTopic(name, partitions=partitions) for name in ("a", "b", "c"))
    peer = user(one)
    with patch.object(one.node.engine.long_requests, "step", wraps=one.node.engine.long_requests.step) as step:
        peer.send((OffsetCommitRequest("g", topics=topics), 8))
        one.rest()
    assert step.call_count > 1
    (answer,) = [message for _, message in peer.answers]
    said = {topic.name: {part.error_code for part in topic.partitions} for topic in answer.topics}
    assert [len(topic.partitions) for topic in answer.topics] == [3000] * 3
    if group_rights:
        assert list(said.items()) == [
            ("a", {ErrorCode.NONE}),
            ("b", {ErrorCode.TOPIC_AUTHORIZATION_FAILED}),
            ("c", {ErrorCode.NONE}),
        ]
    else:
        assert said == {name: {ErrorCode.GROUP_AUTHORIZATION_FAILED} for name in "abc"}


def test_there_is_room_for_so_many_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.acls.create_acls.ACLS_MAX", 2)
    admin = user(server(), "admin")
    rules = tuple(rule(resource_name=name) for name in ("a", "a", "b", "c"))
    said = [one.error_code for one in admin.ask(CreateAclsRequest(rules), 3).results]
    assert said == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert [one.error_code for one in admin.ask(CreateAclsRequest(rules[:1]), 3).results] == [ErrorCode.NONE]


@pytest.mark.parametrize("count", [3, 400])
def test_checks_of_many_entries_are_steps_and_say_the_same(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each other name is denied, before the groups are described, and after topics are."""
    steps: list[Any] = []
    advance = UnfinishedRequests.advance
    monkeypatch.setattr(UnfinishedRequests, "advance", lambda *args: steps.append(args) or advance(*args))
    one = server()
    admin, alice = user(one, "admin"), user(one)
    kinds = ((Resource.GROUP, "g"), (Resource.TOPIC, "t"))
    rules = [
        rule(resource_type=kind, resource_name=f"{letter}{number}", operation=Operation.DESCRIBE)
        for kind, letter in kinds
        for number in range(0, count, 2)
    ]
    admin.ask(CreateAclsRequest(tuple(rules)), 3)
    names = tuple([f"g{number}" for number in range(count)])
    steps.clear()
    codes = {group.group_id: group.error_code for group in alice.ask(DescribeGroupsRequest(names), 5).groups}
    denied = {name for name in codes if codes[name] == ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert len(codes) == count and denied == {f"g{number}" for number in range(1, count, 2)}
    assert (len(steps) > 10) == (count > 50)
    topics = tuple([OffsetFetchRequestTopics(f"t{number}", partition_indexes=(0,)) for number in range(count)])
    fetched = alice.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g0", topics=topics),)), 8)
    errors = {topic.name: topic.partitions[0].error_code for topic in fetched.groups[0].topics}
    assert [errors[f"t{number}"] for number in range(count)] == [
        ErrorCode.NONE if number % 2 == 0 else ErrorCode.TOPIC_AUTHORIZATION_FAILED for number in range(count)
    ]


def asking_about_groups(count: int) -> Asking:
    """A client that may do everything asks for so many groups; there is no engine that guards could ask."""
    nobody: Any = None
    rights: Any = SimpleNamespace(may=lambda *_: True)
    return Asking(nobody, DescribeGroupsRequest(tuple([f"g{number}" for number in range(count)])), 5, rights)


@pytest.mark.parametrize("error", [None, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_check_of_each_entry_gives_way_whether_they_are_allowed_or_denied(error: ErrorCode | None) -> None:
    each = Each("groups", "groups", lambda _: lambda _: error)
    steps, divided = count_steps(each.divide(asking_about_groups(1000)))
    assert (divided is None) == (error is None)
    assert steps >= 1000 // UNITS


def test_a_check_of_names_that_are_allowed_gives_way() -> None:
    read = Need((Operation.READ,), Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    steps, refusal = count_steps(Whole(read, lambda one: one.request.groups).refusal(asking_about_groups(1000)))
    assert refusal is None
    assert steps >= 1000 // UNITS


# -- topics that a client may not describe

SECRET, OPEN_TOPIC = "secret", "public"
PLACES_MAX = 60  # of a topic, in one response
TOPIC_FIELDS, TOPIC_LISTS = {"name", "topic", "topic_name"}, {
    "subscribed_topic_names", "source_topics", "repartition_sink_topics",
}  # fmt: skip
TELLING = {  # of topics that the client has not named, and whether a group with one of them is hidden as a whole
    "ConsumerGroupDescribe": True, "ShareGroupDescribe": True, "StreamsGroupDescribe": True, "OffsetFetch": False,
    "DescribeShareGroupOffsets": False, "DescribeTransactions": False, "Metadata": False,
}  # fmt: skip


def name_topics(value: Any, places: Iterator[int], at: int) -> Any:
    """The same body, whose topics are all public but for the one at a place."""

    def choose(_: Any = None) -> str:
        return SECRET if next(places) == at else OPEN_TOPIC

    if isinstance(value, tuple):
        return tuple(name_topics(item, places, at) for item in value)
    if not isinstance(value, Struct):
        return value
    changes: dict[str, Any] = {}
    for field in value.__struct_fields__:
        inner = getattr(value, field)
        if field in TOPIC_FIELDS:
            changes[field] = choose()
        elif field == "topic_id":
            changes[field] = ZERO_UUID
        elif field in TOPIC_LISTS:
            changes[field] = tuple(map(choose, inner or ()))
        else:
            changes[field] = name_topics(inner, places, at)
    return replace(value, **changes)


def find_topics(value: Any) -> set[str]:
    """The topics that a body names."""
    if isinstance(value, tuple):
        return set().union(*map(find_topics, value))
    if not isinstance(value, Struct):
        return set()
    found = set()
    for field in value.__struct_fields__:
        inner = getattr(value, field)
        if field in TOPIC_FIELDS and inner:
            found.add(inner)
        found |= set(inner or ()) if field in TOPIC_LISTS else find_topics(inner)
    return found


def without_subscriptions(response: Any) -> Any:
    groups = [
        replace(one, members=tuple(replace(member, subscribed_topic_names=()) for member in one.members))
        for one in response.groups
    ]
    return replace(response, groups=tuple(groups))


def client() -> tuple[Engine, Rights]:
    """A server, and the rights of one who may describe everything there but a topic."""
    one = server()
    rules = (rule(resource_type=Resource.TOPIC, resource_name=OPEN_TOPIC, operation=Operation.DESCRIBE),
             rule(resource_type=Resource.GROUP, resource_name="*", operation=Operation.DESCRIBE),
             rule(resource_type=Resource.TRANSACTIONAL_ID, resource_name="*", operation=Operation.DESCRIBE))  # fmt: skip
    user(one, "admin").ask(CreateAclsRequest(rules), 3)
    assert one.node.engine.authorizer is not None
    return one.node.engine, Rights(one.node.engine.authorizer, Principal("User", "alice"), "/127.0.0.1")


ASKED = {"OffsetFetch": OffsetFetchRequestGroup, "DescribeShareGroupOffsets": DescribeShareGroupOffsetsRequestGroup}


def ask_for_all(name: str, response: Any, request: Any) -> Any:
    """A request that names what a response is about, but none of its topics. Groups are asked about twice, first by
    names of topics that there are not."""
    if name in ASKED:
        asked = [ASKED[name](one.group_id, topics=None) for one in response.groups]
        half = len(asked) // 2
        request = replace(request, groups=(*(replace(one, topics=()) for one in asked[:half]), *asked[half:]))
    return replace(request, topics=None) if name in ("OffsetFetch", "Metadata") else request


def told_twice(name: str, response: Any) -> Any:
    """The same response, which tells of each group twice where a request may ask so: first of none of its topics."""
    if name not in ASKED:
        return response
    return replace(response, groups=(*(replace(one, topics=()) for one in response.groups), *response.groups))


@pytest.mark.parametrize("name", TELLING)
def test_who_names_no_topic_learns_of_none_that_it_may_not_describe(name: str) -> None:
    """Wherever it is in a response; and what has none of them is told."""
    api, seen = BY_NAME[name], 0
    engine, rights = client()
    for version in supported_versions("4.3")[api.key]:
        for seed in range(25):
            choices = Choices(bytes((seed * 37 + at * (seed + 1)) % 251 for at in range(900)))
            some = value_of(api.response.at(version, api.is_flexible(version)), choices)
            if name == "ShareGroupDescribe":  # as in Kafka, only what members read counts
                some = without_subscriptions(some)
            empty = type(value_of(api.request.at(version, api.is_flexible(version)), choices))()
            for at in range(PLACES_MAX):
                places = count()
                whole = told_twice(name, name_topics(some, places, at - 1))  # first, nowhere
                asking = Asking(engine, ask_for_all(name, whole, empty), version, rights)
                told = whole
                for hide in NEEDS[name].seen:
                    told = finish(hide(asking, told))
                assert SECRET not in find_topics(told), (version, whole)
                has_secret = SECRET in find_topics(whole)
                seen += has_secret
                if not has_secret:
                    assert find_topics(told) == find_topics(whole)
                elif TELLING[name]:
                    for before, after in zip(whole.groups, told.groups, strict=True):
                        assert find_topics(after) == find_topics(before) or SECRET in find_topics(before)
                else:
                    assert OPEN_TOPIC not in find_topics(whole) or OPEN_TOPIC in find_topics(told)
                if at and not has_secret:
                    break
    assert seen > 3, "there was something to hide"
