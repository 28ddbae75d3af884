package slices

import (
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/latemount"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// inputOf returns the input of a node whose configuration asks for the partition p; nil asks for
// none.
func inputOf(p *config.Partition) *Input {
	return &Input{config: &config.Config{Partition: p, Name: unitname.System, Kubelet: &kubeletconfig.Config{}}}
}

// TestUnitsOtherPartition: the units use the partition's name from the configuration, and no
// other partition's.
func TestUnitsOtherPartition(t *testing.T) {
	in := inputOf(&config.Partition{MemoryLimit: 1 << 30})
	in.services = []string{"kubelet.service", unitname.MonitorService}
	renamed := strings.NewReplacer("kubepods-system", "kubepods-batch")
	want := units(in)
	for i, file := range want {
		want[i] = UnitFile{renamed.Replace(file.Path), renamed.Replace(file.Content)}
	}
	slices.SortFunc(want, func(a, b UnitFile) int { return strings.Compare(a.Path, b.Path) })
	in.config.Name = "batch"
	if got := units(in); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
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
			in = inputOf(&config.Partition{MemoryLimit: 1 << 30})
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
	now := units(inputOf(&config.Partition{MemoryLimit: 1 << 30}))
	in := inputOf(nil)
	in.kept = map[string]string{}
	for _, file := range now {
		if slices.Contains(keptUnits(unitname.System), file.Path) {
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
	files := units(inputOf(&config.Partition{MemoryLimit: 1 << 30}))
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
