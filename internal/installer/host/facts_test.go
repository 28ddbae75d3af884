package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
)

// TestOldSystemd: the version that README names, and no other, is the oldest.
func TestOldSystemd(t *testing.T) {
	for version, want := range map[string]outcome.Status{
		"251.4-1ubuntu7": outcome.Refused, "v251": outcome.Refused, "252.38-1~deb12u1": outcome.Done, "v262": outcome.Done, "unknown": outcome.Done,
	} {
		n := newNode(t)
		n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
			if strings.HasPrefix(line, "systemctl show --property=Version") {
				return &Ran{Stdout: "Version=" + version + "\n"}, nil
			}
			return nil, nil
		}}
		got := n.do(sandbox.Preflight, n.order("r1", "v1", section))
		if got.Status != want || want == outcome.Refused && (got.Reason != outcome.Check || !strings.Contains(got.Text(), "systemd "+version+" is too old: want 252 or later")) {
			t.Errorf("%s: %+v; want %d", version, got, want)
		}
	}
}

// TestKubeletDriver: --cgroup-driver of the running kubelet goes before its configuration.
func TestKubeletDriver(t *testing.T) {
	for option, want := range map[string]outcome.Reason{"--cgroup-driver=cgroupfs": outcome.Cgroupfs, "--cgroup-driver=systemd": "", "": ""} {
		n := newNode(t)
		n.kubelet("cgroupDriver: systemd")
		n.write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", "42\n")
		n.write("/proc/42/cmdline", strings.Join([]string{"/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", option}, "\x00"))
		got := n.do(sandbox.Preflight, n.order("r1", "v1", section))
		if got.Reason != want || want != "" && !strings.Contains(got.Text(), "set by the kubelet's --cgroup-driver") {
			t.Errorf("%q: %+v; want %q", option, got, want)
		}
	}
}

// TestRelabel: where SELinux enforces, restorecon gives new files their labels, and one that fails
// has the node go back. Without the program the label of the folder has to do.
func TestRelabel(t *testing.T) {
	const program = "/usr/sbin/restorecon"
	for name, test := range map[string]struct {
		enforces, has bool
		fails         bool
		runs          bool
		status        outcome.Status
	}{
		"enforcing":        {true, true, false, true, outcome.Done},
		"it fails":         {true, true, true, true, outcome.WentBack},
		"no such program":  {true, false, false, false, outcome.Done},
		"without a policy": {false, true, false, false, outcome.Done},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			if test.enforces {
				n.enforce("system_u:object_r:bin_t:s0")
			}
			if test.has {
				n.write(program, "")
			}
			var labelled []string
			n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
				rest, is := strings.CutPrefix(line, "restorecon -F ")
				if !is {
					return nil, nil
				}
				labelled = append(labelled, strings.Fields(rest)...)
				if test.fails && slices.Contains(labelled, servicePath) {
					return &Ran{Stderr: "no context", Status: 1}, nil
				}
				return &Ran{}, nil
			}}
			got := n.do(sandbox.Install, n.order("r1", "v1", section))
			if got.Status != test.status || test.fails && (got.Reason != outcome.SELinux || !strings.Contains(got.Text(), "no context")) {
				t.Errorf("%s: %+v; want %d", name, got, test.status)
			}
			for _, path := range []string{unitFolder + "/" + backService, unitFolder + "/" + backTimer, servicePath, generatorPath, monitorPath} {
				if slices.Contains(labelled, path) != test.runs {
					t.Errorf("%s: %s is labelled: %t", name, path, !test.runs)
				}
			}
		})
	}
}

// TestUntrustedLabel: a new file that has no label by which systemd would use it is an error.
func TestUntrustedLabel(t *testing.T) {
	n := newNode(t)
	n.enforce("system_u:object_r:bin_t:s0")
	n.h.Label = func(path string) (string, error) {
		if strings.HasSuffix(path, backService) {
			return "", errors.New("no data available")
		}
		return "system_u:object_r:bin_t:s0", nil
	}
	err := n.h.relabel(t.Context(), []string{servicePath, unitFolder + "/" + backService})
	if outcome.ReasonOf(err) != outcome.SELinux || !strings.Contains(err.Error(), backService+" has no label") {
		t.Errorf("%v", err)
	}
}
