// Package muster starts a Muster server from a test, and steers it. It needs the standard library alone: copy this file
// into a folder of your module.
//
//	server := muster.Start(t, "--topic", "orders:4") // the command `muster` on the PATH; it stops with the test
//	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(server.Bootstrap, ",")...))
//	server.Wait(muster.M{"group": "billing", "state": "Stable", "members": 1})
//	server.Expire("billing", "a") // what a session timeout would do, now
//	server.Verify(muster.M{"event": "session_expired", "group": "billing", "times": 1})
//
// A call that the server refuses ends the test with its sentence; Call returns it as an error instead. Where it is the
// state that is not as expected, as for Wait and Verify, the timelines of the groups follow: what happened to them since
// the last reset, and why.
package muster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

// M is a JSON object.
type M = map[string]any

// TB is what the helper needs of *testing.T.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Muster is a server: one that was started, or a running one (t, Bootstrap and Admin are enough).
type Muster struct {
	T         TB
	Bootstrap string // for Kafka clients
	Admin     string // of the control API
	process   *exec.Cmd
}

var ready = regexp.MustCompile(`^muster ready kafka=(\S+) .*?admin=(\S+) `)

// Start starts a server that keeps nothing, on free ports. It ends with this process, however that dies.
func Start(t TB, options ...string) *Muster {
	t.Helper()
	words := []string{"serve", "--ephemeral", "--exit-with-stdin", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--log-level", "warning", "--set", "journal.max.bytes=16777216"}
	process := exec.Command("muster", append(words, options...)...)
	process.Stderr = os.Stderr
	if _, err := process.StdinPipe(); err != nil {
		t.Fatalf("muster: %v", err)
	}
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatalf("cannot run muster: %v", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, out)
			server := &Muster{T: t, Bootstrap: found[1], Admin: found[2], process: process}
			t.Cleanup(server.Stop)
			return server
		}
	}
	t.Fatalf("muster has ended: %v", process.Wait())
	return nil
}

// Call calls the control API: any operation of docs/steering.md. The error is the sentence of a refusal.
func (m *Muster) Call(method, path string, body any) (M, error) {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	status, answer, err := m.send(method, path, content)
	if err != nil {
		return nil, err
	}
	said := M{}
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, err
	}
	if status < 400 {
		return said, nil
	}
	var timelines []byte
	if status == http.StatusRequestTimeout || status == http.StatusConflict {
		_, timelines, _ = m.send("GET", "/timelines", nil)
	}
	return nil, errors.New(strings.TrimSpace(fmt.Sprintf("%v\n%s", said["error"], timelines)))
}

func (m *Muster) send(method, path string, content []byte) (int, []byte, error) {
	request, err := http.NewRequest(method, m.Admin+"/v1"+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("MUSTER_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	return answer.StatusCode, said, err
}

func (m *Muster) must(method, path string, body any) M {
	m.T.Helper()
	said, err := m.Call(method, path, body)
	if err != nil {
		m.T.Fatalf("%s %s: %v", method, path, err)
	}
	return said
}

// Topic creates a topic.
func (m *Muster) Topic(name string, partitions int) {
	m.T.Helper()
	m.must("POST", "/state", M{"topics": M{name: partitions}})
}

// Commit commits offsets, by partition ("0"), for a group without members.
func (m *Muster) Commit(group, topic string, offsets map[string]int64) {
	m.T.Helper()
	m.must("POST", "/state", M{"offsets": M{group: M{topic: offsets}}})
}

// Wait waits: group, state, members, generation, assigned, offsets, exists, timeout_ms.
func (m *Muster) Wait(what M) M { m.T.Helper(); return m.must("POST", "/wait", what) }

// Group returns a group.
func (m *Muster) Group(id string) M {
	m.T.Helper()
	return m.must("GET", "/groups/"+url.PathEscape(id), nil)
}

// Timeline returns why a group rebalanced.
func (m *Muster) Timeline(id string) M {
	m.T.Helper()
	return m.must("GET", "/groups/"+url.PathEscape(id)+"/timeline", nil)
}

// Expire lets a member's session expire now; it is named by client id, instance id or member id.
func (m *Muster) Expire(group, member string) {
	m.T.Helper()
	m.must("POST", "/groups/"+url.PathEscape(group)+"/members/"+url.PathEscape(member)+"/expire", M{})
}

// Kick removes a member, as if it had left.
func (m *Muster) Kick(group, member string) {
	m.T.Helper()
	m.must("POST", "/groups/"+url.PathEscape(group)+"/members/"+url.PathEscape(member)+"/kick", M{})
}

// Advance moves the coordinator's clock. keepAlive is "none", "connected", "all" or a list of names.
func (m *Muster) Advance(ms int64, keepAlive any) M {
	m.T.Helper()
	return m.must("POST", "/clock/advance", M{"ms": ms, "keep_alive": keepAlive})
}

// Step moves the clock to the next deadline.
func (m *Muster) Step() M { m.T.Helper(); return m.must("POST", "/clock/step", M{}) }

// Freeze stops the clock; Run lets it run again.
func (m *Muster) Freeze() { m.T.Helper(); m.must("PUT", "/clock", M{"mode": "frozen"}) }

// Run lets the clock run.
func (m *Muster) Run() { m.T.Helper(); m.must("PUT", "/clock", M{"mode": "real"}) }

// Fault breaks requests: Fault(M{"api": "OffsetCommit"}, M{"error": "NOT_COORDINATOR"}, 1).
func (m *Muster) Fault(on, do M, count int) M {
	m.T.Helper()
	return m.must("POST", "/faults", M{"on": on, "do": do, "count": count})
}

// Verify ends the test unless requests and events have happened as expected since the last reset.
func (m *Muster) Verify(expect ...M) { m.T.Helper(); m.must("POST", "/verify", M{"expect": expect}) }

// Reset removes every group, topic and fault, and keeps out the members of before.
func (m *Muster) Reset() { m.T.Helper(); m.must("POST", "/reset", M{}) }

// Stop stops the server that Start has started; the end of the test does so as well.
func (m *Muster) Stop() {
	if m.process != nil && m.process.ProcessState == nil {
		_ = m.process.Process.Signal(syscall.SIGTERM)
		_ = m.process.Wait()
	}
}
