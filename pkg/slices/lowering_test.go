package slices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// memory is the reading of a cgroup. Without page cache, usage is Current.
type memory = cgroups.MemoryReading

var names = partition.System

func putFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestStateDefers: a limit waits for evictions only if it is lowered to usage or below it. Usage
// can be above the limit in force (memory_max_write).
func TestStateDefers(t *testing.T) {
	const mi = 1 << 20
	lowered := config.Partition{Thresholds: thresholds.Thresholds{Limit: 200 * mi, Hard: 32 * mi}}
	never, soft := lowered, lowered
	never.Hard = 0
	soft.Hard, soft.Soft = 0, mi
	for name, test := range map[string]struct {
		partition config.Partition
		memory    memory
		monitor   bool
		want      bool
		operator  bool
	}{
		"used":                     {lowered, memory{Max: 400 * mi, Current: 300 * mi}, true, true, false},
		"used exactly":             {lowered, memory{Max: 400 * mi, Current: 200 * mi}, true, true, false},
		"used less":                {lowered, memory{Max: 400 * mi, Current: 200*mi - 1}, true, false, false},
		"used, no monitor":         {lowered, memory{Max: 400 * mi, Current: 300 * mi}, false, false, false},
		"equal":                    {lowered, memory{Max: 200 * mi, Current: 200 * mi}, true, false, false},
		"raised":                   {lowered, memory{Max: 100 * mi, Current: 300 * mi}, true, false, false},
		"not read":                 {lowered, memory{}, true, false, false},
		"no limit before":          {lowered, memory{Max: cgroups.Unlimited, Current: 300 * mi}, true, true, false},
		"limit removed":            {config.Partition{}, memory{Max: 400 * mi, Current: 300 * mi}, true, false, false},
		"no threshold at all":      {never, memory{Max: 400 * mi, Current: 300 * mi}, true, false, false},
		"the soft threshold alone": {soft, memory{Max: 400 * mi, Current: 300 * mi}, true, true, false},
		"an operator's limit":      {lowered, memory{Max: 400 * mi, Current: 300 * mi}, true, false, true},
	} {
		s := state{memory: test.memory, monitor: test.monitor, operator: test.operator}
		if got := s.defers(&test.partition); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestFind: a limit below the usage waits for a monitor that evicts. The limit in force stays until
// then, and the warning names it.
func TestFind(t *testing.T) {
	const inUse, lower = "6442450944", 4 << 30
	for name, test := range map[string]struct {
		max     string
		limit   uint64
		want    uint64
		warning string
	}{
		"from a limit":       {"8589934592", lower, 8 << 30, "keeping the present limit of 8589934592 bytes"},
		"from no limit":      {"max", lower, cgroups.Unlimited, "leaving it without a limit"},
		"above what is used": {"8589934592", 7 << 30, 0, ""},
	} {
		root := t.TempDir()
		for file, content := range map[string]string{
			"memory.max": test.max + "\n", "memory.current": inUse + "\n", "memory.stat": "inactive_file 0\nactive_file 0\nslab_reclaimable 0\n",
		} {
			putFile(t, filepath.Join(root, names.Cgroup(), file), content)
		}
		putFile(t, filepath.Join(root, monitorCgroup, "cgroup.events"), "populated 1\n")
		putFile(t, filepath.Join(root, EvictsFile), "")
		others := config.Partition{Name: "telemetry", Thresholds: thresholds.Thresholds{Limit: 1, Hard: 1}}
		deferrals := Deferrals(root, &config.Config{
			Kubelet: &kubeletconfig.Merged{}, Partitions: []config.Partition{{Name: names, Thresholds: thresholds.Thresholds{Limit: test.limit, Hard: 1}}, others},
		})
		if deferrals["telemetry"] != nil {
			t.Errorf("%s: the limit of a partition that does not run waits: %+v", name, deferrals["telemetry"])
		}
		got := deferrals[names]
		if got == nil {
			got = &decision.Deferral{}
		}
		if got.InForce != test.want || !strings.Contains(got.Warning, test.warning) ||
			(test.want != 0) != strings.Contains(got.Warning, inUse+" bytes that the partition uses") {
			t.Errorf("%s: %+v, want %d and %q", name, got, test.want, test.warning)
		}
		if got := Deferrals(root, &config.Config{Names: []partition.Name{names}}); len(got) != 0 {
			t.Errorf("%s: without a partition: %+v", name, got)
		}
	}
}

// TestMonitorEvicts: a limit waits only for a monitor that runs and that evicts.
func TestMonitorEvicts(t *testing.T) {
	const events = monitorCgroup + "/cgroup.events"
	for name, test := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"runs and evicts":        {map[string]string{events: "populated 1\nfrozen 0\n", EvictsFile: ""}, true},
		"runs and only reports":  {map[string]string{events: "populated 1\nfrozen 0\n"}, false},
		"has ended":              {map[string]string{events: "populated 0\nfrozen 0\n", EvictsFile: ""}, false},
		"has ended, and is gone": {map[string]string{EvictsFile: ""}, false},
		"was never there":        {nil, false},
		"runs in a slice of an operator": {map[string]string{
			cgroups.Mount + "/kubernetes.slice/partition-monitor.service/cgroup.events": "populated 1\n",
			EvictsFile: "0::/kubernetes.slice/partition-monitor.service\n",
		}, true},
		"has ended in a slice of an operator": {map[string]string{
			events: "populated 1\n", cgroups.Mount + "/kubernetes.slice/partition-monitor.service/cgroup.events": "populated 0\n",
			EvictsFile: "0::/kubernetes.slice/partition-monitor.service\n",
		}, false},
		"ended in the session of a login": {map[string]string{
			cgroups.Mount + "/user.slice/session-1.scope/cgroup.events": "populated 1\n", EvictsFile: "0::/user.slice/session-1.scope\n",
		}, false},
		"a path that leads elsewhere": {map[string]string{
			"/tmp/partition-monitor.service/cgroup.events": "populated 1\n", EvictsFile: "0::/../../../tmp/partition-monitor.service\n",
		}, false},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			putFile(t, filepath.Join(root, path), content)
		}
		if got := monitorEvicts(host.Root(root)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestOperatorSets: systemd's rules for drop-ins decide what an operator has set.
func TestOperatorSets(t *testing.T) {
	const (
		set   = "[Slice]\nMemoryMax=8G\n"
		taken = "[Slice]\nMemoryMax=8G\nMemoryMax=\n"
	)
	for name, test := range map[string]struct {
		files map[string]string // "null" is a link to /dev/null
		want  bool
	}{
		"nothing":                   {nil, false},
		"set-property":              {map[string]string{"/etc/systemd/system.control/kubepods-system.slice.d/50-MemoryMax.conf": set}, true},
		"set-property, this boot":   {map[string]string{"/run/systemd/system.control/kubepods-system.slice.d/50-MemoryMax.conf": set}, true},
		"transient":                 {map[string]string{"/run/systemd/transient/kubepods-system.slice.d/a.conf": set}, true},
		"for a prefix":              {map[string]string{"/etc/systemd/system/kubepods-.slice.d/a.conf": set}, true},
		"for all slices":            {map[string]string{"/run/systemd/system/slice.d/a.conf": set}, true},
		"of a package":              {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set}, true},
		"of a local package":        {map[string]string{"/usr/local/lib/systemd/system/slice.d/a.conf": set}, true},
		"for slices of pods":        {map[string]string{"/etc/systemd/system/kubepods-system-.slice.d/a.conf": set}, false},
		"a unit of one's own":       {map[string]string{"/etc/systemd/system/kubepods-system.slice": set}, true},
		"one that does not set it":  {map[string]string{"/etc/systemd/system/kubepods-system.slice": "[Slice]\n"}, true},
		"one of this boot":          {map[string]string{"/run/systemd/system/kubepods-system.slice": set}, true},
		"a unit of a package":       {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice": set}, false},
		"a unit of a generator":     {map[string]string{"/run/systemd/generator/kubepods-system.slice": set}, false},
		"of a generator":            {map[string]string{"/run/systemd/generator/kubepods-system.slice.d/a.conf": set}, false},
		"not in the section":        {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Unit]\nMemoryMax=8G\n"}, false},
		"another suffix":            {map[string]string{"/etc/systemd/system/slice.d/a.conf.orig": set}, false},
		"with spaces":               {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\nMemoryMax = 8G\n"}, true},
		"another property":          {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\nMemoryHigh=8G\n"}, false},
		"of another slice":          {map[string]string{"/run/systemd/system.control/other.slice.d/50-MemoryMax.conf": set}, false},
		"commented out":             {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\n#MemoryMax=8G\n"}, false},
		"taken back":                {map[string]string{"/etc/systemd/system/slice.d/a.conf": taken}, false},
		"taken back by a later one": {map[string]string{"/usr/lib/systemd/system/slice.d/a.conf": set, "/etc/systemd/system/slice.d/b.conf": "[Slice]\nMemoryMax=\n"}, false},
		"set after that":            {map[string]string{"/etc/systemd/system/slice.d/a.conf": taken, "/usr/lib/systemd/system/kubepods-system.slice.d/b.conf": set}, true},
		"hidden by an empty one":    {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/kubepods-system.slice.d/a.conf": ""}, false},
		"masked":                    {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/kubepods-system.slice.d/a.conf": "null"}, false},
		"masked for all slices alone": {map[string]string{
			"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/slice.d/a.conf": "null",
		}, true},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			if content != "null" {
				putFile(t, root+path, content)
				continue
			}
			putFile(t, filepath.Join(root, filepath.Dir(path), "README"), "")
			if err := os.Symlink("/dev/null", root+path); err != nil {
				t.Fatal(err)
			}
		}
		if got := operatorSets(host.Root(root), "kubepods-system.slice", "MemoryMax"); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
