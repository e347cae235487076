"""The helpers of `clients/`: each starts a server, does the same with it, and stops it.

The member that they expire is one of ours: the program prints where its server is, and waits until it has joined.
"""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from coordinator.client import Client
from tests.cli.command import classic_member
from tests.live import WAIT_SECONDS

ROOT = Path(__file__).parents[2]

NODE = """
import assert from "node:assert/strict";
import { Muster, start } from "./muster.mjs";
const muster = await start({ options: ["--topic", "orders:4"] });
console.log(muster.bootstrap);
const [member] = (await muster.wait({ group: "shop", state: "Stable", members: 1, timeout_ms: 60000 })).members;
await muster.expire("shop", member.client_id);
await muster.verify({ event: "session_expired", group: "shop", times: 1 });
await assert.rejects(muster.verify({ event: "member_kicked", group: "shop" }), /expected at least 1, found 0[^]*timeline of group shop\\n#1 [^]*session expired/);
await assert.rejects(muster.wait({ group: "shop", members: 9, timeout_ms: 1 }), /not within 1 ms[^]*timeline of group shop\\n#1 /);
assert.ok((await muster.timeline("shop")).events.length > 0);
await muster.freeze(); await muster.run();
assert.ok((await muster.advance(60_000, "all")).now_ms > 0);
await muster.commit("shop", "orders", { 0: 5 });
await muster.fault({ api: "OffsetCommit" }, { error: "NOT_COORDINATOR" });
await muster.reset();
await assert.rejects(muster.group("shop"), /there is no group 'shop'/);
await muster.topic("late", 2);
await muster.stop();
await muster.stop();
await new Muster("", "", { exitCode: null, signalCode: "SIGKILL" }).stop();
console.log("done");
"""
GO = """
package muster

import (
	"fmt"
	"strings"
	"testing"
)

func TestAll(t *testing.T) {
	server := Start(t, "--topic", "orders:4")
	fmt.Println(server.Bootstrap)
	group := server.Wait(M{"group": "shop", "state": "Stable", "members": 1, "timeout_ms": 60000})
	member := group["members"].([]any)[0].(M)
	server.Expire("shop", member["client_id"].(string))
	server.Verify(M{"event": "session_expired", "group": "shop", "times": 1})
	_, err := server.Call("POST", "/verify", M{"expect": []M{{"event": "member_kicked", "group": "shop"}}})
	late := M{"group": "shop", "members": 9, "timeout_ms": 1}
	_, waited := server.Call("POST", "/wait", late)
	refuses(t, err, "expected at least 1, found 0", "timeline of group shop\\n#1 ", "session expired")
	refuses(t, waited, "not within 1 ms", "timeline of group shop\\n#1 ")
	if len(server.Timeline("shop")["events"].([]any)) == 0 {
		t.Fatal("no events")
	}
	server.Freeze()
	server.Run()
	server.Advance(60_000, "all")
	server.Commit("shop", "orders", map[string]int64{"0": 5})
	server.Fault(M{"api": "OffsetCommit"}, M{"error": "NOT_COORDINATOR"}, 1)
	server.Reset()
	if _, err := server.Call("GET", "/groups/shop", nil); err == nil {
		t.Fatal("the group is there")
	}
	server.Topic("late", 2)
	server.Stop()
	fmt.Println("done")
}

func refuses(t *testing.T, err error, sentences ...string) {
	t.Helper()
	for _, sentence := range sentences {
		if err == nil || !strings.Contains(err.Error(), sentence) {
			t.Fatalf("%v: no %q", err, sentence)
		}
	}
}
"""
JAVA = """
public class Try {
    public static void main(String[] args) throws Exception {
        try (var muster = Muster.start("--topic", "orders:4")) {
            System.out.println(muster.bootstrap);
            var group = muster.await("{\\"group\\": \\"shop\\", \\"state\\": \\"Stable\\", \\"members\\": 1, \\"timeout_ms\\": 60000}");
            var name = group.replaceAll("(?s).*\\"client_id\\":\\"([^\\"]+)\\".*", "$1");
            muster.expire("shop", name);
            muster.verify("{\\"event\\": \\"session_expired\\", \\"group\\": \\"shop\\", \\"times\\": 1}");
            refuses(() -> muster.verify("{\\"event\\": \\"member_kicked\\", \\"group\\": \\"shop\\"}"), "expected at least 1, found 0");
            refuses(() -> muster.verify("{\\"event\\": \\"member_kicked\\"}"), "timeline of group shop\\n#1 ");
            refuses(() -> muster.await("{\\"group\\": \\"shop\\", \\"members\\": 9, \\"timeout_ms\\": 1}"), "timeline of group shop\\n#1 ");
            if (!muster.timeline("shop").contains("session expired")) throw new AssertionError("no event");
            muster.freeze();
            muster.run();
            muster.advance(60_000, "all");
            muster.commit("shop", "orders", 0, 5);
            muster.fault("{\\"api\\": \\"OffsetCommit\\"}", "{\\"error\\": \\"NOT_COORDINATOR\\"}", 1);
            muster.reset();
            refuses(() -> muster.group("shop"), "there is no group 'shop'");
            muster.topic("late", 2);
        }
        System.out.println("done");
    }

    static void refuses(Runnable call, String sentence) {
        try {
            call.run();
        } catch (AssertionError error) {
            if (error.getMessage().contains(sentence)) return;
            throw error;
        }
        throw new AssertionError("nothing was refused: " + sentence);
    }
}
"""


def prepare(language: str, folder: Path) -> list[str]:
    """Put the helper and a program into a folder. Returns the command that runs it."""
    if language == "node":
        shutil.copy(ROOT / "clients" / "muster.mjs", folder)
        (folder / "try.mjs").write_text(NODE)
        return ["node", "try.mjs"]
    if language == "go":
        shutil.copy(ROOT / "clients" / "muster.go", folder)
        (folder / "muster_test.go").write_text(GO)
        (folder / "go.mod").write_text("module example\n\ngo 1.21\n")
        return ["go", "test", "-v", "-count=1", "."]
    shutil.copy(ROOT / "clients" / "Muster.java", folder)
    (folder / "Try.java").write_text(JAVA)
    subprocess.run(["javac", "-d", ".", "Muster.java", "Try.java"], cwd=folder, check=True, timeout=WAIT_SECONDS)
    return ["java", "-cp", ".", "Try"]


@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("node", "node"),
        pytest.param("java", "javac", marks=pytest.mark.long),  # compilers take seconds
        pytest.param("go", "go", marks=pytest.mark.long),
    ],
)
def test_a_helper_does_what_it_says(language: str, program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        warnings.warn(f"NO {program.upper()}: a helper of clients/ is not tried", stacklevel=2)
        pytest.skip(f"no {program} on this machine")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "muster"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coordinator "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "GOFLAGS": "-mod=mod", "GO111MODULE": "on",
    }  # fmt: skip
    with subprocess.Popen(
        prepare(language, tmp_path),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        lines: list[str] = []
        for line in running.stdout:
            lines.append(line)
            if line.startswith("127.0.0.1:"):
                with Client.to(line.strip()) as client:
                    classic_member(client, "shop", {"orders": (0,)})
        assert running.wait(WAIT_SECONDS) == 0, "".join(lines)
    assert "done\n" in lines
