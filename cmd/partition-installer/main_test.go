package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer"
	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/installer/sandbox"
)

// placesIn returns places in a folder that is a host without a bus, with a pod's folder of it.
func placesIn(t *testing.T) places {
	t.Helper()
	dir := t.TempDir()
	at := places{
		root: host.Root(dir), termination: filepath.Join(dir, "termination"), inPod: filepath.Join(dir, "state"),
		confined: filepath.Join(dir, "none"), hostRoot: filepath.Join(dir, "none"), bus: filepath.Join(dir, "no-bus"), patience: 1, payload: fstest.MapFS{},
	}
	if err := os.WriteFile(at.termination, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{at.inPod, filepath.Join(dir, sandbox.Folder)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// ofPod returns the command line of the pod of a node (rollout/README.md).
func ofPod(section, sum string) []string {
	return []string{
		"apply", "--node=n", "--version=unknown", "--section=" + section, "--section-sha256=" + sum, "--trial=10m0s", "--monitor-args=", "--survey=false",
	}
}

// message returns the termination message.
func message(t *testing.T, at places) map[string]string {
	t.Helper()
	data, err := os.ReadFile(at.termination)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// TestUsage: wrong options are status 2, and say what is wrong. What is gone names its successor.
func TestUsage(t *testing.T) {
	t.Parallel()
	const options = " --node=n --version=unknown --section=/s"
	for line, want := range map[string]string{
		"": "want apply or remove", "bogus": "want apply or remove", "apply": "--section", "apply --bogus": "an unknown option",
		"apply" + options + " more": "no argument", "apply" + options + " --trial=1s": "--trial",
		"apply" + options + " --monitor-args=a$b": "--monitor-args", "remove --section=/s": "an unknown option",
		"back --later": "want back [--now]", "host": "want back [--now]",
		"preflight": "want apply or remove",
	} {
		var stderr bytes.Buffer
		if status := run(t.Context(), strings.Fields(line), placesIn(t), os.Stdout, &stderr); status != record.Usage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: %d, %q; want %q", line, status, stderr.String(), want)
		}
	}
}

// TestMonitor: without the root of a node there is no partition-monitor.
func TestMonitor(t *testing.T) {
	t.Parallel()
	at := placesIn(t)
	var stderr bytes.Buffer
	if status := run(t.Context(), []string{"monitor", "status"}, at, os.Stdout, &stderr); status != record.Refused || !strings.Contains(stderr.String(), at.hostRoot) {
		t.Errorf("%d, %q", status, &stderr)
	}
}

// TestParse: the command lines of a pod and of an operator.
func TestParse(t *testing.T) {
	t.Parallel()
	o, err := parse(append(ofPod("/s", "0a"), "--monitor-args=--a --b=[::]:1", "--trial=5m0s"))
	want := record.Order{Action: record.Apply, Node: "n", MonitorArgs: "--a --b=[::]:1", Trial: 5 * time.Minute}
	if err != nil || o.Order != want || o.section != "/s" || o.sha256 != "0a" {
		t.Errorf("%+v, %v", o, err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	o, err = parse([]string{"apply", "--section=/s", "--survey"})
	if want := (record.Order{Action: record.Survey, Node: strings.ToLower(host), Trial: 10 * time.Minute}); err != nil || o.Order != want {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = parse([]string{"remove", "--node=n", "--version=unknown"}); err != nil || o.Action != record.Remove {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestSection: a section whose digest is another one is refused before anything is asked for.
func TestSection(t *testing.T) {
	t.Parallel()
	for sum, want := range map[string]struct {
		reason  record.Reason
		message string
	}{
		strings.Repeat("0", 64):             {record.Section, "another SHA-256"},
		installer.Digest([]byte("section")): {record.NoBus, "runs as UID 1000"},
		"":                                  {record.NoBus, "runs as UID 1000"},
	} {
		at := placesIn(t)
		at.uid = 1000
		// A volume of the kubelet has a link.
		section := filepath.Join(string(at.root), "section.yaml")
		if err := errors.Join(os.WriteFile(section+".1", []byte("section"), 0o600), os.Symlink("section.yaml.1", section)); err != nil {
			t.Fatal(err)
		}
		status := run(t.Context(), ofPod(section, sum), at, os.Stdout, &bytes.Buffer{})
		got := message(t, at)
		if status != record.Refused || got["reason"] != string(want.reason) || !strings.Contains(got["message"], want.message) {
			t.Errorf("%s: %d, %q; want %q", sum, status, got, want)
		}
	}
}

// TestNoValueIsRepeated: a value that is refused may be of a Secret that an environment has.
// Neither the log nor the termination message repeats it.
func TestNoValueIsRepeated(t *testing.T) {
	t.Parallel()
	const secret, options = `{"auths":{"r":"c2VjcmV0"}}`, " --node=n --version=unknown --section=/s"
	for _, line := range []string{
		"SECRET", "apply" + options + " --trial=SECRET", "apply" + options + " --survey=SECRET", "apply --version=SECRET --section=/s",
		"apply" + options + " --monitor-args=$SECRET", "apply" + options + " SECRET", "apply" + options + " --SECRET=1",
		"apply" + options + " --SECRET", "apply" + options + " --=SECRET", "apply --node=n --version=unknown --section=/SECRET",
		"apply --section=/dev/null --section-sha256=SECRET",
	} {
		at := placesIn(t)
		var stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(strings.ReplaceAll(line, "SECRET", secret)), at, os.Stdout, &stderr)
		message, err := os.ReadFile(at.termination)
		if status == record.Done || err != nil || strings.Contains(stderr.String()+string(message), "c2VjcmV0") {
			t.Errorf("%q: %d, %v\n%s\n%s", line, status, err, &stderr, message)
		}
	}
}

// TestHelp: help and version go to standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	for _, arg := range []string{"--help", "--version"} {
		if status := run(t.Context(), []string{arg}, places{}, &stdout, &stdout); status != record.Done {
			t.Errorf("%s: %d", arg, status)
		}
	}
	for _, want := range []string{"--section=FILE", "partition-installer unknown"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in %s", want, stdout.String())
		}
	}
}

// TestNoBus: without the host's bus a removal is refused, and writes nothing to the host.
func TestNoBus(t *testing.T) {
	t.Parallel()
	at := placesIn(t)
	status := run(t.Context(), []string{"remove", "--node=n", "--version=unknown"}, at, os.Stdout, &bytes.Buffer{})
	if got := message(t, at); status != record.Refused || got["reason"] != "no-bus" {
		t.Errorf("%d, %q", status, got)
	}
	for _, folder := range []string{at.inPod, filepath.Join(string(at.root), sandbox.Folder)} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// TestHostRoot: where a pod has the root of the host, the bus is there.
func TestHostRoot(t *testing.T) {
	t.Parallel()
	at := placesIn(t)
	at.hostRoot, at.bus, at.patience = filepath.Join(string(at.root), "host"), "/bus", time.Hour
	if err := errors.Join(os.Remove(at.inPod), os.MkdirAll(filepath.Join(at.hostRoot, "run/systemd/system"), 0o700)); err != nil {
		t.Fatal(err)
	}
	bus, err := net.Listen("unix", at.hostRoot+at.bus)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = bus.Accept()
		cancel()
	}()
	if status := run(ctx, []string{"remove"}, at, os.Stdout, &bytes.Buffer{}); status != record.Refused {
		t.Errorf("%d", status)
	}
}

// TestOnHost: a service that nobody has asked for does nothing, and a rollback without a change is
// none.
func TestOnHost(t *testing.T) {
	t.Parallel()
	at := placesIn(t)
	if status := run(t.Context(), []string{"host", "x1"}, at, os.Stdout, &bytes.Buffer{}); status != record.Remains {
		t.Errorf("%d", status)
	}
	if status := run(t.Context(), []string{"back"}, at, os.Stdout, &bytes.Buffer{}); status != record.Done {
		t.Errorf("%d", status)
	}
	// The host answers a call, and the caller has its answer.
	s := installer.Store{Disk: installer.Disk{Root: at.root}, Folder: sandbox.Folder}
	asked, err := s.Ask("x2", record.Order{Action: record.Survey, Node: "n", Section: "systemPartition: {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	status := run(t.Context(), []string{"host", "x2"}, at, os.Stdout, &bytes.Buffer{})
	if answer := asked.Answer(); answer == nil || answer.Status != record.Refused || answer.Reason != record.CgroupV1 || status != answer.Status {
		t.Errorf("%d, %+v", status, answer)
	}
}

func TestIsVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asked, built string
		want         bool
	}{
		{"v0.1.0", "v0.1.0", true}, {"0.1.0", "v0.1.0", true}, {"v0.1.0", "v0.2.0", false}, {"v0.1.0", "unknown", true},
	} {
		if got := isVersion(test.asked, test.built); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

func TestConfined(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"system_u:system_r:container_t:s0:c1,c2\x00": true, "cri-containerd.apparmor.d (enforce)\n": false, "unconfined\n": false, "": false,
	} {
		path := filepath.Join(t.TempDir(), "current")
		if err := os.WriteFile(path, []byte(label), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := confined(path); got != want {
			t.Errorf("%q: %t", label, got)
		}
	}
}
