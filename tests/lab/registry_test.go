package lab

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testCache is the default cache of a test.
func testCache(t *testing.T) cache {
	t.Helper()
	c := cache{Dir: t.TempDir()}
	t.Setenv("NODE_PARTITION_CACHE", c.Dir)
	return c
}

func (c cache) addState(t *testing.T, s state) {
	t.Helper()
	data, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(c.nodeDir(s.Name), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(c.nodeDir(s.Name), stateName), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoveDead: a machine that its test reboots is missing for a moment, and its disks have to
// stay.
func TestRemoveDead(t *testing.T) {
	c := testCache(t)
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.StartTime++
	kept := map[string]bool{"rebooting": true, "orphan": true, "running": true, "dead": false, "detached": true, "killed-start": false}
	for _, s := range []state{
		{Name: "rebooting", Owner: self, Process: dead},
		{Name: "orphan", Owner: dead, Process: self}, // the kernel is about to end it
		{Name: "running", Owner: self, Process: self},
		{Name: "dead", Owner: dead, Process: dead},
		{Name: "detached", Owner: dead, Process: dead, Detached: true},
	} {
		c.addState(t, s)
	}
	if err := os.Mkdir(c.nodeDir("killed-start"), 0o755); err != nil {
		t.Fatal(err)
	}
	nodes, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]bool{"rebooting": true, "orphan": true, "running": true}
	for _, n := range nodes {
		if n.Running != running[n.Name] || n.Unfinished != (n.Name == "killed-start") {
			t.Errorf("%+v", n)
		}
	}
	if len(nodes) != len(kept) {
		t.Errorf("listed: %+v", nodes)
	}
	if err := c.removeDead(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range kept {
		if exists(c.nodeDir(name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
}

// TestUnfinishedLeavesAloneWhatIsBeingStarted: a node that another process is starting has no state
// yet, and must not be removed.
func TestUnfinishedLeavesAloneWhatIsBeingStarted(t *testing.T) {
	c := testCache(t)
	if err := os.MkdirAll(c.nodeDir("starting"), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := c.lockNode(t.Context(), "starting")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := c.removeDead(t.Context()); err != nil || !exists(c.nodeDir("starting")) {
		t.Errorf("%v, and the folder is there: %v", err, exists(c.nodeDir("starting")))
	}
	if nodes, err := List(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// TestDownEndsAnUnfinishedNode: a start that was killed before it wrote the state may have left a
// machine that no file names.
func TestDownEndsAnUnfinishedNode(t *testing.T) {
	c := testCache(t)
	dir := c.nodeDir("half")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	machine := exec.Command("sh", "-c", "while :; do sleep 1; done", consoleArg(filepath.Join(dir, consoleName)))
	other := exec.Command("sh", "-c", "while :; do sleep 1; done", consoleArg(filepath.Join(c.nodeDir("half-2"), consoleName)))
	for _, cmd := range []*exec.Cmd{machine, other} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- machine.Wait() }()
	if err := Down(t.Context(), "half"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("the machine's end: %v", err)
	}
	if exists(dir) {
		t.Error("the folder is there")
	}
	if p, err := identify(other.Process.Pid); err != nil || !p.alive() {
		t.Errorf("another machine was ended: %v", err)
	}
	if err := errors.Join(other.Process.Kill(), ignoreExit(other.Wait())); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"half", "..", ""} {
		if err := Down(t.Context(), name); err == nil || !strings.Contains(err.Error(), "there is none of this name") {
			t.Errorf("down %q: %v", name, err)
		}
	}
}

func ignoreExit(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}
