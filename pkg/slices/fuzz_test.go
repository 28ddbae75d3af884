package slices

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"

	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/generator/golden"
)

// sliceName matches the name of a slice that the configuration may choose.
const sliceName = `[A-Za-z0-9:_.-]+\.slice`

// allowedOptions lists all settings that units may have, with a pattern for their values. The units
// contain nothing else, whatever the configuration holds.
var allowedOptions = map[string]string{
	"Unit.Description": `^(Kubernetes (System Partition|Partition [a-z0-9-]{1,40})(, (Burstable|Best-Effort) Pods)?|` +
		`(Watch for|Apply) Changed Limits of the System Partition|Kubernetes Node Resources, (kube|system)-reserved|` +
		`Watch for a Configuration of the System Partition|Read the System Partition's Configuration Once There Is One|` +
		`(Watch|Have a Changed|Read a Changed) (the )?Configuration of the System Partition( Read)?|` +
		`Slice Above ` + sliceName + `|Enable the hugetlb Controller for( ` + sliceName + `)+)$`,
	"Unit.Documentation":           `^https://(kep\.k8s\.io/5894|kubernetes\.io/docs/tasks/administer-cluster/reserve-compute-resources/)$`,
	"Unit.SourcePath":              `^/[A-Za-z0-9/._@:+,=~-]+$`,
	"Unit.Wants":                   `^(` + sliceName + ` ?)*(partition-generator-(apply\.path|controllers\.service|await-section\.path|read\.service) ?)?(partition-generator-watch\.path)?$`,
	"Unit.After":                   `^((` + sliceName + ` ?)+(partition-generator-controllers\.service)?|sysinit\.target|partition-generator-(read\.service|watch\.path))$`,
	"Unit.Conflicts":               `^shutdown\.target$`,
	"Unit.Before":                  `^(slices\.target|kubelet\.service( partition-monitor\.service)?( shutdown\.target)?)$`,
	"Unit.DefaultDependencies":     `^no$`,
	"Unit.StartLimitIntervalSec":   `^0$`,
	"Path.TriggerLimitIntervalSec": `^0$`,
	"Slice.MemoryMax":              `^[1-9][0-9]{0,18}$`,
	"Slice.MemoryHigh":             `^[1-9][0-9]{0,18}$`,
	"Slice.AllowedCPUs":            `^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`,
	"Slice.StartupAllowedCPUs":     `^0-3$`,
	"Slice.CPUWeight":              `^(1|100)$`,
	"Slice.MemoryAccounting":       `^yes$`,
	"Slice.TasksAccounting":        `^yes$`,
	"Service.Delegate":             `^yes$`,
	"Path.PathExists":              `^(/run/node-partition/units/\.apply|/etc/kubernetes/node-partition\.yaml)$`,
	"Path.PathChanged":             `^/etc/kubernetes/node-partition\.yaml$`,
	"Service.SyslogIdentifier":     `^partition-generator$`,
	"Service.RemainAfterExit":      `^yes$`,
	"Service.Type":                 `^oneshot$`,
	"Service.Restart":              `^on-failure$`,
	"Service.RestartSec":           `^5s$`,
	"Service.LogLevelMax":          `^notice$`,
	"Service.ExecCondition": `^/bin/sh -c "(sleep 1; test -e /etc/kubernetes/node-partition\.yaml|` +
		`exec /usr/lib/systemd/system-generators/partition-generator --changed)"$`,
	"Service.ExecStartPre": `^-/usr/bin/systemctl stop partition-generator-await-section\.path$`,
	"Service.ExecStart": `^(` +
		`/bin/sh -c "(cd /sys/fs/cgroup/kubepods\.slice && r=0; for s in kubepods-\*\.slice|r=0; for s in( kubepods-[a-z0-9_]+\.slice)+); do ` +
		`systemctl is-active --quiet \$\$s \|\| continue; systemctl set-property --runtime \$\$s Markers= \|\| r=1; done; exit \$\$r"|` +
		`/usr/bin/rm -f /run/node-partition/units/\.apply|` +
		`/usr/bin/systemctl start --no-block partition-generator-read\.service|` +
		`/bin/sh -c "systemctl daemon-reload( \|\| { rm -f /run/node-partition/watch\.json; false; })? && ` +
		`systemctl start slices\.target( && systemctl start --no-block partition-generator-watch\.service)?"|` +
		`/bin/sh -c "for d in /sys/fs/cgroup( /sys/fs/cgroup/[A-Za-z0-9:_./-]+)+; do echo \+hugetlb >\$\$d/cgroup\.subtree_control; done")$`,
}

// foreign matches the unit files and drop-ins that are never written, whatever slice the kubelet is
// configured to enforce its reservations on.
var foreign = regexp.MustCompile(`^(system\.slice|user(-.*)?\.slice|init\.scope|-\.slice)|^kubepods\.slice$`)

// FuzzUnits passes configurations to the generator: a main file and a drop-in. Whatever they hold,
// the result is an error that names the file, or units of the allowed settings alone.
func FuzzUnits(f *testing.F) {
	cases, err := golden.Load("../../tests/generator")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		if config := []byte(c.Files[golden.ConfigPath]); len(config) > 0 {
			f.Add(config, []byte(nil))
			f.Add([]byte(golden.KubeletHead), config)
		}
	}
	root := f.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../tests/generator/node")); err != nil {
		f.Fatal(err)
	}
	const mainFile, dropin = golden.ConfigPath, "etc/openshift/kubelet.conf.d/10-fuzz.conf"
	for _, name := range []string{mainFile, dropin} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, config, patch []byte) {
		if err := os.WriteFile(filepath.Join(root, mainFile), config, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(root, dropin)); err != nil {
			t.Fatal(err)
		}
		if len(patch) > 0 {
			if err := os.WriteFile(filepath.Join(root, dropin), patch, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		plan, err := planBelow(root)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "/") {
					t.Errorf("a message without a file: %q", line)
				}
			}
			return
		}
		checkUnits(t, plan)
		again, err := planBelow(root)
		if err != nil || !reflect.DeepEqual(plan, again) {
			t.Errorf("a second run differs: %v\n%+v\n%+v", err, plan, again)
		}
	})
}

func planBelow(root string) (*Plan, error) {
	input, err := Load(root, NewOutput(root, filepath.Join(root, generatorDir)))
	if err != nil {
		return nil, err
	}
	return NewPlan(input), nil
}

// isForeignPartition reports whether a path is a unit file of a slice below kubepods.slice that no
// partition of the plan has.
func isForeignPartition(plan *Plan, path string) bool {
	if !strings.HasPrefix(path, "kubepods-") || strings.Contains(path, "/") {
		return false
	}
	return !slices.ContainsFunc(plan.Config.Partitions, func(p config.Partition) bool { return slices.Contains(p.Name.Slices(), path) })
}

// onlyWaits reports whether a unit is for a section that may come: a path unit, the services behind
// it, or the drop-in that starts it.
func onlyWaits(unit string) bool {
	return slices.Contains([]string{AwaitSectionPath, AwaitSectionService, WatchPath, WatchService, ReadService}, unit) ||
		strings.HasSuffix(unit, ".target.d/50-node-partition.conf")
}

func checkUnits(t *testing.T, plan *Plan) {
	t.Helper()
	none := len(plan.Config.Partitions) == 0 && len(plan.Config.Reserved.Slices) == 0
	if all := !slices.ContainsFunc(plan.Units, func(file UnitFile) bool { return !onlyWaits(file.Path) }); none != all {
		t.Errorf("partition %+v, %+v with %d units", plan.Config.Partitions, plan.Config.Reserved, len(plan.Units))
	}
	for _, file := range plan.Units {
		if foreign.MatchString(file.Path) || isForeignPartition(plan, file.Path) {
			t.Errorf("%s is not ours to write", file.Path)
		}
		options, err := unit.DeserializeOptions(strings.NewReader(file.Content))
		if err != nil {
			t.Errorf("%s does not parse: %v\n%s", file.Path, err, file.Content)
		}
		for _, o := range options {
			pattern, ok := allowedOptions[o.Section+"."+o.Name]
			if !ok || !regexp.MustCompile(pattern).MatchString(o.Value) {
				t.Errorf("%s: [%s] %s=%q is not allowed", file.Path, o.Section, o.Name, o.Value)
			}
		}
	}
}
