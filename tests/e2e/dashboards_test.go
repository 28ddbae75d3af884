//go:build node

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/lab"
)

const (
	// hasten divides the times of the alerts: five minutes are half a minute.
	hasten = 10
	// The values of the label instance.
	loadedNode, quietNode = "loaded", "quiet"
	// metricsAddress is the address of the monitor, on its node.
	metricsAddress = "127.0.0.1:9948"
)

// TestDashboards: a real Prometheus scrapes two nodes, one under load and one at rest. Each panel
// of the dashboard has data. The alerts fire for faults that are put into the node, and none fires
// for the node at rest.
func TestDashboards(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		places, err := lab.Places()
		if err != nil {
			t.Fatal(err)
		}
		if places < 2 {
			t.Fatalf("two nodes run at once, and this host has a place for %d: set LAB_NODES=2", places)
		}
		quiet := atRest(t, flavour, "512Mi")
		loaded := underLoad(t, flavour)
		p := newPrometheus(t, hasten, map[string]string{
			loadedNode: forwarded(t, loaded.Node, metricsAddress), quietNode: forwarded(t, quiet, metricsAddress),
		})
		for _, fault := range faults {
			t.Run(fault.name, func(t *testing.T) { fault.put(t, loaded, p) })
		}
		t.Run("the node at rest", func(t *testing.T) { p.quiet(t, quietNode) })
		t.Run("each panel has data", func(t *testing.T) { panelsHaveData(t, p) })
	})
}

// atRest is a node with a partition, as the README describes it, and with reservations that hold.
func atRest(t *testing.T, flavour, memory string) *lab.Node {
	t.Helper()
	section := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partitionOf(memory, "0-1")
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true, Files: slices.Concat(programs(), protectingNoPod(flavour), []lab.File{
		kubeletConfig(t, "systemReserved: {memory: 1536Mi}\n"),
		{Path: kubeletconfig.OverridePath, Data: []byte(section), Mode: 0o644},
	})})
	switchedOn(t, n)
	return n
}

// loadedSection is a partition that is in the wrong file, on a node that reserves less than its
// services use.
const loadedSection = "systemReserved: {memory: 16Mi}\n" + evictionSection + `  evictionSoft: {memory.available: 160Mi}
  evictionSoftGracePeriod: {memory.available: 1h}
`

// underLoad is a node with a control plane, with metrics of each pod.
func underLoad(t *testing.T, flavour string) *evictor {
	t.Helper()
	args := lab.File{Path: monitorDefaults, Data: []byte("PARTITION_MONITOR_ARGS=--per-pod-metrics\n")}
	n, control := joined(t, flavour, loadedSection, args)
	return &evictor{Node: n, control: control, leakers: map[string]bool{}}
}

// fault is a fault that is put into the node under load, and the alerts for it.
type fault struct {
	name string
	put  func(*testing.T, *evictor, prometheus)
}

// faults lists the faults in their order. Two are in the configuration of the node from the
// beginning: their alerts are for longer times, and are pending meanwhile.
var faults = []fault{
	{"pods come and go", podsComeAndGo},
	{"a leak is evicted", leakIsEvicted},
	{"all pods are protected, and the kernel kills", kernelKills},
	{"the section is in the kubelet's file", func(t *testing.T, _ *evictor, p prometheus) {
		p.fires(t, "NodePartitionSectionInKubeletsFile")
	}},
	{"services use more than is reserved", func(t *testing.T, _ *evictor, p prometheus) {
		p.fires(t, "NodePartitionReservationsExceeded")
	}},
	{"the configuration is refused", configurationRefused},
	{"the limit is lifted", limitLifted},
	{"the monitor is stopped", monitorStopped},
}

// podsComeAndGo: no alert is for this, and the panels of placements show it.
func podsComeAndGo(t *testing.T, e *evictor, _ prometheus) {
	for _, name := range []string{"first", "second", "third"} {
		e.create(t, spec{namespace: members, name: name, requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "8Mi"}})
		e.placed(t, name)
		e.remove(t, members, name)
	}
}

// leakIsEvicted: a pod within its request leaves little, and another one leaks.
func leakIsEvicted(t *testing.T, e *evictor, p prometheus) {
	e.create(t, spec{namespace: members, name: "large", requests: resources("10m", "360Mi"), command: []string{"/podtool", "alloc", "350Mi"}})
	e.placed(t, "large")
	p.fires(t, "NodePartitionLowMargin")
	e.leaks(t, leaker("leaker-seen", "20Mi"))
	e.evicted(t, "leaker-seen")
	p.fires(t, "NodePartitionEviction")
	e.remove(t, members, "leaker-seen")
	e.remove(t, members, "large")
}

// kernelKills: a static pod is protected.
func kernelKills(t *testing.T, e *evictor, p prometheus) {
	hungry := spec{namespace: members, name: "hungry", command: []string{"/podtool", "grow", "300Mi", "4Mi", "1Gi"}}
	if _, err := e.ApplyPod(t.Context(), hungry.manifest(t)); err != nil {
		t.Fatal(err)
	}
	p.fires(t, "NodePartitionNoCandidate")
	p.fires(t, "NodePartitionKernelKill")
	remove(t, e.Node, hungry)
}

func configurationRefused(t *testing.T, e *evictor, p prometheus) {
	configure(t, e.Node, strings.Replace(loadedSection, "512Mi", "512 MB", 1))
	p.fires(t, "NodePartitionConfigurationRefused")
	configure(t, e.Node, loadedSection)
}

// limitLifted: an operator lifts the limit by hand.
func limitLifted(t *testing.T, e *evictor, p prometheus) {
	run(t, e.Node, "systemctl set-property --runtime "+systemSlice+" MemoryMax=infinity")
	p.fires(t, "NodePartitionLimitLifted")
	run(t, e.Node, "systemctl revert "+systemSlice)
	reload(t, e.Node)
	want(t, e.Node, "cat "+systemCgroup+"/memory.max", "536870912")
}

func monitorStopped(t *testing.T, e *evictor, p prometheus) {
	run(t, e.Node, "systemctl stop "+monitorUnit)
	p.fires(t, "NodePartitionMonitorDown")
	run(t, e.Node, "systemctl start "+monitorUnit)
}

// panel holds the fields of a panel of the dashboard that this test reads.
type panel struct {
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
	// Panels holds the panels of a folded row.
	Panels []panel
}

// otherNodes holds the metrics that these two nodes do not have: a recommendation takes hours, and
// the fleet's test has it (tests/fleet); the controller's are of its own tests; no pod has a
// workload type, and no partition a memoryBurst.
var otherNodes = regexp.MustCompile(`nodepartition_(memory_recommended_bytes|memory_limit_effective_bytes|rollout_|workload_)`)

// panelsHaveData runs each query of the dashboard, as Grafana does if all clusters, jobs and nodes
// are selected. It writes the series where failed tests leave what explains them.
func panelsHaveData(t *testing.T, p prometheus) {
	data, err := os.ReadFile("../../deploy/grafana/node-partition.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	dir, err := lab.Artifacts(t)
	if err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "30s", "$cluster", ".*", "$job", ".+", "$instance", ".+", "$partition", ".+")
	var panels []panel
	for _, of := range dashboard.Panels {
		panels = append(append(panels, of), of.Panels...)
	}
	queries := 0
	for i, panel := range panels {
		var text strings.Builder
		for _, target := range panel.Targets {
			queries++
			all := p.series(t, variables.Replace(target.Expr))
			if !hasNumber(all) && !otherNodes.MatchString(target.Expr) {
				t.Errorf("%s: no data for %s", panel.Title, target.Expr)
			}
			if err := writeCSV(&text, target.LegendFormat, all); err != nil {
				t.Fatal(err)
			}
		}
		if panel.Type == "row" {
			continue
		}
		name := fmt.Sprintf("%02d-%s.csv", i, notInName.ReplaceAllString(panel.Title, "-"))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if queries == 0 {
		t.Error("no queries: this test does not find them any more")
	}
	t.Logf("%d queries of %d panels; their series are in %s", queries, len(panels), dir)
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// hasNumber reports whether a result has a value. A quantile of no events is none.
func hasNumber(all model.Matrix) bool {
	return slices.ContainsFunc(all, func(s *model.SampleStream) bool {
		return slices.ContainsFunc(s.Values, func(v model.SamplePair) bool { return !math.IsNaN(float64(v.Value)) })
	})
}
