package slices

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroupfs"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/latemount"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/internal/unitname"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// inputOf returns the input of a node whose configuration asks for the partition p; nil asks for
// none.
func inputOf(p *config.Partition) *Input {
	c := &config.Config{Names: []unitname.PartitionName{unitname.System}, Kubelet: &kubeletconfig.Merged{}}
	if p != nil {
		p.Name = unitname.System
		c.Partitions = []config.Partition{*p}
	}
	return &Input{config: c, names: c.Names}
}

// TestUnitsOtherPartition: the units use the partition's name from the configuration, and no
// other partition's.
func TestUnitsOtherPartition(t *testing.T) {
	in := inputOf(&config.Partition{Thresholds: thresholds.Thresholds{Limit: 1 << 30}})
	in.services = []string{"kubelet.service", unitname.MonitorService}
	renamed := strings.NewReplacer("kubepods-system", "kubepods-batch")
	want := units(in)
	for i, file := range want {
		want[i] = UnitFile{renamed.Replace(file.Path), renamed.Replace(file.Content)}
	}
	slices.SortFunc(want, func(a, b UnitFile) int { return strings.Compare(a.Path, b.Path) })
	in.config.Names[0], in.config.Partitions[0].Name = "batch", "batch"
	in.running = map[unitname.PartitionName]bool{"batch": true}
	want = retitled(want)
	if got := units(in); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// retitled replaces the title and the section of the system partition.
func retitled(files []UnitFile) []UnitFile {
	for i := range files {
		section := "Change the workloadPartitions section"
		if strings.HasSuffix(files[i].Path, ".slice") {
			section = "Change the workloadPartitions.batch section"
		}
		files[i].Content = strings.NewReplacer(
			"Kubernetes System Partition", "Kubernetes Partition batch", "Change the systemPartition section", section,
		).Replace(files[i].Content)
	}
	return files
}

// TestUnitsTwoPartitions: each partition has its slices with its own limits, CPUs and floor. The
// kubelet waits for both, the limits of both are applied after a reload, and what is of the system
// partition is byte for byte what it is without the other one.
func TestUnitsTwoPartitions(t *testing.T) {
	swap := uint64(1 << 20)
	system := config.Partition{
		Name: unitname.System, Thresholds: thresholds.Thresholds{Limit: 1 << 30}, Namespaces: []string{"kube-system"}, CPUs: cpuset.New(0),
		Protection: cgroupfs.Protection{Min: 1 << 20}, SwapMax: &swap,
	}
	batch := config.Partition{Name: "my-batch", Thresholds: thresholds.Thresholds{Limit: 2 << 30}, Namespaces: []string{"batch"}, NodeCPUs: cpuset.New(0, 1)}
	in := inputOf(&system)
	in.services = []string{"kubelet.service", unitname.MonitorService}
	alone := contents(units(in))
	in.config.Names = append(in.config.Names, batch.Name)
	in.config.Partitions = append(in.config.Partitions, batch)
	in.keepsCPUs = map[unitname.PartitionName]bool{"my-batch": true}
	in.deferrals = map[unitname.PartitionName]*decision.Deferral{"my-batch": {Limit: 2 << 30, InForce: 3 << 30}}
	in.names = in.config.Names
	in.running = map[unitname.PartitionName]bool{unitname.System: true, "my-batch": true}
	both := contents(units(in))
	for path, content := range alone {
		shared := strings.HasPrefix(path, "partition-generator-apply") || strings.HasPrefix(path, "kubelet.service.d/") ||
			strings.HasPrefix(path, "slices.target.d/")
		if !shared && both[path] != content {
			t.Errorf("%s of the system partition has changed: %q, was %q", path, both[path], content)
		}
	}
	for path, parts := range map[string][]string{
		"kubepods-my_batch.slice":                  {"Kubernetes Partition my-batch", "MemoryMax=3221225472", "AllowedCPUs=0-1", unitname.MonitorService},
		"kubepods-my_batch-burstable.slice":        {"Kubernetes Partition my-batch, Burstable Pods"},
		"kubepods-my_batch-besteffort.slice":       {"CPUWeight=1"},
		"kubelet.service.d/" + dropinName:          {"After=kubepods-system.slice kubepods-my_batch.slice"},
		"slices.target.d/" + dropinName:            {"Wants=kubepods-system.slice kubepods-my_batch.slice"},
		ApplyService:                               {"for s in kubepods-system.slice kubepods-my_batch.slice; do systemctl is-active"},
		"kubepods-my_batch.slice.d/" + dropinName:  {"DefaultDependencies=no"},
		"kubepods-my_batch-.slice.d/" + dropinName: {"DefaultDependencies=no"},
	} {
		for _, part := range parts {
			if !strings.Contains(both[path], part) {
				t.Errorf("%s lacks %q: %q", path, part, both[path])
			}
		}
	}
	for _, other := range []string{"MemorySwapMax", "MemoryMin"} {
		if strings.Contains(both["kubepods-my_batch.slice"], other) {
			t.Errorf("my-batch has %s of the system partition: %q", other, both["kubepods-my_batch.slice"])
		}
	}
	if got := keptUnits(in.config.Names); !slices.Contains(got, "kubepods-my_batch-.slice.d/"+dropinName) {
		t.Errorf("pods of my-batch do not outlive a shutdown after its end: %q", got)
	}
}

func contents(files []UnitFile) map[string]string {
	byPath := map[string]string{}
	for _, f := range files {
		byPath[f.Path] = f.Content
	}
	return byPath
}

// TestUnitsKept: the units that apply changes stay until the end of a partition. The services
// that reload systemd do not change while they run.
func TestUnitsKept(t *testing.T) {
	late := latemount.Late{Paths: []string{"/var/lib/kubelet/config.yaml"}, MountUnits: []string{"var.mount"}}
	keptLate := map[string]string{LateService: "kept"}
	keptAll := map[string]string{LateService: "kept", ApplyPath: "kept", ApplyService: "kept"}
	const wants = "multi-user.target.d/" + dropinName
	for name, test := range map[string]struct {
		partition bool
		late      latemount.Late
		kept      map[string]string
		want      string // the units and the drop-in for LateService; * marks a kept one
	}{
		"nothing":                          {false, latemount.Late{}, nil, ""},
		"a partition":                      {true, latemount.Late{}, nil, "path service"},
		"a partition, again":               {true, latemount.Late{}, map[string]string{ApplyPath: "kept", ApplyService: "kept"}, "path service"},
		"a partition that ends":            {false, latemount.Late{}, map[string]string{ApplyPath: "kept", ApplyService: "kept"}, "path* service*"},
		"a late file system":               {false, late, nil, "late wants"},
		"a late file system, again":        {false, late, keptLate, "late* wants"},
		"a late file system is there":      {true, latemount.Late{}, keptLate, "late* wants path service"},
		"a partition and a late one":       {true, late, nil, "late wants path service"},
		"a partition and a late one again": {true, late, keptAll, "late* wants path service"},
		"all has ended":                    {false, latemount.Late{}, keptAll, "late* wants path* service*"},
	} {
		in := inputOf(nil)
		if test.partition {
			in = inputOf(&config.Partition{Thresholds: thresholds.Thresholds{Limit: 1 << 30}})
		}
		in.config.Kubelet.Late, in.kept = test.late, test.kept
		files := units(in)
		var got []string
		for _, unit := range []struct{ path, word string }{{LateService, "late"}, {wants, "wants"}, {ApplyPath, "path"}, {ApplyService, "service"}} {
			for _, file := range files {
				if file.Path != unit.path {
					continue
				}
				if file.Content == "kept" {
					unit.word += "*"
				}
				got = append(got, unit.word)
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
		if !slices.IsSortedFunc(files, func(a, b UnitFile) int { return strings.Compare(a.Path, b.Path) }) {
			t.Errorf("%s: not sorted", name)
		}
	}
}

// TestUnitsOutliveShutdown: a shutdown stops no slice of pods, even if the section is gone and
// pods are not.
func TestUnitsOutliveShutdown(t *testing.T) {
	now := units(inputOf(&config.Partition{Thresholds: thresholds.Thresholds{Limit: 1 << 30}}))
	in := inputOf(nil)
	in.kept = map[string]string{}
	for _, file := range now {
		if slices.Contains(keptUnits([]unitname.PartitionName{unitname.System}), file.Path) {
			in.kept[file.Path] = file.Content
		}
	}
	ended := units(in)
	for name, files := range map[string][]UnitFile{"partition": now, "ended": ended} {
		has := map[string]bool{}
		for _, file := range files {
			has[file.Path] = strings.Contains(file.Content, "[Unit]\n") && strings.Contains(file.Content, "\nDefaultDependencies=no\n")
			if strings.HasSuffix(file.Path, ".slice") && !has[file.Path] {
				t.Errorf("%s: %s is stopped first:\n%s", name, file.Path, file.Content)
			}
		}
		for _, dir := range []string{"kubepods.slice.d", "kubepods-system.slice.d", "kubepods-system-.slice.d"} {
			if !has[dir+"/"+dropinName] {
				t.Errorf("%s: no drop-in in %s keeps it from being stopped", name, dir)
			}
		}
	}
}

// TestUnitsManyReloads: systemd's limits on frequent starts do not apply to the units that each
// reload starts.
func TestUnitsManyReloads(t *testing.T) {
	files := units(inputOf(&config.Partition{Thresholds: thresholds.Thresholds{Limit: 1 << 30}}))
	want := map[string][]string{
		ApplyPath:    {"StartLimitIntervalSec=0\n", "TriggerLimitIntervalSec=0\n"},
		ApplyService: {"StartLimitIntervalSec=0\n", "Restart=on-failure\nRestartSec=5s\n"},
	}
	for _, file := range files {
		for _, setting := range want[file.Path] {
			if !strings.Contains(file.Content, setting) {
				t.Errorf("%s has no %q:\n%s", file.Path, setting, file.Content)
			}
		}
		delete(want, file.Path)
	}
	if len(want) > 0 {
		t.Errorf("no unit for %v", want)
	}
}
