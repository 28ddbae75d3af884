//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/tests/lab"
)

// TestEvictionOrder tests which pods are evicted first, and the effect of a lowered limit.
func TestEvictionOrder(t *testing.T) {
	evictions(t,
		eviction{lab.Part{Name: "lowered limit", Complaints: []string{evicts, "keeping the present limit of 536870912 bytes until"}}, (*evictor).loweredLimit},
		eviction{lab.Part{Name: "order", Complaints: []string{disconnected}, Spends: true}, (*evictor).order},
	)
}

// order: the monitor ranks pods as the kubelet does on the same node, which logs its order before
// it evicts. The kubelet ranks twins outside the partition, because its metrics of pods inside are
// unreliable (docs/troubleshooting/kubelet-metrics.md).
func (e *evictor) order(t *testing.T) {
	const twin = "leaker-twin-"
	pods := []spec{
		{name: "leaker-big", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "64Mi"}},
		{name: "leaker-small", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "32Mi"}},
		{name: "leaker-none", requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}, command: []string{"/podtool", "alloc", "24Mi"}},
		{name: "leaker-important", requests: resources("10m", "8Mi"), command: []string{"/podtool", "alloc", "96Mi"},
			change: func(p *v1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }},
		{name: "leaker-modest", requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "16Mi"}},
	}
	for _, s := range pods {
		s.namespace = members
		e.create(t, s)
		e.placed(t, s.name)
		s.namespace, s.name = "default", strings.Replace(s.name, "leaker-", twin, 1)
		e.create(t, s)
	}
	ours := slices.DeleteFunc(e.ranked(t), others)
	// If the order is estimated from the runtime without the kubelet's Pods API, it is the same except
	// for priorities.
	estimated := slices.DeleteFunc(e.ranked(t, "--pods-api-socket=/none"), others)
	t.Logf("by the kubelet's word: %v; estimated: %v", ours, estimated)
	if got, want := slices.DeleteFunc(slices.Clone(estimated), important), slices.DeleteFunc(slices.Clone(ours), important); !slices.Equal(got, want) {
		t.Errorf("estimated order %v, want %v", got, want)
	}
	// With a threshold above the available memory the kubelet ranks all pods of the node, and evicts
	// one after the other. It has a grace period, so that the kubelet has metrics of all of them.
	run(t, e.Node, "systemctl stop "+monitorUnit)
	config := run(t, e.Node, "cat "+lab.KubeletConfigPath)
	if err := e.WriteFile(t.Context(), lab.KubeletConfigPath, []byte(config+
		"\nevictionSoft: {memory.available: 95%}\nevictionSoftGracePeriod: {memory.available: 40s}\nevictionMaxPodGracePeriod: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart kubelet.service")
	var theirs []string
	err := e.Eventually(t.Context(), "the kubelet's ranking of all twins", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "journalctl -b -o cat --no-pager -u kubelet.service | grep 'pods ranked for eviction' || true")
		for line := range strings.Lines(out) {
			theirs = nil
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(` ",[]`, r) }) {
				if name, ok := strings.CutPrefix(word, "default/"+twin); ok {
					theirs = append(theirs, "leaker-"+name)
				}
			}
			// The kubelet's own list of pods also has those without metrics, and those come first.
			if len(theirs) == len(pods) {
				return true, "", nil
			}
		}
		return false, out, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("our order      %v\nthe kubelet's %v", ours, theirs)
	}
}

func others(name string) bool { return !strings.HasPrefix(name, "leaker-") }

func important(name string) bool { return name == "leaker-important" }

// ranked returns the names of the partition's pods in the order that status shows, including
// protected pods.
func (e *evictor) ranked(t *testing.T, flags ...string) []string {
	t.Helper()
	var status struct {
		Partitions []struct {
			Eviction struct {
				Order []struct{ Name string }
			}
		}
	}
	out := run(t, e.Node, monitorPath+" status -o json "+strings.Join(flags, " "))
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Partitions) != 1 {
		t.Fatalf("%d partitions:\n%s", len(status.Partitions), out)
	}
	order := status.Partitions[0].Eviction.Order
	names := make([]string, 0, len(order))
	for _, c := range order {
		names = append(names, c.Name)
	}
	return names
}

// loweredLimit: a limit below the present usage is reached by eviction, in order, and not by the
// kernel. Without the first of the leakers the others fit into the lower limit, with 32 MiB left.
func (e *evictor) loweredLimit(t *testing.T) {
	for _, s := range []spec{
		{name: "leaker-1", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "120Mi"}},
		{name: "leaker-2", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "64Mi"}},
		{name: "leaker-3", requests: resources("10m", "100Mi"), command: []string{"/podtool", "alloc", "48Mi"}},
	} {
		s.namespace = members
		e.create(t, s)
		e.placed(t, s.name)
	}
	configure(t, e.Node, strings.NewReplacer("512Mi", "256Mi", "128Mi", "32Mi").Replace(evictionSection))
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(256<<20))
	e.evicted(t, "leaker-1")
	if others := len(e.evictions(t, "leaker-3")) + len(e.evictions(t, "within")); others != 0 {
		t.Errorf("%d pods within their request went for it", others)
	}
	want(t, e.Node, kernelKillsAtLimit, "0")
	configure(t, e.Node, evictionSection)
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
	for _, name := range []string{"leaker-1", "leaker-2", "leaker-3"} {
		e.remove(t, members, name)
	}
	e.unharmed(t)
}
