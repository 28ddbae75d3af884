package node

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	containerd = "/run/containerd/containerd.sock"
	crio       = "/run/crio/crio.sock"
)

// crioNode returns a node whose kubelet's configuration names containerd, as kubeadm writes it. The
// kubelet does not run. dir is short enough for sockets.
func crioNode(t *testing.T) (n host.Node, dir string) {
	t.Helper()
	dir = ShortDir(t)
	testkit.WriteFiles(t, dir, map[string]string{
		"/var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
			"containerRuntimeEndpoint: unix://" + containerd + "\n",
		"/run/containerd/.keep": "", "/run/crio/.keep": "",
	})
	return host.Below(dir), dir
}

// kubeletRuns starts a kubelet on the node, with arguments.
func kubeletRuns(t *testing.T, dir, args string) {
	t.Helper()
	testkit.WriteFiles(t, dir, map[string]string{
		"/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": "7\n", "/proc/7/cmdline": "/usr/bin/kubelet\x00" + args + "\x00",
	})
}

// unit is a ServiceCommand of a kubelet with CRI-O, that answers or not.
type unit struct {
	silent bool
	asked  []string
}

func (u *unit) command(_ context.Context, service string) (kubelet.Command, error) {
	u.asked = append(u.asked, service)
	if u.silent {
		return kubelet.Command{}, errors.New("no connection to systemd")
	}
	return kubelet.Command{
		Args:        []string{"/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", "$KUBELET_RUNTIME_ARGS"},
		Environment: []string{"KUBELET_RUNTIME_ARGS=--container-runtime-endpoint=unix://" + crio},
	}, nil
}

// TestKubeletsEndpoint: the command line of the kubelet comes before its configuration, also before
// it runs.
func TestKubeletsEndpoint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runs   string // its arguments; empty for a kubelet that does not run
		silent bool
		want   string
		sure   bool
	}{
		"by its unit":                   {"", false, crio, true},
		"by its command line":           {"--container-runtime-endpoint=unix:///run/other.sock", true, "/run/other.sock", true},
		"by its configuration":          {"--v=2", true, containerd, true},
		"systemd does not answer":       {"", true, containerd, false},
		"it runs with less than before": {"--v=2", false, containerd, true},
	} {
		n, dir := crioNode(t)
		if test.runs != "" {
			kubeletRuns(t, dir, test.runs)
		}
		u := &unit{silent: test.silent}
		got, sure := kubeletsEndpoint(t.Context(), n, u.command)
		if want := "unix://" + filepath.Join(dir, test.want); got != want || sure != test.sure {
			t.Errorf("%s: %s, sure: %t; want %s, %t", name, got, sure, want, test.sure)
		}
		if asked := len(u.asked) == 1 && u.asked[0] == "kubelet.service"; asked != (test.runs == "") {
			t.Errorf("%s: systemd was asked for %q", name, u.asked)
		}
	}
}

// TestRuntimeBeforeKubelet: a monitor that starts before the kubelet uses the runtime of its unit,
// although another one is there. If systemd does not answer at first, it is a guess, until systemd
// does. A call that fails looks for the runtime again.
func TestRuntimeBeforeKubelet(t *testing.T) {
	t.Parallel()
	n, dir := crioNode(t)
	u := &unit{silent: true}
	r := NewRuntime(n, "", u.command, func(bool) {})
	uses := func(when, socket string, guess bool) {
		t.Helper()
		endpoint, _, _, err := r.Version(t.Context())
		if endpoint != "unix://"+filepath.Join(dir, socket) || r.IsGuess() != guess {
			t.Errorf("%s: %s, %v, a guess: %t; want %s, %t", when, endpoint, err, r.IsGuess(), socket, guess)
		}
	}
	if r.IsGuess() {
		t.Error("a guess before the first call")
	}
	uses("systemd is silent", containerd, true)
	r.Reconsider(t.Context())
	uses("it is still silent", containerd, true)
	u.silent = false
	r.Reconsider(t.Context())
	uses("systemd answers", crio, false)

	r, u.silent = NewRuntime(n, "", u.command, func(bool) {}), true
	uses("again", containerd, true)
	u.silent = false
	if _, err := r.Sandboxes(t.Context()); err == nil {
		t.Fatal("containerd does not run")
	}
	runtimeAt(t, filepath.Join(dir, crio), &fakeRuntime{})
	if _, err := r.Sandboxes(t.Context()); err != nil {
		t.Errorf("after a call that failed: %v", err)
	}
	uses("after a call that failed", crio, false)

	kubeletRuns(t, dir, "--container-runtime-endpoint=unix://"+containerd)
	r.Reconsider(t.Context())
	uses("the kubelet has started with another one", containerd, false)

	named := NewRuntime(n, crio, u.command, func(bool) {})
	if endpoint, _, _, _ := named.Version(t.Context()); endpoint != crio || named.IsGuess() {
		t.Errorf("by the flag: %s, a guess: %t", endpoint, named.IsGuess())
	}
}

// TestRuntimeGuessWasRight: a guess that systemd confirms keeps its connection.
func TestRuntimeGuessWasRight(t *testing.T) {
	t.Parallel()
	n, dir := crioNode(t)
	u := &unit{silent: true}
	r := NewRuntime(n, "", u.command, func(bool) {})
	before, err := r.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kubeletRuns(t, dir, "--v=2")
	r.Reconsider(t.Context())
	if after, err := r.Client(t.Context()); after != before || err != nil || r.IsGuess() {
		t.Errorf("another client: %t, %v, a guess: %t", after != before, err, r.IsGuess())
	}
}
