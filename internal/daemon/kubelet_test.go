package daemon

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/tests/testkit"
)

// TestKubeletElsewhere: a kubelet whose pods are in another tree is reported once for each start
// with other flags.
func TestKubeletElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		testkit.WriteFile(t, filepath.Join(root, name), text)
	}
	var journal bytes.Buffer
	var seen kubeletSeen
	log := slog.New(slog.NewTextHandler(&journal, nil))
	for _, step := range []struct {
		pid     string
		args    string
		changed bool
		says    string
	}{
		{"7", "/usr/bin/kubelet --cgroup-root=/", true, ""},
		{"7", "/usr/bin/kubelet --cgroup-root=/k8s", true, "flag=\"--cgroup-root=/k8s\""},
		{"7", "/usr/bin/kubelet --cgroup-root=/k8s", false, ""},
		{"7", "/usr/bin/kubelet --cgroups-per-qos=false", true, "flag=\"--cgroups-per-qos=false\""},
		{"7", "/usr/bin/kubelet", true, ""},
		{"8", "/usr/bin/kubelet", true, ""}, // it may have read another configuration
	} {
		write("sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", step.pid+"\n")
		write("proc/"+step.pid+"/cmdline", strings.ReplaceAll(step.args, " ", "\x00")+"\x00")
		journal.Reset()
		if changed := seen.changed(host.Root(root), log); changed != step.changed {
			t.Errorf("%s: changed %t; want %t", step.args, changed, step.changed)
		}
		if line := journal.String(); (step.says == "") != (line == "") || !strings.Contains(line, step.says) {
			t.Errorf("%s: the journal has %q; want %q", step.args, line, step.says)
		}
	}
}

// TestServiceCommandSilent: a reconcile that looks for the runtime does not wait long for systemd.
func TestServiceCommandSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{units: systemd.New(systemd.Options{})}
		begin := time.Now()
		if command, err := m.serviceCommand(t.Context(), "kubelet.service"); err == nil {
			t.Errorf("%+v without a connection to systemd", command)
		}
		if took := time.Since(begin); took != commandTimeout {
			t.Errorf("took %s, want %s", took, commandTimeout)
		}
	})
}
