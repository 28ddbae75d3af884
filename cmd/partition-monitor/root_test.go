package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

// otherNode returns the files of a node that does not run here.
func otherNode(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		testkit.WriteFile(t, filepath.Join(dir, name), text+"\n")
	}
	return dir
}

// disk has the files of a disk: nothing of the kernel.
var disk = map[string]string{"/var/lib/kubelet/config.yaml": fakenode.Valid("kube-system"), "/proc/.keep": "", "/sys/.keep": ""}

// sosreport has the files of a sosreport. The generator adds its own.
var sosreport = map[string]string{
	"/var/lib/kubelet/config.yaml": fakenode.Valid("kube-system") + "kubeReserved: {memory: 1Gi}\n", "/proc/cmdline": "quiet", "/proc/meminfo": "MemTotal: 16777216 kB",
	"/sys/devices/system/cpu/present": "0-3", "/sys/devices/system/cpu/online": "0-3", "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
	fakenode.SystemCgroup + "/memory.max": "67108864", fakenode.SystemCgroup + "/memory.current": "1048576", fakenode.SystemCgroup + "/cpu.weight": "79",
	fakenode.SystemCgroup + "/cpu.max": "max 100000", fakenode.SystemCgroup + "/pids.max": "max",
	fakenode.SystemCgroup + "/memory.stat":       "anon 1048576\ninactive_file 0\nactive_file 0\nslab_reclaimable 0",
	"/run/node-partition/monitor/evictions.json": `{"version":1,"last":[{"namespace":"kube-system","name":"dns","time":"2026-11-20T10:00:00Z"}]}`,
}

// TestRoot: the commands read another node, and report what is missing.
func TestRoot(t *testing.T) {
	t.Parallel()
	const notQueried = "not queried: --root is another node's"
	for _, test := range []struct {
		name   string
		files  map[string]string
		args   string
		status int
		want   []string
	}{
		{"a disk", disk, "plan", exitProblem, []string{"/proc/meminfo: no such file or directory: it is not among the files of --root; give it with --capacity"}},
		{"a disk and its capacity", disk, "plan --capacity=cpu=4,memory=16Gi", exitOK, []string{"= left for user pods  4    16220Mi"}},
		{"a disk", disk, "check", exitOK, []string{
			"warning  configuration: the section is not checked: not among the files of --root: /proc/cmdline, /proc/meminfo, ",
			"file: /var/lib/kubelet/config.yaml: read", "warning  slice, reserved, floor, eviction-kernel, ", ": cgroups: not among the files of --root", "warning  swap: not known: /proc/swaps",
			"warning  systemd, runtime, cgroup-driver, nri, pods-api, ", ": " + notQueried,
		}},
		{"a disk", disk, "status", exitOK, []string{"Service       " + notQueried, "there is no decision of partition-generator", "cgroups: not among the files of --root", "pods: " + notQueried}},
		{"a disk", disk, "recommend", exitProblem, []string{`nothing was measured of partition "system"`}},
		{"a report", sosreport, "plan", exitOK, []string{"capacity              4    16Gi  ", "pods of the partition: " + notQueried, "storage: not read: ", "kubepods-system.slice"}},
		{"a report", sosreport, "check -v", exitOK, []string{"ok       configuration: memoryLimit 64Mi", "ok       slice: kubepods-system.slice is active with its limits"}},
		{"a report", sosreport, "status", exitOK, []string{"Memory      1Mi used of 64Mi", "all, weight 79", "Problem       pods: " + notQueried + "\n", "2026-11-20T10:00:00Z  kube-system  dns"}},
	} {
		t.Run(test.name+", "+test.args, func(t *testing.T) {
			t.Parallel()
			dir := otherNode(t, test.files)
			if test.name == "a report" {
				if status := generator.Run(dir, filepath.Join(dir, "run/systemd/generator"), trialend.Moment{}, generator.NewLog(t.Output())); status != 0 {
					t.Fatalf("generator: status %d", status)
				}
			}
			words := strings.Fields(test.args)
			for _, args := range [][]string{append([]string{"--root", dir}, words...), append(words, "--root="+dir)} {
				status, stdout, stderr := command(t, args...)
				if status != test.status {
					t.Errorf("%q: status %d, %q; want %d", args, status, stderr, test.status)
				}
				for _, want := range test.want {
					if !strings.Contains(stdout+stderr, want) {
						t.Errorf("%q: want %q in\n%s%s", args, want, stdout, stderr)
					}
				}
			}
		})
	}
}

// TestRootAsksNothing: whatever answers on this machine, another node's report has nothing of it.
func TestRootAsksNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = conn.Close() // only the connection counts
		}
	}()
	dir := otherNode(t, sosreport)
	here := host.Below(otherNode(t, map[string]string{
		"/var/lib/kubelet/config.yaml": fakenode.Valid("of-this-machine"), "/proc/meminfo": "MemTotal: 1 kB", "/proc/swaps": "Filename\n/swap of-this-machine",
	}))
	here.Cgroups = cgroups.FS(t.TempDir())
	listen := "--listen=" + strings.TrimPrefix(server.URL, "http://")
	for _, args := range [][]string{
		{"plan", "--pods-api-socket=" + socket},
		{"check", listen, "--pods-api-socket=" + socket, "--nri-socket=" + socket, "--runtime-endpoint=" + socket},
		{"status", listen, "--pods-api-socket=" + socket, "--nri-socket=" + socket, "--runtime-endpoint=" + socket},
	} {
		status, stdout, stderr := commandOn(t, here, append([]string{"--root", dir}, args...)...)
		if status != exitOK || strings.Contains(stdout+stderr, "of-this-machine") {
			t.Errorf("%q: status %d, %s%s", args, status, stdout, stderr)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("this machine was asked %d times", n)
	}
}

// TestRootRefused: what changes a node, or needs the running one, has no other root.
func TestRootRefused(t *testing.T) {
	t.Parallel()
	dir := otherNode(t, disk)
	for _, name := range []string{"run", "move", "try", "keep", "collect", "version"} {
		for _, args := range [][]string{{"--root", dir, name}, {name, "--root", dir}} {
			status, _, stderr := command(t, args...)
			if status != exitUsage || !strings.Contains(stderr, name+": --root is for plan, check, status, recommend, validate") {
				t.Errorf("%q: status %d, %q", args, status, stderr)
			}
		}
	}
	for args, want := range map[string]string{
		"plan --root=":                                  "--root: want a folder",
		"plan --root=" + dir + "/none":                  "no such file",
		"check --root=" + t.TempDir():                   "not the files of a node: none of etc, proc, run, sys, var is there",
		"status --root=" + t.TempDir():                  "not the files of a node: none of ",
		"validate x --root=" + t.TempDir():              "not the files of a node: none of ",
		"plan --root=/dev/null":                         "/dev/null: not a directory",
		"status --wait --root=" + dir:                   "--wait: cannot be used with --root",
		"recommend --prometheus=http://x --root=" + dir: "--root: cannot be used with --prometheus",
	} {
		status, stdout, stderr := command(t, strings.Fields(args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q; want %q", args, status, stdout, stderr, want)
		}
	}
}
