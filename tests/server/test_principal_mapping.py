"""`ssl.principal.mapping.rules`: the principals that Kafka makes of the names in certificates, and rules that are none."""

import json
import string
import time
from pathlib import Path

import pytest

from coordinator.server.principal_mapping import NAME_CHARACTERS_MAX, MappingRules, NoRuleError

PRINCIPALS = Path(__file__).parent / "principals.jsonl"
DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
RULES = ", ".join((
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "DEFAULT",
))  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        (RULES, DUKE, "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("DEFAULT", DUKE, DUKE),
        (" , ,, DEFAULT ,", DUKE, DUKE),
        ("RULE:CN=(\\w+).*/a\\/b\\$1-$1/", DUKE, "a/b$1-Duke"),
        ("RULE:CN=(\\w+).*/[$0]/", DUKE, f"[{DUKE}]"),
        ("RULE:CN=(\\w+).*/$12/", DUKE, "Duke2"),
        ("RULE:CN=(\\w+).*/$1@$4/", DUKE, "Duke@$4"),
        ("RULE:CN=(\\w+).*/$01/", DUKE, "Duke"),
        ("RULE:CN=(?<who>\\w+)(x)?.*/${who}$2/", DUKE, "Duke"),
        # Java replaces all that the pattern finds: behind the whole, the end, which is empty.
        ("RULE:.*/x/", DUKE, "xx"),
        ("RULE:[a-c]+|d*/x/", "abc", "xx"),
        ("RULE:^CN=d,?O?|$/x/", "CN=d", "xx"),
    ],
)
def test_names_are_made_as_by_kafka(rules: str, name: str, principal: str) -> None:
    assert MappingRules(rules).apply(name) == principal


def test_drawn_rules_apply_as_kafka_applies_them() -> None:
    """Patterns that fit a beginning, an end or a part of a name, in any order: what `SslPrincipalMapper` of Kafka 4.3.1
    said of each."""
    told = [json.loads(line) for line in PRINCIPALS.read_text(encoding="utf-8").splitlines()]
    assert [one | _map(one["rules"], one["name"]) for one in told] == told


def _map(rules: str, name: str) -> dict[str, str]:
    try:
        return {"principal": MappingRules(rules).apply(name)}
    except NoRuleError:
        return {"refused": "name"}
    except ValueError:
        return {"refused": "rules"}


@pytest.mark.parametrize("rules", ["", ",,", "RULE:^OU=(.*)$/$1/", "RULE:Duke/x/"])
def test_a_name_without_a_rule_is_refused(rules: str) -> None:
    with pytest.raises(NoRuleError, match=r"no rule of ssl\.principal\.mapping\.rules"):
        MappingRules(rules).apply(DUKE)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("default", "'default' is none"),
        ("DEFAUL", "'DEFAUL' is none"),
        ("DEFAULT/L", "'DEFAULT/L' is none"),
        ("RULE:CN=(.*?),OU=ServiceUsers.*/$1", "is none"),
        ("rule:^CN=(.*?),OU=ServiceUsers.*$/$1/", "is none"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U", "is none"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/L", "is none"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/LU", "is none"),
        ("RULE:^CN=(/$1/", r"missing \)"),
        ("RULE:(?=a)b/$1/", "invalid perl operator"),
        ("RULE:a/$1/", "there is no group 1"),
        ("RULE:(a)/${who}/", "there is no group 'who'"),
        ("RULE:(a)/$x/", "is not followed by a number"),
        ("RULE:" + "|".join(f".*{letter}.{{100}}x" for letter in string.ascii_lowercase) + "//", "too large"),
    ],
)
def test_rules_that_are_none_are_named(rules: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MappingRules(rules)


def test_no_name_takes_long() -> None:
    """What a backtracking engine needs ages for. A longer name is refused."""
    rules = MappingRules("RULE:(a+)+$/$1/, RULE:(a|aa)*b?(a|b)*c/x/, DEFAULT")
    name = "a" * (NAME_CHARACTERS_MAX - 1) + "!"
    began = time.process_time()
    assert rules.apply(name) == name
    assert time.process_time() - began < 0.05
    with pytest.raises(NoRuleError, match="more than 1024 characters"):
        rules.apply(name + "a")
