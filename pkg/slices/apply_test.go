package slices

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/testkit"
)

// TestApply: the limits of each unit that is active are written, also after one that cannot be.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "systemctl"), `case $1 in
is-active) test "$3" != ended.slice ;;
set-property) echo "$3" >>"$LOG"; test "$3" != refused.slice ;;
esac`)
	for _, test := range []struct {
		name           string
		units, written []string
		fails          bool
	}{
		{"one ended", []string{"a.slice", "ended.slice", "b.slice"}, []string{"a.slice", "b.slice"}, false},
		{"all ended", []string{"ended.slice"}, nil, false},
		{"one refused", []string{"refused.slice", "b.slice"}, []string{"refused.slice", "b.slice"}, true},
	} {
		log := filepath.Join(dir, strings.ReplaceAll(test.name, " ", "-"))
		cmd := exec.Command("/bin/sh", "-c", shellText(applyTo(test.units)))
		cmd.Env = []string{"PATH=" + dir, "LOG=" + log}
		if out, err := cmd.CombinedOutput(); (err != nil) != test.fails {
			t.Errorf("%s: %v, %s", test.name, err, out)
		}
		written, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if got := strings.Fields(string(written)); !slices.Equal(got, test.written) {
			t.Errorf("%s: written %q, want %q", test.name, got, test.written)
		}
	}
}

// TestApplyNames: the limits of a partition that does not run yet are written, too: the service
// stays as it is when the section is removed in the same boot.
func TestApplyNames(t *testing.T) {
	t.Parallel()
	in := inputOf(&config.Partition{})
	in.config.Partitions = append(in.config.Partitions, config.Partition{Name: "telemetry"})
	for _, running := range []map[partition.Name]bool{nil, {partition.System: true}} {
		in.running = running
		if text := contents(units(in))[ApplyService]; !strings.Contains(text, "for s in kubepods-system.slice kubepods-telemetry.slice; do") {
			t.Errorf("running %v: %s", running, text)
		}
	}
}

// TestApplyHost: the first partition of a boot restricts units that run already.
func TestApplyHost(t *testing.T) {
	t.Parallel()
	in := inputOf(&config.Partition{})
	for _, cpus := range []cpuset.CPUSet{cpuset.New(), cpuset.New(0, 1)} {
		in.hostCPUs = cpus
		if got, want := NewPlan(in).Apply, !cpus.IsEmpty(); got != want {
			t.Errorf("services on CPUs %q: apply is %t", cpus, got)
		}
	}
}

// TestReloads: each service that reloads systemd tries again when that fails, and starts nothing
// before it has succeeded. The service for edits forgets then that it has asked.
func TestReloads(t *testing.T) {
	t.Parallel()
	in := inputOf(&config.Partition{})
	in.program, in.config.Kubelet.Late = "/generator", host.Late{MountUnits: []string{"var.mount"}, OnDemand: []string{"srv.mount"}}
	files := contents(units(in))
	maps.Copy(files, awaiting())
	maps.Copy(files, awaiting("/var/lib/kubelet/config.yaml"))
	dir := t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "systemctl"), `echo "$*" >>"$LOG"; test "$1" != "$FAILS"`)
	testkit.WriteScript(t, filepath.Join(dir, "rm"), `echo "rm $*" >>"$LOG"`)
	for _, name := range []string{LateService, LateMountService, AwaitService, AwaitSectionService, ReadService} {
		asked, last := "", ""
		if name == ReadService {
			asked, last = "rm -f "+decision.WatchFile+"\n", "start --no-block "+WatchService+"\n"
		}
		_, command, _ := strings.Cut(files[name], "\nExecStart=")
		command, _, _ = strings.Cut(command, "\n")
		for fails, want := range map[string]string{
			"":              "daemon-reload\nstart slices.target\n" + last,
			"daemon-reload": "daemon-reload\n" + asked,
			"start":         "daemon-reload\nstart slices.target\n",
		} {
			log := filepath.Join(dir, name+fails)
			cmd := exec.Command("/bin/sh", "-c", shellText(command))
			cmd.Env = []string{"PATH=" + dir, "LOG=" + log, "FAILS=" + fails}
			err := cmd.Run()
			if got, _ := os.ReadFile(log); string(got) != want || (err == nil) != (fails == "") {
				t.Errorf("%s: %q fails: %v, %q; want %q", name, fails, err, got, want)
			}
		}
		if !strings.Contains(files[name], "\nRestart=on-failure\nRestartSec=5s\n") {
			t.Errorf("%s: %s", name, files[name])
		}
	}
}

// awaiting returns the units of a node that waits for a section, and has files of the kubelet.
func awaiting(kubelets ...string) map[string]string {
	in := inputOf(nil)
	in.config.Kubelet.Files, in.config.Kubelet.Awaited.Files = kubelets, []string{kubeletconfig.OverridePath}
	return contents(units(in))
}

// shellText returns the text that systemd gives the shell of a command.
func shellText(command string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(command, `/bin/sh -c "`), `"`), "$$", "$")
}

// TestSettled: the service that reads a new section is skipped, and its path unit waits on, if the
// section is removed while the service waits.
func TestSettled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "sleep"), `test "$1" = 1 && test -z "$REMOVED" || exec /bin/rm "$REMOVED"`)
	condition := settled(AwaitSectionService)[0]
	if condition.Name != "ExecCondition" {
		t.Fatalf("%+v", condition)
	}
	section := filepath.Join(dir, "section.yaml")
	for _, removed := range []string{"", section} {
		if err := os.WriteFile(section, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(shellText(condition.Value), kubeletconfig.OverridePath, section))
		cmd.Env = []string{"PATH=" + dir, "REMOVED=" + removed}
		// Status 1 to 254 skips a service (systemd.service(5)).
		var exit *exec.ExitError
		err := cmd.Run()
		if runs := err == nil; runs != (removed == "") || err != nil && !errors.As(err, &exit) {
			t.Errorf("removed %q: %v", removed, err)
		}
	}
}
