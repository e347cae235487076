"""/metrics of a real server, as Prometheus asks for it."""

import urllib.request
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from coordinator.client import Client
from coordinator.core.events import Cause
from protocol.messages.metadata import MetadataRequest
from tests.live import Muster

PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"


def test_openmetrics_is_answered_where_it_is_asked_for_and_causes_begin_at_zero(tmp_path: Path) -> None:
    with Muster(tmp_path, "--ephemeral") as server:
        request = urllib.request.Request(f"{server.ready['admin']}/metrics", headers={"Accept": PROMETHEUS})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}
        events = {one.labels["cause"]: one.value for one in families["muster_group_events"].samples}
        assert events == {cause.value: 0.0 for cause in Cause}
        with urllib.request.urlopen(f"{server.ready['admin']}/metrics", timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")


def test_connections_are_told_apart_by_listener(tmp_path: Path) -> None:
    inside = ("--listen", "INSIDE://127.0.0.1:0", "--set", "listener.security.protocol.map=INSIDE:PLAINTEXT")
    with Muster(tmp_path, "--ephemeral", *inside) as server:
        host, _, port = server.ready["listeners"][1].rpartition(":")
        assert server.metric("muster_connections", listener="INSIDE") == 0.0
        with Client.to(f"{host}:{port}") as client:
            client.ask(MetadataRequest(topics=None))
            assert server.metric("muster_connections", listener="INSIDE") == 1.0
            assert server.metric("muster_connections", listener="PLAINTEXT") == 0.0
