package main

import (
	"bytes"
	"cmp"
	"strings"
	"sync"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/fakenode"
)

// commands is held while a command line runs: urfave/cli 2.27.7 writes to its HelpFlag and to its
// command help, which all applications of a process share.
var commands sync.Mutex

// command runs a command line in this process.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return commandOn(t, host.This(), args...)
}

// commandOn runs a command line in this process, on a node.
func commandOn(t *testing.T, on host.Node, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	commands.Lock()
	defer commands.Unlock()
	var out, errs bytes.Buffer
	status = run(t.Context(), on, append([]string{"partition-monitor"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// runApp runs a command line of an application that a test has changed.
func runApp(t *testing.T, app *cli.App, args ...string) error {
	t.Helper()
	commands.Lock()
	defer commands.Unlock()
	return app.RunContext(t.Context(), append([]string{"partition-monitor"}, args...))
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	const all = "partition-monitor"
	for _, test := range []struct{ args, want, help string }{
		{"", "a command is missing", all},
		{"start", `unknown command "start"`, all},
		{"help start", `help: unknown command "start"`, all},
		{"--debug run", "-debug", "partition-monitor run"}, // flags follow the command
		{"--version status", "--version: takes no command", "partition-monitor status"},
		{"run --metrics", "-metrics", ""},
		{"run now", `run: unexpected argument "now"`, ""},
		{"status kube-system", `status: unexpected argument "kube-system"`, ""},
		{"check /etc/kubernetes", `check: unexpected argument "/etc/kubernetes"`, ""},
		{"keep now", `keep: unexpected argument "now"`, ""},
		{"try", "want one FILE", ""},
		{"try a b", "want one FILE", ""},
		{"try a --for 10", `invalid value "10" for flag -for`, ""},
		{"try a --for=1ms", "--for=1ms: want a second or more", ""},
		{"try --for=-1m a", "--for=-1m0s: want a second or more", ""},
		{"try a --end", "takes neither a FILE", ""},
		{"try --end --for 1m", "takes neither a FILE nor --for", ""},
		{"try a --now", "-now", ""},
		{"move", "want one NAMESPACE/POD", ""},
		{"move a/b c/d", "want one NAMESPACE/POD", ""},
		{"move coredns", "move coredns: want NAMESPACE/POD", ""},
		{"move kube-system/", "want NAMESPACE/POD", ""},
		{"move kube-system/pod/coredns", "want NAMESPACE/POD", ""},
		{"move kube-system/..", "want NAMESPACE/POD", ""},
		{"move ../coredns", "want NAMESPACE/POD", ""},
		{"move kube-system/core?dns", "want NAMESPACE/POD", ""},
		{"version 1", `version: unexpected argument "1"`, ""},
		{"version --short", "unknown option --short", ""},
		{"status --ouptut=json", "unknown option --ouptut (is --output meant?)", ""},
		{"run --rot=/x", "unknown option --rot (", ""}, // run has no --root
		{"audit -o json", "the command audit is gone: use partition-monitor check", all},
		{"history --at=03:12", "the command history is gone: use partition-monitor status for the last day, and a Prometheus for what was before", all},
		{"run --history-members", "--history-members is gone: what partitions use is always measured", ""},
		{"recommend --at-limit=1Gi", "--at-limit is gone: compare with the limit", ""},
		{"recommend --dir=/x", "--dir is gone: use --root with the files of the node", ""},
		{"recommend --by=zone", "--by: needs --prometheus", ""},
		{"recommend --prometheus=prometheus:9090", "--prometheus: want an address such as", ""},
		{"recommend --prometheus=http://localhost --by=a-b", "--by=a-b: want a label", ""},
		{"recommend -o table", "--output=table: want yaml or json", ""},
		{"statsu", `unknown command "statsu" (Did you mean "status"?)`, all},
		{"top --interval=1s", "the command top is gone: use partition-monitor status --watch", all},
		{"check --ignore=swop", ", swap", ""},
		{"run --move=sometimes", "--move=sometimes: want auto, restart, live or never", ""},
		{"run --move=", "--move=: want auto", ""},
		{"check --output=text", "--output=text: want table, json or yaml (text is table now)", ""},
		{"collect -o FILE", "--output is gone: a command that shows nothing has no format; the file of a bundle is an argument", ""},
		{"collect a b", "want one FILE at most", ""},
		{"explain", "want one of cgroup-driver, ", ""},
		{"explain nrx", "want one of cgroup-driver, ", ""},
		{"plan -o karpenter", "want table, json or yaml; docs/autoscalers.md", ""},
		{"status --move=Live", "--move=Live: want auto", ""},
		{"check --move=x", "--move=x: want auto", ""},
		{"status -o wide", "--output=wide: want table, json or yaml", ""},
		{"status --timeout=5s", "--timeout: want it with --wait", ""},
		{"status --wait --timeout=-5s", "--timeout=-5s: want 0 or more", ""},
		{"run --eviction=maybe", "--eviction=maybe: want on, off or dry-run", ""},
		{"check --eviction=", "--eviction=: want on, off or dry-run", ""},
		{"run --eviction-protect=daemonsets", `--eviction-protect="daemonsets": want none, kubelet, or a list of static, node-critical, cluster-critical`, ""},
		{"status --eviction-protect=static,none", `--eviction-protect="static,none": none stands alone`, ""},
		{"run --eviction-cooldown=-1s", "--eviction-cooldown=-1s: want 0 or more", ""},
		{"run --eviction-cooldown=5", `invalid value "5" for flag -eviction-cooldown`, ""},
		{"run --kubeconfig=", "--kubeconfig: want a path, auto or none", ""},
		{"run --events=some", "--events=some: want on or off", ""},
		{"check --events=", "--events=: want on or off", ""},
		{"run --tick=soon", `invalid value "soon" for flag -tick`, ""},
		{"run --tick=10", `invalid value "10" for flag -tick`, ""}, // a unit is missing
		{"run --tick=999ms", "--tick=999ms: want a second or more", ""},
		{"run --tick=-5s", "--tick=-5s: want a second or more", ""},
		{"run --per-pod-metrics=perhaps", "perhaps", ""},
		{"run --nri-socket", "-nri-socket", ""},
	} {
		words := append(strings.Fields(test.args), "")
		status, stdout, stderr := command(t, words[:len(words)-1]...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) ||
			strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "; see "+cmp.Or(test.help, "partition-monitor "+words[0])+" --help\n") {
			t.Errorf("%q: status %d, %q, %q; want 2 and one line with %q", test.args, status, stdout, stderr, test.want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		if status, stdout, stderr := command(t, arg); status != exitOK || stdout != "partition-monitor unknown\n" || stderr != "" {
			t.Errorf("%s: status %d, %q, %q", arg, status, stdout, stderr)
		}
	}
	for _, args := range [][]string{
		{"-h"}, {"help"}, {"help", "run"}, {"h"}, {"status", "-h"}, // TestScreens has --help
		{"try", "file", "--help"}, {"move", "kube-system/coredns", "-h"}, {"validate", "file", "--strict", "--help", "other"}, {"status", "x", "--help"},
	} {
		status, stdout, stderr := command(t, args...)
		if status != exitOK || !strings.Contains(stdout, "USAGE:") || stderr != "" {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// TestUnreachable: a socket that cannot be reached is an error of one line, and exit status 1.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.ServePods()
	for _, test := range []struct{ flag, want string }{
		{"--move=never", "no socket at /run/containerd/containerd.sock"},
		{"--runtime-endpoint=/run/none.sock", "/run/none.sock: "},
		{"--runtime-endpoint=tcp://127.0.0.1:1", "only unix sockets"},
	} {
		status, stdout, stderr := n.run("status", "--listen=", test.flag)
		if status != exitProblem || stderr != "" || !strings.Contains(stdout, test.want) || !strings.Contains(stdout, "● system      active\n") {
			t.Errorf("%s: status %d, %q; want 1 and the partition with %q:\n%s", test.flag, status, stderr, test.want, stdout)
		}
	}
	n.oneProblem([]string{"the service moves pods, and it is not running", "systemctl status partition-monitor.service"}, "move", "kube-system/coredns")
	// A warning comes before it where memory may not be locked.
	status, _, stderr := n.run("run", "--listen=localhost")
	if status != exitProblem || !strings.Contains(stderr, "partition-monitor: error: metrics: --listen: address localhost: missing port") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestRunInvalidConfiguration: run exits if nothing was decided, and says why.
func TestRunInvalidConfiguration(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Broken)
	status, stdout, stderr := n.run("run", "--listen=")
	if status != exitProblem || stdout != "" {
		t.Errorf("status %d, %q", status, stdout)
	}
	for _, part := range []string{"memoryLimit", "namespaces[0]", "systemctl daemon-reload"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("%q does not say %q", stderr, part)
		}
	}
}
