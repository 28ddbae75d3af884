//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const (
	// soakMembers and soakChanges are the numbers of TestSoakMembers. MEMBERS and CHANGES in the
	// environment replace them.
	soakMembers, soakChanges = 200, 100
	// soakBatch is the number of members that start at a time. With more of them the kubelet's calls
	// of the runtime take longer than their timeouts, on an emulated node.
	soakBatch = 8
	// soakWait bounds the waits of TestSoakMembers.
	soakWait = 15 * time.Minute
	// reconcilesEnded counts the passes that have ended.
	reconcilesEnded = "nodepartition_reconcile_duration_seconds_count"
)

// inotifyInstances raises a limit as OpenShift's nodes do. Each conmon has an instance, and the
// kernel allows 128 to all programs of root, systemd's path units among them.
var inotifyInstances = lab.File{Path: "/etc/sysctl.d/90-inotify.conf", Data: []byte("fs.inotify.max_user_instances = 8192\n")}

// rareHousekeeping makes the kubelet read the statistics of each cgroup every two minutes, and not
// every ten seconds. 200 pods have 600 cgroups, and an emulated node would do little else.
var rareHousekeeping = lab.File{Path: kubeletFlags, Data: []byte("KUBELET_EXTRA_ARGS=--housekeeping-interval=2m\n")}

// conmonBesideContainer has CRI-O put each conmon into the slice of the pod, as OpenShift does, and
// not into system.slice. So each of them has to be on the CPUs that the partition leaves the pod.
var conmonBesideContainer = lab.File{
	Path: "/etc/crio/crio.conf.d/50-conmon", Data: []byte("[crio.runtime]\nconmon_cgroup = \"pod\"\n"),
}

// TestSoakMembers: the CPUs of 200 running members change 100 times, for themselves or not, at a
// daemon-reload each. After each of them every process of a member is on the CPUs of the partition
// and every other one where it may be, after one reconcile at most, and nothing was restarted.
//
// It runs on CRI-O. With containerd each pod has a shim, which takes 2 to 3 % of an emulated CPU
// while it does nothing (tests/lab/README.md): 200 of them would take all of the node. conmon
// sleeps. The log has the memory that is left of the node's 4 GiB: with more the node would have to
// boot.
func TestSoakMembers(t *testing.T) {
	count, changes := fromEnvironment(t, "MEMBERS", soakMembers), fromEnvironment(t, "CHANGES", soakChanges)
	seed := seedFrom(t, "CHANGES_SEED")
	t.Logf("MEMBERS=%d CHANGES=%d", count, changes)
	onEach(t, kinds([]string{"crio"}, "crio"), func(t *testing.T, flavour string) {
		begin := time.Now()
		s := newMembersSoak(t, flavour, count, rand.New(rand.NewPCG(seed, 0)))
		s.fill(t)
		filled := time.Since(begin)
		s.figures(t, "before the first change")
		for i := range changes {
			s.change(t, i+1)
			if i%10 == 9 {
				s.figures(t, fmt.Sprintf("after %d changes", i+1))
			}
			if t.Failed() {
				t.Fatalf("after %d of %d changes", i+1, changes)
			}
		}
		if after := s.containers(t); !maps.Equal(after, s.before) {
			t.Errorf("containers before: %v\nand after: %v", s.before, after)
		}
		want(t, s.Node, "journalctl -b -k -o cat --no-pager | grep -c oom-kill:constraint= || true", "0")
		want(t, s.Node, "systemctl show --value -p ActiveState -p NRestarts "+monitorUnit+" | sort | xargs", "0 active")
		t.Logf("%d members in %s, and %d changes in %s: at most %s for a reload, and %s until everything was in its place",
			count, filled.Round(time.Second), changes, (time.Since(begin) - filled).Round(time.Second),
			s.slowest.reload.Round(time.Millisecond), s.slowest.placed.Round(time.Millisecond))
	})
}

// fromEnvironment returns a number in a variable of the environment, or another one without it.
func fromEnvironment(t *testing.T, name string, without int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return number
}

// seedFrom returns the seed in a variable of the environment, or another one without it. It logs
// the seed: a test with the same one does the same.
func seedFrom(t *testing.T, name string) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(name); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", name, seed)
	return seed
}

// membersSoak is a node with many members.
type membersSoak struct {
	*workloads
	count  int // of members
	random *rand.Rand
	pool   exclusive
	// processes holds the cgroups of all processes of pods by their IDs. A container that is restarted
	// has others.
	processes map[string]string
	slowest   struct{ reload, placed time.Duration }
}

// poolsOfTwo are all configurations of the pool on a node with two CPUs. One CPU at least is for
// the others.
func poolsOfTwo() []exclusive {
	return []exclusive{
		{telemetry, "0", false}, {telemetry, "1", false}, {telemetry, "0-1", false}, {telemetry, "0", true}, {telemetry, "1", true},
	}
}

// others returns the CPUs of all pods outside of the pool.
func (e exclusive) others() string {
	switch {
	case !e.on:
		return "0-1"
	case e.cpus == "0":
		return "1"
	default:
		return "0"
	}
}

func newMembersSoak(t *testing.T, flavour string, count int, random *rand.Rand) *membersSoak {
	t.Helper()
	s := &membersSoak{count: count, random: random, pool: poolsOfTwo()[0]}
	n, control := joined(t, flavour, s.sections(), inotifyInstances, rareHousekeeping, conmonBesideContainer)
	run(t, n, "sysctl -q -p "+inotifyInstances.Path+" && systemctl restart crio.service")
	ready(t, n)
	s.workloads = &workloads{evictor: &evictor{Node: n, control: control, leakers: map[string]bool{}}}
	return s
}

// sections has room for the members, for the node's three pods and for three of users: the kubelet
// takes 110 pods otherwise.
func (s *membersSoak) sections() string {
	return fmt.Sprintf("maxPods: %d\n", s.count+10) + s.pool.sections()
}

// fill creates the members and pods of each class beside them, and waits until all of them are in
// their places.
func (s *membersSoak) fill(t *testing.T) {
	t.Helper()
	s.namespace(t, telemetry)
	s.threePods(t, partition.Default)
	s.placedIn(t, partition.Default)
	begin := time.Now()
	for i := 0; i < s.count; i += soakBatch {
		batch := make([]spec, 0, soakBatch)
		for j := i; j < min(i+soakBatch, s.count); j++ {
			batch = append(batch, tiny(j))
		}
		for _, one := range batch {
			s.submit(t, one)
		}
		ctx, cancel := context.WithTimeout(t.Context(), soakWait)
		for _, one := range batch {
			if _, err := s.control.WaitPod(ctx, one.namespace, one.name); err != nil {
				cancel()
				t.Fatalf("after %d members: %v\n%s", i, err, run(t, s.Node, "free -m; uptime; "+monitorPath+" status | tail -20"))
			}
		}
		cancel()
		if i/soakBatch%5 == 4 {
			t.Logf("%d members after %s", i+len(batch), time.Since(begin).Round(time.Second))
		}
	}
	s.inPlace(t, 0)
	s.before = s.containers(t)
}

// tiny returns the i-th member: one static program that sleeps. Their classes differ.
func tiny(i int) spec {
	s := spec{namespace: string(telemetry), name: fmt.Sprintf("member-%d", i), command: []string{"/pause"}}
	switch {
	case i%50 == 0:
		// Few of them: with less CPU the runtime takes minutes to start one, and the node has two CPUs.
		s.requests = resources("150m", "16Mi")
		s.limits = s.requests
	case i%2 == 0:
		s.requests = resources("2m", "4Mi")
	}
	s.change = func(p *v1.Pod) { p.Spec.Containers[0].Image = lab.PauseImage }
	return s
}

// change gives the pool other CPUs, for itself or not, and waits until everything is in its place.
func (s *membersSoak) change(t *testing.T, i int) {
	t.Helper()
	next := slices.DeleteFunc(poolsOfTwo(), func(e exclusive) bool { return e == s.pool })
	before := s.pool
	s.pool = next[s.random.IntN(len(next))]
	begin := time.Now()
	configure(t, s.Node, s.sections())
	reload := time.Since(begin)
	passes := s.inPlace(t, i)
	placed := time.Since(begin) - reload
	s.slowest.reload, s.slowest.placed = max(s.slowest.reload, reload), max(s.slowest.placed, placed)
	t.Logf("change %d: CPUs %s, exclusive %t, to %s, %t: reload %s, then in its place after %s and %v passes", i,
		before.cpus, before.on, s.pool.cpus, s.pool.on, reload.Round(time.Millisecond), placed.Round(time.Millisecond), passes)
}

// inPlace waits until every process of a pod is on the CPUs that the pool leaves it. It returns the
// number of reconciles that have ended meanwhile. The first of them may have begun before the
// reload was over. So it is too late after the second.
func (s *membersSoak) inPlace(t *testing.T, change int) (passes float64) {
	t.Helper()
	begun, err := metric(t.Context(), s.Node, reconcilesEnded)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soakWait)
	defer cancel()
	late := ""
	err = s.Eventually(ctx, "every process on its CPUs", func(ctx context.Context) (bool, string, error) {
		ended, err := metric(ctx, s.Node, reconcilesEnded) // before the processes are read
		if err != nil {
			return false, "", err
		}
		all, err := podProcesses(ctx, s.Node)
		if err != nil {
			return false, "", err
		}
		passes = ended - begun
		wrong := s.misplaced(all)
		if len(wrong) > 0 && passes >= 2 && late == "" && change > 0 {
			late = fmt.Sprintf("%v passes after change %d: %s", passes, change, firstOf(wrong))
		}
		if len(wrong) == 0 {
			s.same(t, all, change)
		}
		return len(wrong) == 0, firstOf(wrong), nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, run(t, s.Node, monitorPath+" status | tail -20; journalctl -b -o cat --no-pager -u "+monitorUnit+" | tail -40"))
	}
	if late != "" {
		t.Error(late)
	}
	return passes
}

// misplaced lists the processes that are not on their CPUs, and says how many members run.
func (s *membersSoak) misplaced(all []podProcess) (wrong []string) {
	running := map[string]bool{}
	for _, p := range all {
		cpus := s.pool.others()
		if p.partition == telemetry {
			cpus, running[p.uid] = s.pool.cpus, true
		}
		if p.cpus != cpus {
			wrong = append(wrong, p.String()+"; want "+cpus)
		}
	}
	if len(running) != s.count {
		wrong = append(wrong, fmt.Sprintf("%d members of %d have processes", len(running), s.count))
	}
	return wrong
}

// same compares the processes of pods with those before the first change.
func (s *membersSoak) same(t *testing.T, all []podProcess, change int) {
	t.Helper()
	now := map[string]string{}
	for _, p := range all {
		now[p.pid+" "+p.name] = p.cgroup
	}
	if change == 0 {
		s.processes = now
		return
	}
	var differ []string
	for pid, cgroup := range now {
		if s.processes[pid] != cgroup {
			differ = append(differ, fmt.Sprintf("%s in %s is new", pid, cgroup))
		}
	}
	for pid, cgroup := range s.processes {
		if _, ok := now[pid]; !ok {
			differ = append(differ, fmt.Sprintf("%s in %s is gone", pid, cgroup))
		}
	}
	if len(differ) > 0 {
		t.Errorf("after change %d: %s", change, firstOf(differ))
	}
}

// firstOf returns the first lines of a list, and how many there are.
func firstOf(lines []string) string {
	const most = 5
	if len(lines) <= most {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines[:most], "; ") + fmt.Sprintf("; and %d more", len(lines)-most)
}

// figures prints what the monitor has taken, and what is left of the node's memory.
func (s *membersSoak) figures(t *testing.T, when string) {
	t.Helper()
	text := run(t, s.Node, "pid=$(systemctl show --value -p MainPID "+monitorUnit+"); echo \"$(sed -n 's/^VmRSS:[^0-9]*//p' /proc/$pid/status)"+
		" resident, $(($(systemctl show --value -p CPUUsageNSec "+monitorUnit+") / 1000000)) ms of CPU time;"+
		" the node has $(sed -n 's/^MemAvailable:[^0-9]*//p' /proc/meminfo) available after $(cut -d' ' -f1 /proc/uptime) s\"")
	passes, err := metric(t.Context(), s.Node, reconcilesEnded)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the monitor %s: %v passes, %s", when, passes, text)
}
