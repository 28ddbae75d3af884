package slices

import (
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
)

// inputOf returns the input of a node whose configuration asks for the partition p; nil asks for
// none.
func inputOf(p *config.Partition) *Input {
	c := &config.Config{Names: []partition.Name{partition.System}, Kubelet: &kubeletconfig.Merged{}}
	if p != nil {
		p.Name = partition.System
		c.Partitions = []config.Partition{*p}
	}
	return &Input{config: c, names: c.Names}
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
	late := host.Late{Paths: []string{"/var/lib/kubelet/config.yaml"}, MountUnits: []string{"var.mount"}}
	keptLate := map[string]string{LateService: "kept"}
	keptAll := map[string]string{LateService: "kept", ApplyPath: "kept", ApplyService: "kept"}
	const wants = "multi-user.target.d/" + dropinName
	for name, test := range map[string]struct {
		partition bool
		late      host.Late
		kept      map[string]string
		want      string // the units and the drop-in for LateService; * marks a kept one
	}{
		"nothing":                          {false, host.Late{}, nil, ""},
		"a partition":                      {true, host.Late{}, nil, "path service"},
		"a partition, again":               {true, host.Late{}, map[string]string{ApplyPath: "kept", ApplyService: "kept"}, "path service"},
		"a partition that ends":            {false, host.Late{}, map[string]string{ApplyPath: "kept", ApplyService: "kept"}, "path* service*"},
		"a late file system":               {false, late, nil, "late wants"},
		"a late file system, again":        {false, late, keptLate, "late* wants"},
		"a late file system is there":      {true, host.Late{}, keptLate, "late* wants path service"},
		"a partition and a late one":       {true, late, nil, "late wants path service"},
		"a partition and a late one again": {true, late, keptAll, "late* wants path service"},
		"all has ended":                    {false, host.Late{}, keptAll, "late* wants path* service*"},
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
