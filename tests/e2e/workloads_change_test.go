//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

const (
	// changePods is the number of pods of TestWorkloadChanges; CHANGE_PODS in the environment replaces
	// it. stayingPods of them come with the last change and stay, one of each group. The others end by
	// themselves or are deleted. To create and remove a pod takes seven seconds of CPU time of an
	// emulated node (tests/lab/README.md).
	changePods, stayingPods = 60, 4
	// changeEvery is the number of pods between two changes, and changeAlive the number of pods at a
	// time: a change meets six of them, in any state.
	changeEvery, changeAlive = 2, 6
	// settling bounds the waits for pods: they are moved one at a time, and an emulated node takes
	// half a minute for each.
	settling = 10 * time.Minute
)

// askers is the group whose pods ask for their type by annotation.
const askers partition.Name = "askers"

// groups lists the namespaces of the pods. Each but the last has a partition, now and then.
func groups() []string {
	return []string{string(telemetry), string(batch), string(askers), v1.NamespaceDefault}
}

// layout is the configuration of partitions for the groups.
type layout struct {
	// names has the present name of the partition of a group. A group without one is not in it.
	names map[string]partition.Name
	// exclusive is the group whose partition has CPU 1 for itself; empty for none.
	exclusive string
}

func (l layout) sections() string {
	var text strings.Builder
	// A moved pod starts again without the kubelet's back-off.
	text.WriteString("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n" +
		"systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n")
	if len(l.names) > 0 {
		text.WriteString("workloadPartitions:\n")
	}
	for _, group := range slices.Sorted(maps.Keys(l.names)) {
		cpus, right := "", "namespaces"
		if group == l.exclusive {
			cpus = `cpuset: "1", exclusive: true, `
		}
		if group == string(askers) {
			right = "allowedNamespaces"
		}
		fmt.Fprintf(&text, "  %s: {%smemoryLimit: 384Mi, %s: [%s]}\n", l.names[group], cpus, right, group)
	}
	return text.String()
}

// partition returns where the pods of a group belong. Those that ask for the type belong nowhere
// while it has another name.
func (l layout) partition(group string) partition.Name {
	name, ok := l.names[group]
	switch {
	case group == members:
		return partition.System
	case !ok, group == string(askers) && name != askers:
		return partition.Default
	default:
		return name
	}
}

// changing is a node whose partitions change while pods start and end.
type changing struct {
	*workloads
	layout
	random *rand.Rand
	// ending is the number of pods that end.
	ending int
	// used holds all names that a partition has had, and moves the number of changes of the place of a
	// group.
	used  map[partition.Name]bool
	moves map[string]int32
	// waited is the time that was spent waiting for the ends of pods, one after the other.
	waited time.Duration
}

// TestWorkloadChanges: partitions are added, removed, renamed, and given CPUs for themselves, in
// random order, while sixty pods of three groups and of none start and end. No pod fails, only
// those are restarted whose place has changed, and at the end each process is in its place.
func TestWorkloadChanges(t *testing.T) {
	seed := seedFrom(t, "CHANGES_SEED")
	ending := max(fromEnvironment(t, "CHANGE_PODS", changePods)-stayingPods, changeEvery)
	t.Logf("CHANGE_PODS=%d", ending+stayingPods)
	// On bookworm pods are moved live.
	onEach(t, kinds([]string{"trixie", "bookworm"}, "trixie"), func(t *testing.T, flavour string) {
		begin := layout{names: map[string]partition.Name{string(telemetry): telemetry, string(askers): askers}}
		c := changing{
			workloads: newWorkloads(t, flavour, begin.sections()), layout: begin, random: rand.New(rand.NewPCG(seed, 0)),
			ending: ending, used: map[partition.Name]bool{telemetry: true, askers: true}, moves: map[string]int32{},
		}
		began := time.Now()
		over := func(what string) {
			t.Logf("%s after %s", what, time.Since(began).Round(time.Second))
		}
		c.residents(t)
		over("the pods that stay are there")
		c.throughout(t, rand.New(rand.NewPCG(seed, 1)))
		over("all other pods have begun, and all that end have ended")
		c.settled(t)
		over("each process is in its place")
		c.untouched(t, partition.System, partition.Default)
		c.restarts(t)
		c.leftovers(t)
		over("nothing is left over")
		want(t, c.Node, "sed -n 's/^oom_kill //p' "+kubepodsCgroup+"/memory.events", "0")
		want(t, c.Node, "journalctl -b -k -o cat --no-pager | grep -c oom-kill:constraint= || true", "0")
		want(t, c.Node, "systemctl show --value -p ActiveState -p NRestarts "+monitorUnit+" | sort | xargs", "0 active")
	})
}

// pod returns a pod of a group.
func (c *changing) pod(group, name string, i int) spec {
	s := spec{namespace: group, name: name}
	switch i % 3 {
	case 0:
		s.requests = resources("20m", "16Mi")
	case 1:
		// With less the runtime takes minutes to start it: its own work is charged to the pod. An
		// annotation does not make a Guaranteed pod a member.
		if s.requests = resources("150m", "32Mi"); group != string(askers) {
			s.limits = s.requests
		}
	}
	if group == string(askers) {
		return asking(s, string(askers))
	}
	return s
}

// residents creates a pod of each group that stays, and waits until they are in their places.
func (c *changing) residents(t *testing.T) {
	t.Helper()
	for i, group := range groups() {
		if group != v1.NamespaceDefault {
			c.namespace(t, partition.Name(group))
		}
		c.submit(t, c.pod(group, "resident", i)) // they start side by side
	}
	for _, group := range groups() {
		if _, err := c.control.WaitPod(t.Context(), group, "resident"); err != nil {
			t.Fatal(err)
		}
	}
	c.settled(t)
	c.before = c.containers(t)
}

// throughout changes the configuration while pods start and end. The last change removes one
// partition at least, and gives CPUs to one alone.
func (c *changing) throughout(t *testing.T, random *rand.Rand) {
	t.Helper()
	changes := c.ending / changeEvery
	due, over := make(chan struct{}, changes), make(chan error, 1)
	go func() { over <- c.churn(t.Context(), random, due) }()
	begin := time.Now()
	for i := range changes {
		select {
		case <-due:
		case err := <-over:
			t.Fatal(err)
		}
		if i < changes-1 {
			c.change()
		} else {
			c.last()
		}
		t.Logf("change %d after %s: %v, exclusive %q", i+1, time.Since(begin).Round(time.Second), c.names, c.exclusive)
		configure(t, c.Node, c.sections())
	}
	changed := time.Since(begin)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes in %s, and %d pods in %s, of which %s for waits until pods end", changes, changed.Round(time.Second),
		c.ending+stayingPods, time.Since(begin).Round(time.Second), c.waited.Round(time.Second))
}

// change makes a random change to the layout.
func (c *changing) change() {
	before := c.layout
	c.names = maps.Clone(c.names)
	group := groups()[c.random.IntN(len(groups())-1)]
	_, has := c.names[group]
	switch action := c.random.IntN(3); {
	case !has:
		c.name(group, c.random.IntN(2) == 0)
	case action == 0:
		delete(c.names, group)
	case action == 1:
		c.name(group, c.names[group] != partition.Name(group))
	case c.exclusive == group:
		c.exclusive = ""
	default:
		c.exclusive = group
	}
	c.note(before)
}

// last makes the last change.
func (c *changing) last() {
	before := c.layout
	c.names = map[string]partition.Name{}
	order := c.random.Perm(len(groups()) - 1)
	for _, i := range order[:2] {
		c.name(groups()[i], c.random.IntN(4) > 0)
	}
	c.exclusive = groups()[order[0]]
	c.note(before)
}

// name gives the partition of a group its own name or another one.
func (c *changing) name(group string, own bool) {
	name := partition.Name(group)
	if !own {
		name += "-next"
	}
	c.names[group], c.used[name] = name, true
}

// note counts the groups whose place differs from before.
func (c *changing) note(before layout) {
	if _, has := c.names[c.exclusive]; !has {
		c.exclusive = ""
	}
	for _, group := range groups() {
		if before.partition(group) != c.partition(group) {
			c.moves[group]++
		}
	}
}

// churn creates all pods but the residents, and ends most of them. It sends to due before each
// change.
func (c *changing) churn(ctx context.Context, random *rand.Rand, due chan<- struct{}) error {
	api := c.control.Client().CoreV1()
	var alive []spec
	end := func(i int) error {
		s := alive[i]
		alive = slices.Delete(alive, i, i+1)
		began := time.Now()
		defer func() { c.waited += time.Since(began) }()
		err := c.endedWell(ctx, s, strings.HasPrefix(s.name, "short"))
		return errors.Join(err, api.Pods(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{}))
	}
	for i := range c.ending {
		// Half of them end by themselves, and the others are deleted in any state.
		name, command := fmt.Sprintf("deleted-%d", i), "sleep 2147483647 & wait"
		if random.IntN(2) == 0 {
			name, command = fmt.Sprintf("short-%d", i), fmt.Sprintf("sleep %d & wait", 1+random.IntN(5))
		}
		s := c.pod(groups()[i%len(groups())], name, i)
		s.command = []string{"sh", "-c", "trap 'exit 0' TERM; " + command}
		s.change = once(s.change)
		if err := c.begin(ctx, s); err != nil {
			return err
		}
		if alive = append(alive, s); len(alive) == changeAlive {
			if err := end(random.IntN(changeAlive / 2)); err != nil {
				return err
			}
		}
		if i%changeEvery == changeEvery-1 {
			due <- struct{}{}
		}
	}
	for i := range stayingPods {
		if err := c.begin(ctx, c.pod(groups()[i%len(groups())], fmt.Sprintf("stays-%d", i), i)); err != nil {
			return err
		}
	}
	for len(alive) > 0 {
		if err := end(0); err != nil {
			return err
		}
	}
	return nil
}

// once changes a pod further: it runs once. The monitor never restarts it.
func once(change func(*v1.Pod)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if change != nil {
			change(p)
		}
		p.Spec.RestartPolicy = v1.RestartPolicyNever
	}
}

// endedWell returns an error if a pod has failed. It waits for the end of a pod that ends by
// itself.
func (c *changing) endedWell(ctx context.Context, s spec, byItself bool) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	return c.Eventually(ctx, s.namespace+"/"+s.name+" succeeds", func(ctx context.Context) (bool, string, error) {
		pod, err := c.control.Client().CoreV1().Pods(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		seen := fmt.Sprintf("%s %s %+v", pod.Status.Phase, pod.Status.Reason, pod.Status.ContainerStatuses)
		return pod.Status.Phase != v1.PodFailed && (!byItself || pod.Status.Phase == v1.PodSucceeded), seen, nil
	})
}

// settled waits until each process of a pod is in the partition of its group, and no process is on
// the CPU of another.
func (c *changing) settled(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settling)
	defer cancel()
	if err := c.Eventually(ctx, "each process in its place", func(ctx context.Context) (bool, string, error) {
		running, err := c.running(ctx)
		if err != nil {
			return false, "", err
		}
		all, err := podProcesses(ctx, c.Node)
		seen := map[string]bool{}
		var wrong []string
		for _, p := range all {
			group, known := running[p.uid]
			seen[p.uid] = seen[p.uid] || !p.inSandbox()
			if !known || !p.inSandbox() && p.partition != c.partition(group) || !c.mayRunOn(p) {
				wrong = append(wrong, group+": "+p.String())
			}
		}
		for uid, group := range running {
			if !seen[uid] {
				wrong = append(wrong, "no process of "+group+" "+uid)
			}
		}
		return len(wrong) == 0, strings.Join(wrong, "; "), err
	}); err != nil {
		t.Fatal(err)
	}
}

// mayRunOn reports whether a process has the CPUs that the layout gives it.
func (c *changing) mayRunOn(p podProcess) bool {
	switch {
	case c.exclusive == "":
		return p.cpus == "0-1"
	case p.partition == c.names[c.exclusive]:
		return p.cpus == "1"
	default:
		return p.cpus == "0"
	}
}

// running returns the namespaces of the pods of the node by their UIDs as slices have them. It
// returns an error while one is being deleted, or does not run.
func (c *changing) running(ctx context.Context) (map[string]string, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || p.Status.Phase != v1.PodRunning {
			return nil, fmt.Errorf("%s/%s is %s, deletion at %v", p.Namespace, p.Name, p.Status.Phase, p.DeletionTimestamp)
		}
		all[partition.EscapeUID(string(p.UID))] = p.Namespace
	}
	list, err := c.control.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) != len(all) {
		err = fmt.Errorf("the API server has %d pods, and the kubelet %d", len(list.Items), len(all))
	}
	return all, err
}

// restarts: a pod is restarted to be moved, and so at most as often as its place has changed, and
// once more for each restart of which the monitor logs that it was in vain: the runtime ends the
// connection with a monitor that is too slow for it, on a very busy node.
func (c *changing) restarts(t *testing.T) {
	t.Helper()
	for _, group := range groups() {
		pod, err := c.control.Client().CoreV1().Pods(group).Get(t.Context(), "resident", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) != 1 {
			t.Fatal(group, err)
		}
		count := pod.Status.ContainerStatuses[0].RestartCount
		vain := parse(t, run(t, c.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" | "+
			"grep -E '^(a restart did not move|moving) a pod' | grep -c 'namespace="+group+" pod=resident ' || true"))
		t.Logf("%s: %d restarts of its resident in %d changes of its place, %d in vain", group, count, c.moves[group], vain)
		if int(count) > int(c.moves[group])+int(vain) {
			t.Errorf("the resident of %s was restarted %d times; want at most once for each of %d changes of its place", group, count, c.moves[group])
		}
	}
}

// leftovers: nothing is left of partitions that are no more, and nothing of pods that are gone.
func (c *changing) leftovers(t *testing.T) {
	t.Helper()
	present := slices.Collect(maps.Values(c.names))
	former := slices.DeleteFunc(slices.Collect(maps.Keys(c.used)), func(name partition.Name) bool { return slices.Contains(present, name) })
	stemOf := func(name partition.Name) string { return strings.TrimSuffix(name.Slice(), ".slice") }
	cgroupsOf := func(name partition.Name) string {
		return fmt.Sprintf("find %s -type d '(' -name %s -o -name '%s-*' ')'", cgroupRoot, name.Slice(), stemOf(name))
	}
	for _, name := range former {
		becomes(t, c.Node, cgroupsOf(name), "")
	}
	reload(t, c.Node) // the last one ran while their slices existed
	for _, name := range present {
		want(t, c.Node, "systemctl is-active "+name.Slice(), "active")
	}
	for _, name := range former {
		stem := stemOf(name)
		becomes(t, c.Node, fmt.Sprintf("systemctl list-units --all --plain --no-legend %s '%s-*'", name.Slice(), stem), "")
		want(t, c.Node, cgroupsOf(name), "")
		// A drop-in stays, by which slices outlive the shutdown.
		want(t, c.Node, fmt.Sprintf("find /run/systemd /run/node-partition/units /etc/systemd -name '%s.slice*' -o -name '%s-*' | "+
			"grep -vE '^/run/(systemd/generator|node-partition/units)/%s-?\\.slice\\.d$' || true", stem, stem, stem), "")
		becomes(t, c.Node, fmt.Sprintf("busybox wget -q -O - %s/metrics | grep -c 'partition=%q' || true", monitorURL, name), "0")
	}
	running, err := c.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	becomes(t, c.Node, "find "+kubepodsCgroup+" -name 'kubepods-*pod*.slice' | sed 's/.*-pod//;s/[.]slice//' | sort -u | xargs",
		strings.Join(slices.Sorted(maps.Keys(running)), " "))
}
