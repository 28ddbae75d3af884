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
	write("sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", "7\n")
	var journal bytes.Buffer
	var seen kubeletSeen
	log := slog.New(slog.NewTextHandler(&journal, nil))
	for _, step := range []struct {
		args    string
		changed bool
		says    string
	}{
		{"/usr/bin/kubelet --cgroup-root=/", true, ""},
		{"/usr/bin/kubelet --cgroup-root=/k8s", true, "flag=\"--cgroup-root=/k8s\""},
		{"/usr/bin/kubelet --cgroup-root=/k8s", false, ""},
		{"/usr/bin/kubelet --cgroups-per-qos=false", true, "flag=\"--cgroups-per-qos=false\""},
		{"/usr/bin/kubelet", true, ""},
	} {
		write("proc/7/cmdline", strings.ReplaceAll(step.args, " ", "\x00")+"\x00")
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
