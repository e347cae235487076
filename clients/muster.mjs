// Start a Muster server from a test, and steer it. Node 20 or newer, no dependencies. Copy this file into your project.
//
//   import { start } from "./muster.mjs";
//
//   const muster = await start({ options: ["--topic", "orders:4"] });   // the command `muster` on the PATH
//   const kafka = new Kafka({ brokers: muster.bootstrap.split(",") });
//   await muster.wait({ group: "billing", state: "Stable", members: 1 });
//   await muster.expire("billing", "a");                                 // what a session timeout would do, now
//   await muster.verify({ event: "session_expired", group: "billing", times: 1 });
//   await muster.stop();
//
// A call that the server refuses throws an Error with its sentence. Where it is the state that is not as expected, as for
// `wait` and `verify`, the timelines of the groups follow: what happened to them since the last reset, and why.
import { spawn } from "node:child_process";

/** Start a server that keeps nothing, on free ports. It ends with this process, however that dies. */
export async function start({ command = "muster", options = [] } = {}) {
  const words = ["serve", "--ephemeral", "--exit-with-stdin", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  words.push("--log-level", "warning", "--set", "journal.max.bytes=16777216", ...options);
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  const ready = await new Promise((resolve, reject) => {
    const listen = (data) => {
      said += data;
      const found = /^muster ready kafka=(\S+) .*?admin=(\S+) /m.exec(said);
      if (found) resolve(found);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("error", (error) => reject(new Error(`cannot run ${command}: ${error.message}`)));
    child.on("exit", (code) => reject(new Error(`muster has ended with exit code ${code}: ${said}`)));
  });
  for (const output of [child.stdout, child.stderr]) output.removeAllListeners("data").resume();  // nobody reads on
  return new Muster(ready[1], ready[2], child);
}

/** A server: one that was started, or a running one, `new Muster("127.0.0.1:9092", "http://127.0.0.1:8092")`. */
export class Muster {
  constructor(bootstrap, admin, child = null) {
    Object.assign(this, { bootstrap, admin, child });
  }

  /** Call the control API: any operation of docs/steering.md. */
  async call(method, path, body) {
    const headers = { "content-type": "application/json" };
    if (process.env.MUSTER_TOKEN) headers.authorization = `Bearer ${process.env.MUSTER_TOKEN}`;
    const answer = await fetch(`${this.admin}/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const said = await answer.json();
    if (answer.ok) return said;
    const asks = [408, 409].includes(answer.status);
    const timelines = asks ? await (await fetch(`${this.admin}/v1/timelines`, { headers })).text() : "";
    throw new Error(`${said.error}\n${timelines}`.trimEnd());
  }

  /** Create a topic. */
  topic(name, partitions = 1) { return this.call("POST", "/state", { topics: { [name]: partitions } }); }
  /** Commit offsets by partition, for a group without members. */
  commit(group, topic, offsets) { return this.call("POST", "/state", { offsets: { [group]: { [topic]: offsets } } }); }
  /** Wait: `{ group, state, members, generation, assigned, offsets, exists, timeout_ms }`. */
  wait(what) { return this.call("POST", "/wait", what); }
  group(id) { return this.call("GET", `/groups/${encodeURIComponent(id)}`); }
  /** Return why the group rebalanced: `{ events: [{ cause, from, to, ... }] }`. */
  timeline(id) { return this.call("GET", `/groups/${encodeURIComponent(id)}/timeline`); }
  /** Let a member's session expire now; by its client id, instance id or member id. */
  expire(group, member, body = {}) { return this.#member(group, member, "expire", body); }
  kick(group, member, body = {}) { return this.#member(group, member, "kick", body); }
  #member(group, member, verb, body) {
    return this.call("POST", `/groups/${encodeURIComponent(group)}/members/${encodeURIComponent(member)}/${verb}`, body);
  }
  /** Move the coordinator's clock; `keepAlive`: "none", "connected", "all" or names. */
  advance(ms, keepAlive = "none") { return this.call("POST", "/clock/advance", { ms, keep_alive: keepAlive }); }
  step(keepAlive = "none") { return this.call("POST", "/clock/step", { keep_alive: keepAlive }); }
  freeze() { return this.call("PUT", "/clock", { mode: "frozen" }); }
  run() { return this.call("PUT", "/clock", { mode: "real" }); }
  /** Break requests: `fault({ api: "OffsetCommit", group }, { error: "NOT_COORDINATOR" })`. */
  fault(on, what, count = 1) { return this.call("POST", "/faults", { on, do: what, count }); }
  /** Throw unless requests and events have happened as expected since the last reset. */
  verify(...expect) { return this.call("POST", "/verify", { expect }); }
  /** Remove every group, topic and fault, and keep out the members of before. */
  reset(prefix = "") { return this.call("POST", "/reset", { prefix }); }

  /** Stop the server that `start` has started. */
  async stop() {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode !== null) return;  // it may have been killed
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGTERM");
    await ended;
  }
}
