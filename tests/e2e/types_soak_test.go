//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

// soakRounds is the number of times that TestSoakTypes does everything. ROUNDS in the environment
// replaces it.
const soakRounds = 2

// exclusiveTypes has a type with CPU 0 for itself, and one in the system partition on CPU 1.
const exclusiveTypes = "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n" +
	"systemPartition: {memoryLimit: 512Mi, cpuset: \"1\", namespaces: [kube-system]}\n" +
	"workloadPartitions:\n  management: {partition: system, allowedNamespaces: [operators]}\n" +
	"  telemetry: {cpuset: \"0\", exclusive: true, namespaces: [telemetry], allowedNamespaces: [operators], namespaceAnnotation: true}\n"

// TestSoakTypes: all on which members of types depend is restarted, removed and overwritten, in
// random order. No process of a member is off the CPUs of its type for longer than a reconcile, and
// no other process on the CPU that a type has for itself. No pod is replaced.
func TestSoakTypes(t *testing.T) {
	rounds := fromEnvironment(t, "ROUNDS", soakRounds)
	t.Logf("ROUNDS=%d", rounds)
	random := rand.New(rand.NewPCG(seedFrom(t, "ROUNDS_SEED"), 0))
	onOne(t, func(t *testing.T, flavour string) {
		s := newTypesSoak(t, flavour)
		sampled := s.sample(t)
		before := s.known(t)
		for round := range rounds {
			all := s.disturbances(flavour)
			names := slices.Sorted(maps.Keys(all))
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, name := range names {
				t.Logf("round %d: %s", round+1, name)
				all[name](t)
				s.stand(t)
				if t.Failed() {
					t.FailNow()
				}
			}
		}
		samples, late := sampled()
		for _, l := range late {
			t.Error(l)
		}
		t.Logf("all processes were read %d times", samples)
		if least := 10 * rounds; samples < least {
			t.Errorf("all processes were read %d times; want %d at least", samples, least)
		}
		for name, id := range s.known(t) {
			if id.uid != before[name].uid || id.phase != v1.PodRunning {
				t.Errorf("%s: %+v; was %+v", name, id, before[name])
			}
		}
		want(t, s.Node, "journalctl -b -k -o cat --no-pager | grep -c oom-kill:constraint= || true", "0")
	})
}

// typesSoak is a node with members of types, by each of the rights and origins.
type typesSoak struct{ *typedNode }

func newTypesSoak(t *testing.T, flavour string) *typesSoak {
	t.Helper()
	r := newTypedNode(t, flavour, exclusiveTypes)
	annotated := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "annotated"}}
	if _, err := r.control.Client().CoreV1().Namespaces().Create(t.Context(), annotated, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	small := resources("50m", "24Mi")
	asks := func(namespace, name string) spec {
		return asking(spec{namespace: namespace, name: name, requests: small}, "telemetry")
	}
	r.created(t,
		group{spec: asks(operators, "deployed"), make: (*typedNode).byDeployment, partition: telemetry, class: v1.PodQOSBurstable, cpus: "0"},
		group{spec: asks("annotated", "annotated"), make: (*typedNode).byDeployment, partition: telemetry, class: v1.PodQOSBurstable, cpus: "0"},
		group{
			spec: asking(spec{namespace: operators, name: "everywhere"}, "telemetry"), make: (*typedNode).byDaemonSet,
			partition: telemetry, class: v1.PodQOSBestEffort, cpus: "0",
		},
		group{spec: asks(operators, "static"), make: (*typedNode).byManifest, partition: telemetry, class: v1.PodQOSBurstable, cpus: "0"},
		group{
			spec: asking(spec{namespace: operators, name: "manages", requests: small}, "management"), make: (*typedNode).byDeployment,
			partition: partition.System, class: v1.PodQOSBurstable, cpus: "1",
		},
		group{
			spec: spec{namespace: v1.NamespaceDefault, name: "ordinary", requests: small}, make: (*typedNode).byDeployment,
			partition: partition.Default, class: v1.PodQOSBurstable, cpus: "1",
		},
	)
	return &typesSoak{r}
}

// disturbances returns the acts that disturb the node, by name.
func (s *typesSoak) disturbances(flavour string) map[string]func(*testing.T) {
	restart := func(unit string) func(*testing.T) {
		return func(t *testing.T) { run(t, s.Node, "systemctl reset-failed "+unit+"; systemctl restart "+unit) }
	}
	return map[string]func(*testing.T){
		"the Node is deleted": s.nodeDeleted,
		"the value is overwritten": func(t *testing.T) {
			s.setCores(t, "null")
			s.hasCores(t, "telemetry", allCores)
		},
		"containers end while the API server is away": func(t *testing.T) { s.endAlone(t, s.crash) },
		"sandboxes end while the API server is away":  func(t *testing.T) { s.endAlone(t, s.newSandbox) },
		"the kubelet restarts": func(t *testing.T) {
			before := s.known(t)
			s.restartKubelet(t)
			s.become(t, before) // until then it does not have the pods of the API
		},
		"the runtime restarts": func(t *testing.T) {
			restart(runtimeUnit(flavour))(t)
			if err := s.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"the monitor restarts": func(t *testing.T) {
			restart(monitorUnit)(t)
			ready(t, s.Node)
		},
		"the monitor is killed": func(t *testing.T) {
			pid := property(t, s.Node, monitorUnit, "MainPID")
			run(t, s.Node, "systemctl reset-failed "+monitorUnit+"; systemctl kill --signal=KILL "+monitorUnit)
			eventually(t, s.Node, "another monitor", func(ctx context.Context) (bool, string, error) {
				now, err := s.Run(ctx, "systemctl show --value -p MainPID "+monitorUnit)
				now = strings.TrimSpace(now)
				return now != pid && now != "0", now, err
			})
			ready(t, s.Node)
		},
		"systemd executes itself again": func(t *testing.T) { run(t, s.Node, "systemctl daemon-reexec") },
	}
}

// endAlone: containers of members that start while the API server is away are in their partition,
// on the CPUs of their type. end ends what runs of a pod.
func (s *typesSoak) endAlone(t *testing.T, end func(t *testing.T, name, uid string)) {
	t.Helper()
	uids, all := s.uids(t), s.known(t)
	if err := s.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// By the right of the configuration, and of the namespace.
	ending := []string{operators + "/deployed", "annotated/annotated"}
	for _, name := range ending {
		end(t, name, uids[name])
		s.onTelemetry(t, name, uids[name])
	}
	if err := s.control.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The kubelet lists the pods of the API as the API server has them.
	s.await(t, "the containers that have ended in the list of the kubelet", func(ctx context.Context) (bool, string, error) {
		now, err := s.identities(ctx)
		for pod, id := range now {
			ended := slices.ContainsFunc(ending, func(name string) bool { return strings.HasPrefix(pod, name+"-") })
			if ended && id.restarts == all[pod].restarts {
				return false, pod + " is as before", err
			}
		}
		return err == nil, "", err
	})
}

// crash kills the processes of a pod, and waits until others run.
func (s *typesSoak) crash(t *testing.T, name, uid string) {
	t.Helper()
	before, err := processesOf(t.Context(), s.Node, uid)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, p := range before {
		ended[p.pid] = true
	}
	if len(ended) == 0 {
		t.Fatalf("%s (%s) has no process", name, uid)
	}
	// All may end with the first.
	run(t, s.Node, "kill -KILL "+strings.Join(slices.Sorted(maps.Keys(ended)), " ")+" 2>/dev/null || true")
	eventually(t, s.Node, name+" runs again", func(ctx context.Context) (bool, string, error) {
		now, err := processesOf(ctx, s.Node, uid)
		now = slices.DeleteFunc(now, func(p podProcess) bool { return ended[p.pid] })
		return len(now) > 0, fmt.Sprint(now), err
	})
}

// uids returns the UIDs of the pods of all groups.
func (s *typesSoak) uids(t *testing.T) map[string]string {
	t.Helper()
	uids := map[string]string{}
	for pod, uid := range s.uidsByName(t) {
		for _, g := range s.groups {
			if group := g.namespace + "/" + g.name; strings.HasPrefix(pod, group+"-") {
				uids[group] = uid
			}
		}
	}
	if len(uids) != len(s.groups) {
		t.Fatalf("%d pods of %d groups: %v", len(uids), len(s.groups), uids)
	}
	return uids
}

// sample reads all processes of pods again and again, until the function is called that it returns.
// That returns the number of samples, and a message for each process that was on CPUs of others
// when the second reconcile had ended since it was first seen there: the first may have begun
// before.
func (s *typesSoak) sample(t *testing.T) (end func() (samples int, late []string)) {
	t.Helper()
	members := map[string]bool{}
	uids := s.uids(t)
	for _, g := range s.groups {
		if g.partition == telemetry {
			members[partition.EscapeUID(uids[g.namespace+"/"+g.name])] = true
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var sampler sync.WaitGroup
	seen := misplacements{members: members, since: map[string]float64{}}
	sampler.Go(func() {
		for ctx.Err() == nil {
			begin := time.Now()
			ended, err := metric(ctx, s.Node, reconcilesEnded) // before the processes are read
			if err != nil {
				clear(seen.since) // the monitor does not run
			} else if all, err := podProcesses(ctx, s.Node); err == nil {
				seen.note(all, ended)
			}
			select { // a fourth of the node's time at most
			case <-ctx.Done():
			case <-time.After(max(3*time.Since(begin), 250*time.Millisecond)):
			}
		}
	})
	t.Cleanup(func() { cancel(); sampler.Wait() })
	return func() (int, []string) {
		cancel()
		sampler.Wait()
		return seen.samples, seen.late
	}
}

// misplacements follows which processes are on CPUs of others.
type misplacements struct {
	// members has the pods of the type with a CPU for itself, by their UIDs as slices have them.
	members map[string]bool
	// since has the number of reconciles that had ended when a process was first seen so.
	since   map[string]float64
	samples int
	late    []string
}

// note adds a sample, before which a number of reconciles had ended.
func (m *misplacements) note(all []podProcess, ended float64) {
	m.samples++
	wrong := map[string]float64{}
	for _, p := range all {
		// A runtime creates the sandbox of a member where it likes.
		if p.cpus == "1" && (!m.members[p.uid] || p.inSandbox()) || p.cpus == "0" && m.members[p.uid] {
			continue
		}
		key := p.String()
		since, known := m.since[key]
		if !known || ended < since { // or the monitor has started again
			since = ended
		}
		if ended-since >= 2 {
			m.late = append(m.late, fmt.Sprintf("%v passes after it was seen there: %s", ended-since, key))
			since = ended
		}
		wrong[key] = since
	}
	m.since = wrong
}
