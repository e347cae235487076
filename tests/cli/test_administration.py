"""`muster acls`, `users`, `quotas` and `configs`, against a server."""

import io
import json
import sys

import pytest

from coordinator.cli import users
from tests.commands import Shell, shell_fixture
from tests.live import Muster, server_fixture

server = server_fixture(
    "--ephemeral", "--topic", "orders:2",
    "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set", "super.users=User:ANONYMOUS",
)  # fmt: skip
shell = shell_fixture()


@pytest.fixture
def muster(server: Muster, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    server.steer("POST", "/reset", prefix="")
    monkeypatch.setenv("MUSTER_BOOTSTRAP", server.kafka)
    return shell


def test_acls_are_added_listed_and_removed(muster: Shell) -> None:
    consumer = ("--allow-principal", "User:till", "--consumer", "--topic", "orders", "--group", "shop")
    assert [
        (one["operation"], one["resource"], one["name"])
        for one in json.loads(muster(0, "acls", "add", *consumer, "--json"))
    ] == [("read", "topic", "orders"), ("describe", "topic", "orders"), ("read", "group", "shop")]
    muster(0, "acls", "add", "--deny-principal", "User:*", "--operation", "WRITE", "--topic", "app-", "--prefixed")
    muster(
        0,
        "acls",
        "add",
        "--allow-principal",
        "User:a",
        "--operation",
        "AlterConfigs",  # as Kafka's tools have it
        "--cluster",
        "--host",
        "10.0.0.1",
    )
    assert muster(0, "acls", "list").splitlines() == [
        "RESOURCE  NAME           PATTERN   PERMISSION  PRINCIPAL  OPERATION      HOST",
        "topic     app-           prefixed  deny        User:*     write          *",
        "topic     orders         literal   allow       User:till  read           *",
        "topic     orders         literal   allow       User:till  describe       *",
        "group     shop           literal   allow       User:till  read           *",
        "cluster   kafka-cluster  literal   allow       User:a     alter-configs  10.0.0.1",
    ]
    assert len(json.loads(muster(0, "acls", "list", "--principal", "User:till", "--json"))) == 3
    assert len(json.loads(muster(0, "acls", "list", "--topic", "app-", "--prefixed", "--json"))) == 1
    assert muster(0, "acls", "remove", "--topic", "orders").startswith("removed 2 ACLs\n")
    assert muster(0, "acls", "remove", "--principal", "User:till").startswith("removed 1 ACL\n")
    assert json.loads(muster(0, "acls", "remove", "--principal", "User:nobody", "--json")) == []
    assert "cannot add allow User:a read on topic : " in muster(
        1, "acls", "add", "--allow-principal", "User:a", "--operation", "read", "--topic", ""
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["add", "--topic", "t", "--operation", "read"], "missing one of --allow-principal --deny-principal"),
        (["add", "--allow-principal", "till", "--topic", "t", "--operation", "read"],
         "invalid principal 'till': expected User:NAME"),
        (["add", "--allow-principal", "User:a", "--operation", "read"], "missing one of --topic --group"),
        (["add", "--allow-principal", "User:a", "--topic", "t"], "missing one of --operation --producer --consumer"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--consumer"], "invalid --consumer: expected --topic and --group"),
        (["add", "--allow-principal", "User:a", "--group", "t", "--producer"], "invalid --producer: expected --topic"),
        (["remove"], "missing one of --principal --topic"),
    ],
)  # fmt: skip
def test_an_acl_that_cannot_be_meant_is_refused(muster: Shell, words: list[str], complaint: str) -> None:
    assert f"muster acls: {complaint}" in muster(2, "acls", *words)


PRINCIPALS = ("User:a", "User:b")
RESOURCES = (("topic", "t"), ("topic", "u"), ("group", "g"), ("transactional-id", "x"))


@pytest.mark.parametrize("named", [(), RESOURCES[:1], RESOURCES[:2], RESOURCES[1:3], RESOURCES])
@pytest.mark.parametrize("principal", [None, *PRINCIPALS, "User:c"])
def test_acls_of_all_that_is_named_are_listed_and_removed_and_no_others(
    muster: Shell, principal: str | None, named: tuple[tuple[str, str], ...]
) -> None:
    allowed = [word for one in PRINCIPALS for word in ("--allow-principal", one)]
    every = [word for kind, name in RESOURCES for word in (f"--{kind}", name)]
    muster(0, "acls", "add", *allowed, "--operation", "describe", *every)
    there = {(one, *resource) for one in PRINCIPALS for resource in RESOURCES}
    wanted = {each for each in there if principal in (None, each[0]) and (not named or each[1:] in named)}
    words = [word for kind, name in named for word in (f"--{kind}", name)]
    words += [] if principal is None else ["--principal", principal]

    def list_entries(*words: str) -> set[tuple[str, str, str]]:
        found = json.loads(muster(0, "acls", "list", *words, "--json"))
        return {(one["principal"], one["resource"], one["name"]) for one in found}

    assert list_entries(*words) == wanted
    if words:
        muster(0, "acls", "remove", *words)
        assert list_entries() == there - wanted


@pytest.mark.parametrize("prefixed", [(), ("--prefixed",)])
@pytest.mark.parametrize("kind", ["--topic", "--group", "--transactional-id", "--cluster"])
def test_a_prefix_is_of_names_and_the_cluster_has_none(muster: Shell, kind: str, prefixed: tuple[str, ...]) -> None:
    resource = (kind,) if kind == "--cluster" else (kind, "some")
    (one,) = json.loads(
        muster(
            0, "acls", "add", "--allow-principal", "User:a", "--operation", "describe", *resource, *prefixed, "--json"
        )
    )
    assert one["pattern"] == ("prefixed" if prefixed and kind != "--cluster" else "literal")
    assert json.loads(muster(0, "acls", "remove", *resource, *prefixed, "--json")) == [one]


def test_a_prefix_without_a_name_is_all_acls_of_prefixes(muster: Shell) -> None:
    for prefixed in ((), ("--prefixed",)):
        words = ("--allow-principal", "User:a", "--operation", "describe", "--topic", "t", "--group", "g")
        muster(0, "acls", "add", *words, *prefixed)
    for verb, found in (("list", 2), ("remove", 2), ("list", 0)):
        some = json.loads(muster(0, "acls", verb, "--principal", "User:a", "--prefixed", "--json"))
        assert [one["pattern"] for one in some] == ["prefixed"] * found
    assert len(json.loads(muster(0, "acls", "list", "--json"))) == 2


@pytest.mark.parametrize("password", ["geheim", " with blanks ", "\twith tabs\t", "wörter", "a\\nb", "x" * 200])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_password_is_the_line_as_it_stands(
    muster: Shell, monkeypatch: pytest.MonkeyPatch, password: str, end: str
) -> None:
    hashed: list[bytes] = []
    pbkdf2 = users.hashlib.pbkdf2_hmac
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}{end}and more\n" if end else password))
    monkeypatch.setattr(users.hashlib, "pbkdf2_hmac", lambda *args: hashed.append(args[1]) or pbkdf2(*args))
    muster(0, "users", "set", "till")
    assert hashed == [password.encode()] * 2


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # by the locale
def test_a_password_that_is_no_utf8_is_refused_and_not_shown(
    muster: Shell, monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"geheim\xff\n"), "utf-8", errors))
    assert muster(2, "users", "set", "till") == "muster users: invalid password: expected UTF-8\n"


@pytest.mark.parametrize("known", [0, 1, 2])
def test_what_concerns_a_user_that_does_not_exist_ends_with_1(
    muster: Shell, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """Whatever is done for the others, and wherever it is named."""
    for verb in ("list", "delete"):
        for number in range(2):
            monkeypatch.setattr(sys, "stdin", io.StringIO("geheim\n"))
            muster(0, "users", "set", f"user{number}")
        named = ["user0", "user1"]
        named.insert(known, "nobody")
        told = muster(1, "users", verb, *named)
        assert f"cannot {verb} nobody" in told and all(f"user{number}" in told for number in range(2))
    assert json.loads(muster(0, "users", "list", "--json")) == []


def test_users_have_passwords_that_stay_here(muster: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("geheim\n"))
    assert muster(0, "users", "set", "till", "--iterations", "5000") == "set till\n"
    assert muster(0, "users", "list").splitlines()[1:] == [
        "till  SCRAM-SHA-256        5000", "till  SCRAM-SHA-512        5000",
    ]  # fmt: skip
    assert muster(0, "users", "delete", "till", "--mechanism", "scram-sha-256") == "deleted till\n"
    assert json.loads(muster(0, "users", "list", "till", "--json")) == [
        {"user": "till", "mechanism": "SCRAM-SHA-512", "iterations": 5000}
    ]
    assert "cannot delete till" in muster(1, "users", "delete", "till", "--mechanism", "SCRAM-SHA-256")
    twice = ("--mechanism", "SCRAM-SHA-512") * 2
    assert muster(0, "users", "delete", "till", "till", *twice) == "deleted till\n"
    assert "cannot list nobody: " in muster(1, "users", "list", "nobody")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert "invalid password: expected a line on standard input" in muster(2, "users", "set", "till")


def test_quotas_are_of_users_clients_and_addresses(muster: Shell) -> None:
    till = ("--user", "till", "--client-id", "scanner")
    muster(0, "quotas", "set", *till, "producer_byte_rate=1048576", "request_percentage=12.5")
    muster(0, "quotas", "set", "--client-defaults", "consumer_byte_rate=5")
    assert muster(0, "quotas", "list").splitlines() == [
        "ENTITY                       QUOTA               VALUE",
        "client-id=<default>          consumer_byte_rate  5",
        "user=till client-id=scanner  producer_byte_rate  1048576",
        "user=till client-id=scanner  request_percentage  12.5",
    ]
    muster(0, "quotas", "unset", *till, "request_percentage")
    assert json.loads(muster(0, "quotas", "list", "--user", "till", "--json")) == [
        {"entity": {"user": "till", "client-id": "scanner"}, "quotas": {"producer_byte_rate": 1048576.0}}
    ]
    assert "cannot set quotas of user=till: " in muster(1, "quotas", "set", "--user", "till", "no_such=1")
    assert "missing one of --user --client-id --ip" in muster(2, "quotas", "set", "x=1")
    assert "invalid x 'many': expected a number" in muster(2, "quotas", "set", "--user", "a", "x=many")
    for kind in ("--user", "--client-id", "--ip"):  # left out, it would be a quota of others
        for words in (["list"], ["set", "producer_byte_rate=1"], ["unset", "producer_byte_rate"]):
            other = "--user" if kind == "--client-id" else "--client-id"
            assert f"invalid {kind} '': expected a name" in muster(2, "quotas", *words, kind, "", other, "scanner")
    assert "invalid --user-defaults: --user names one" in muster(2, "quotas", "list", "--user", "a", "--user-defaults")


def test_settings_are_of_topics_groups_and_brokers(muster: Shell) -> None:
    assert muster(0, "configs", "set", "--topic", "orders", "retention.ms=1000") == "set settings of topic orders\n"
    assert muster(0, "configs", "list", "--topic", "orders").splitlines()[1] == "retention.ms  1000   topic"
    assert muster(0, "configs", "unset", "--topic", "orders", "retention.ms") == "unset settings of topic orders\n"
    assert muster(0, "configs", "list", "--topic", "orders").count("\n") == 1
    muster(0, "configs", "set", "--group", "shop", "consumer.session.timeout.ms=50000")
    assert json.loads(muster(0, "configs", "list", "--group", "shop", "--json"))[0]["value"] == "50000"
    every = json.loads(muster(0, "configs", "list", "--broker", "0", "--all", "--json"))
    assert {"num.partitions", "node.id"} <= {one["name"] for one in every}
    assert "no broker 7: there is 0" in muster(1, "configs", "list", "--broker", "7")
    assert muster(0, "configs", "list", "--broker", "").startswith("SETTING")
    assert "cannot set settings of broker" in muster(1, "configs", "set", "--broker", "", "log.cleaner.threads=2")
    assert "cannot set settings of topic orders: " in muster(1, "configs", "set", "--topic", "orders", "retention.ms=x")
    with pytest.raises(SystemExit):
        muster(2, "configs", "list")
