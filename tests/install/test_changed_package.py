"""A server whose package is installed anew, or removed, while it runs: it ends with one line, and says what to do."""

import json
import os
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator.client import Client
from coordinator.client.connection import ClientError
from coordinator.own_modules import CHANGED
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.install.environments import Environment, Wheels
from tests.live import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.xdist_group("install")


def test_a_server_whose_package_has_changed_says_so_in_one_line(wheels: Wheels, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.install(wheels.server)
    for module in ("coordinator/runtime/transactions.py", "coordinator/cli/admin_port.py"):
        path = environment.packages / "muster" / module
        text = path.read_text()
        assert CHANGED in ask_a_server_without(environment, tmp_path, path), module
        path.write_text(text)


def ask_a_server_without(environment: Environment, folder: Path, module: Path) -> str:
    """Start a server, remove a module, use the server for what needs it, and return how it ends."""
    ready = folder / f"{module.stem}.json"
    words = ["serve", "--ephemeral", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-file", str(ready)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [environment.bin / "muster", *words], cwd=folder, env=variables, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            wait_until("it is ready", lambda: ready.exists() or server.poll() is not None)
            facts = json.loads(ready.read_text())
            module.unlink()
            with suppress(ClientError, OSError):
                if "admin" in module.name:
                    urllib.request.urlopen(f"{facts['admin']}/healthz", timeout=WAIT_SECONDS).read()
                else:
                    with Client.to(facts["kafka"]) as client:
                        client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
            _, said = server.communicate(timeout=WAIT_SECONDS)
        finally:
            server.kill()
    assert server.returncode == 1, said
    assert "Traceback" not in said and said.count("\n") <= 2, said
    return said
