package host

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/record"
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
		got := n.survey()
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
		got := n.survey()
		if got.Reason != want || want != "" && !strings.Contains(got.Text(), "set by the kubelet's --cgroup-driver") {
			t.Errorf("%q: %+v; want %q", option, got, want)
		}
	}
}

// survey asks whether the node could have the first version.
func (n *node) survey() outcome.Outcome {
	o := n.order("v1", section)
	o.Action = record.Survey
	return n.do(o)
}

// TestLabel: where SELinux enforces, the programs get the label of the host's programs, and the
// unit that of its units. If that fails the node goes back.
func TestLabel(t *testing.T) {
	for name, test := range map[string]struct {
		enforces bool
		fails    string
		status   outcome.Status
	}{
		"enforcing":        {true, "", outcome.Done},
		"it fails":         {true, "/partition-monitor.service", outcome.WentBack},
		"without a policy": {false, "", outcome.Done},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			if test.enforces {
				n.enforce("system_u:object_r:bin_t:s0")
			}
			labelled := map[string]string{}
			n.h.Programs = around{n, func(_ context.Context, line string) (*Ran, error) {
				rest, is := strings.CutPrefix(line, "chcon --reference=")
				if !is {
					return nil, nil
				}
				fields := strings.Fields(rest)
				for _, path := range fields[1:] {
					labelled[filepath.Base(path)] = strings.TrimPrefix(fields[0], n.root)
				}
				if test.fails != "" && strings.Contains(line, test.fails) {
					return &Ran{Stderr: "no context", Status: 1}, nil
				}
				return &Ran{}, nil
			}}
			got := n.do(n.order("v1", section))
			if got.Status != test.status || test.fails != "" && (got.Reason != outcome.SELinux || !strings.Contains(got.Text(), "no context")) {
				t.Errorf("%s: %+v; want %d", name, got, test.status)
			}
			for file, like := range map[string]string{monitorFile: "/usr/bin", generatorFile: "/usr/bin", serviceFile: "/usr/lib/systemd/system"} {
				if !test.enforces {
					like = ""
				}
				if labelled[file] != like {
					t.Errorf("%s: %s has the label of %q; want %q", name, file, labelled[file], like)
				}
			}
		})
	}
}
