"""Every rule of the rule book is named by a test that shows it, or it is said here who decides it instead."""

import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

RULES = {  # by prefix: the numbers that the rule book has
    "C": "1-7 10-16 20-23 30-33 100-102 110-117 120-125 130-143 150-161 165-172 175-182 200-215 250-256 300-316 350-360 "
    "400-401 410-414 420-424 430-438 500-505",
    "O": "1-8 20-32 40-52 100-102 110-123 130-138 200-219 300-309 400-410 420-422",
    "A": "1-14 100-109 300-309",
    "R": "1-4 10-14 20-23 40-47 50-54 60-74",
    "L": "1-18",
    "Q": "1-42",
    "T": "1-20",
}

ELSEWHERE = {
    # a failed append ends the process, so there is nothing to take back
    "C-207": "storage: no reply before the append, and no life after a failed one",
    "C-424": "storage: as C-207",
    "O-047": "storage: as C-207",
    "O-048": "runtime: batches are of what one request may hold",
    "O-215": "runtime: a turn is appended before any of its answers leaves",
    "O-219": "storage: as C-207",
    "R-046": "runtime: timestamps, and the producer's batches",
    "L-016": "void: shards move nowhere; the process ends with its connections",
    # a version that is not served, or an old kind of cluster
    "C-401": "void: of clusters before KRaft",
    "O-006": "server: version 0 closes the connection",
    "O-201": "server: version 0 closes the connection",
    # boundary to the other protocols
    "C-500": "core/consumer: JoinGroup to a consumer group",
    "C-501": "core/consumer: SyncGroup, Heartbeat and LeaveGroup to a consumer group",
    "C-502": "core/consumer: the upgrade",
    "C-503": "core/consumer: commits by member epoch",
    "C-505": "void: there are no share groups",
    "O-023": "core/consumer: commits by member epoch; there are no share groups",
    # who may, whose it is, and whether it is there already
    "O-001": "server: ACLs",
    "O-002": "server: ACLs",
    "O-008": "core/topics: one value, which the catalog makes",
    "O-020": "runtime: 14, 15, 16",
    "O-110": "server: ACLs",
    "O-111": "server: ACLs",
    "O-114": "runtime: 14, 15, 16 and the empty group id",
    "O-115": "runtime: 14 is 15 to old producers",
    "O-116": "core/transactions: whether the group is in the transaction",
    "O-117": "core/transactions: the producer's epoch",
    "O-100": "core/transactions: AddOffsetsToTxn",
    "O-101": "core/transactions: EndTxn",
    "O-102": "void: there is one broker, which writes its own markers",
    "O-136": "metrics: counted off results",
    "O-202": "server: ACLs",
    "O-204": "server: ACLs",
    "O-209": "runtime: 14, 15, 16",
    "O-210": "runtime: 16",
    "O-300": "server: ACLs",
    "O-309": "protocol/messages/offset_delete",
    "A-001": "server: ACLs",
    "A-002": "runtime: 14, 15, 16",
    "A-011": "server: authorized operations",
    "A-012": "server: authorized operations",
    "A-101": "server: ACLs",
    "A-107": "runtime: 14, 15",
    "Q-004": "runtime: what is answered while loading",
    "Q-030": "protocol/messages",
    "Q-034": "runtime/find_coordinator",
    "Q-035": "runtime/partitions",
}


def numbers(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def rules() -> set[str]:
    return {f"{prefix}-{number:03}" for prefix, text in RULES.items() for number in numbers(text)}


def named() -> set[str]:
    """The rules that scripts and tests name, those of this list aside; `C-110 to C-112` names three."""
    files = [path for path in HERE.rglob("*") if path.suffix in (".py", ".txt") and path != Path(__file__)]
    found: set[str] = set()
    for text in (path.read_text() for path in files):
        found |= set(re.findall(r"\b[A-Z]-\d{3}\b", text))
        for prefix, first, last in re.findall(r"\b([A-Z])-(\d{3}) to [A-Z]-(\d{3})\b", text):
            found |= {f"{prefix}-{number:03}" for number in range(int(first), int(last) + 1)}
    return found


def test_every_rule_is_shown_or_decided_elsewhere() -> None:
    missing = sorted(rules() - named() - ELSEWHERE.keys())
    assert not missing


def test_nothing_is_excused_that_is_no_rule() -> None:
    assert not sorted(ELSEWHERE.keys() - rules())
