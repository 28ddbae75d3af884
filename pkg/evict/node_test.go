package evict

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

const systemCgroup = "kubepods.slice/kubepods-system.slice"

// node is a node in a folder with a simulated kernel, runtime, kubelet and API server. It runs
// in a synctest bubble.
type node struct {
	t testing.TB
	// ctx belongs to the program; crash ends it.
	ctx    context.Context
	cancel context.CancelFunc

	*disk
	// name is the name of the partition, and slice its path below the mount.
	name  partition.Name
	slice string

	mu   sync.Mutex
	pods []*nodePod
	// limit is memory.max of the partition in bytes.
	limit uint64
	// spares is what the partition may use of the node in all, in bytes, above the threshold and the
	// margin. With silent that is not known. looks counts the times that it was read.
	spares uint64
	silent bool
	looks  int
	// cache is page cache of the partition in bytes, active and inactive, and slabs.
	cache [3]uint64
	// left is memory of pods that are gone.
	left uint64
	// listed is the result of Pods if it differs from the running pods.
	listed []Pod
	// awaited means that requests and priorities of the pods are not known yet.
	awaited bool
	// reconcileTakes is the duration of a reconcile, after which all pods are listed.
	reconcileTakes time.Duration
	passing        bool
	// ends is the time that a killed container takes to end.
	ends time.Duration
	// restarts is the delay after which the kubelet syncs a pod of which a container has ended,
	// and restarts that container if the pod has not failed; 0 for never. restarted is the
	// usage of a restarted container.
	restarts  time.Duration
	restarted uint64
	// stale means that the files are behind the usage.
	stale bool
	// kernel counts and kills at the partition's limit.
	kernel nodeKernel
	// noKill simulates a kernel without cgroup.kill; otherwise killErr is the result of a kill.
	noKill  bool
	killErr error
	// beforeKill is called with the container's ID.
	beforeKill func(id string)
	scopesErr  error
	stopErr    error
	asked      int // times that the runtime was asked to stop a container
	// marked holds the UIDs of the pods that are marked as evicted for good.
	marked map[string]bool
	// api answers the n-th call, from 1.
	api      func(ctx context.Context, n int) error
	apiCalls int
	noAPI    bool
	// confirm answers the n-th call to confirm.
	confirm  func(ctx context.Context, n int) error
	confirms int
	// available is called when the program calls Available.
	available func()
	// overwrites is the number of times that the kubelet overwrites the status at the API server
	// although it is about to sync the pod. overwritten counts all times that it did so.
	overwrites, overwritten int
	// drops is the number of times that the kubelet has dropped the reason of a pod that has ended.
	drops int
	// fails is the time that the kubelet takes to end a failed pod after a container of it has
	// ended.
	fails time.Duration
	// lower is LowerLimit.
	lower func() error

	// did lists the calls to the node in order, events the calls of Events.
	did, events []string
	// madeFailed counts by pod how often the API server has made it Failed without being
	// overwritten.
	madeFailed map[string]int
	evicted    []Eviction
	// confirmed holds by UID the result of the last confirmation.
	confirmed map[string]bool
	// resting holds the UIDs of pods for which this run of the program has called Rest, which the
	// reporter calls and not the goroutine that decides.
	resting map[string]bool

	// The program ends at the call crashAt, counted from 1, or at the first named crashIn; never at
	// 0 and "".
	crashAt, calls int
	crashIn        string
	crashed        string
}

// disk is the folder of a node. One node after the other may use it: most of its files already
// have the right content.
type disk struct {
	root    string
	writing sync.Mutex
	// written holds the contents of the files by path, and open the open ones.
	written map[string]string
	open    map[string]*os.File
}

func newDisk(tb testing.TB) *disk {
	tb.Helper()
	// In memory, as cgroups are: the tests create tens of thousands of files.
	// tests/mutants sets TMPDIR to a folder there, and removes what ended tests leave in it.
	memory := "/dev/shm"
	if strings.HasPrefix(os.TempDir(), memory) {
		memory = os.TempDir()
	}
	root, err := os.MkdirTemp(memory, "evict-test-")
	if err != nil {
		return &disk{root: tb.TempDir(), written: map[string]string{}, open: map[string]*os.File{}}
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			tb.Error(err)
		}
	})
	return &disk{root: root, written: map[string]string{}, open: map[string]*os.File{}}
}

type nodePod struct {
	Pod
	containers []*nodeContainer
	// failed is the state at the API server; ending means that the kubelet follows it.
	failed, ending bool
	// pendingSyncs counts syncs of the kubelet that are still to come because a container has
	// ended.
	pendingSyncs int
	// rest is its usage beside its containers, and leaves the part that outlives the pod: files on a
	// tmpfs of the node.
	rest, leaves uint64
	// cache is as in node. The slabs are freed when its containers end.
	cache [3]uint64
	// min and low are its memory.min and memory.low.
	min, low uint64
	// scoreAdj is the oom_score_adj of its containers.
	scoreAdj int64
}

type nodeContainer struct {
	id, name, cgroup string
	uses             uint64
	running          bool
	// immortal processes are in the state D.
	immortal bool
	starts   int
	// dying means that it has SIGKILL, and still holds its memory. marked means that the kernel has
	// selected it.
	dying, marked bool
}

// crash is the value that an ending program panics with.
type crash struct{}

func newNode(tb testing.TB, d *disk) *node {
	tb.Helper()
	return newNodeOf(tb, d, partition.System)
}

// newNodeOf returns a node of which one partition is looked at. Nodes with one disk are one node.
func newNodeOf(tb testing.TB, d *disk, name partition.Name) *node {
	tb.Helper()
	n := &node{
		t: tb, disk: d, name: name, slice: partition.CgroupPath(name.Slice()),
		ends: 3 * time.Millisecond, fails: 100 * time.Millisecond, madeFailed: map[string]int{}, confirmed: map[string]bool{},
		limit: 1000 * mi,
	}
	n.boot()
	n.files(n.slice, map[string]string{
		"memory.max": number(n.limit), "memory.events": oomEvents(0, 0), "memory.events.local": oomEvents(0, 0),
	})
	n.refresh()
	return n
}

// boot gives a starting program its context.
func (n *node) boot() {
	n.ctx, n.cancel = context.WithCancel(n.t.Context())
	n.crashed, n.resting = "", map[string]bool{}
}

// busyNode has 950 of 1000 MiB in use, 500 of them by the first pod in eviction order.
func busyNode(tb testing.TB, d *disk) *node {
	tb.Helper()
	n := newNode(tb, d)
	n.start(sized("greedy", 0, 0, 0), 300, 200)
	n.start(sized("modest", 0, 0, 350), 300)
	n.start(sized("critical", partition.NodeCritical, 0, 0), 150)
	return n
}

// number has a fixed length, so that a file can be overwritten in one write while it is read.
func number(bytes uint64) string { return fmt.Sprintf("%020d\n", bytes) }

func oomEvents(oom, oomKill int) string {
	return fmt.Sprintf("low 0\nhigh 0\nmax 0\noom %020d\noom_kill %020d\noom_group_kill 0\n", oom, oomKill)
}

func (n *node) files(cgroup string, files map[string]string) {
	n.t.Helper()
	n.writing.Lock()
	defer n.writing.Unlock()
	dir := filepath.Join(n.root, cgroup)
	if n.written[dir] == "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			n.t.Error(err)
		}
		n.written[dir] = "a folder"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if n.written[path] == text && text != "" {
			continue
		}
		n.written[path] = text
		file := n.open[path]
		if file == nil {
			var err error
			if file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
				n.t.Error(err)
				continue
			}
			n.open[path] = file
		}
		if _, err := file.WriteAt([]byte(text), 0); err != nil {
			n.t.Error(err)
		}
	}
}

// path returns the path of a cgroup's file.
func (d *disk) path(cgroup, name string) string { return filepath.Join(d.root, cgroup, name) }

// has reports whether a file was written and not removed.
func (d *disk) has(path string) bool {
	d.writing.Lock()
	defer d.writing.Unlock()
	return d.written[path] != ""
}

func (d *disk) remove(path string) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	path = filepath.Join(d.root, path)
	below := func(other string) bool { return other == path || strings.HasPrefix(other, path+"/") }
	maps.DeleteFunc(d.written, func(other, _ string) bool { return below(other) })
	maps.DeleteFunc(d.open, func(other string, file *os.File) bool { return below(other) && file.Close() == nil })
	return os.RemoveAll(path)
}

func (n *node) remove(cgroup string) {
	if err := n.disk.remove(cgroup); err != nil {
		n.t.Error(err)
	}
}

// start starts a pod whose containers use so many MiB.
func (n *node) start(p Pod, uses ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	slice := strings.TrimSuffix(n.name.Slice(), ".slice") + "-pod" + p.UID + ".slice"
	p.QoS, p.Cgroup, p.GracePeriod = v1.PodQOSBurstable, n.slice+"/"+slice, 30*time.Second
	pod := &nodePod{Pod: p}
	for i, use := range uses {
		pod.containers = append(pod.containers, &nodeContainer{name: fmt.Sprint("c", i+1), uses: uint64(use) * mi})
	}
	n.pods = append(n.pods, pod)
	for _, c := range pod.containers {
		n.startContainer(pod, c)
	}
	n.refresh()
}

func (n *node) startContainer(p *nodePod, c *nodeContainer) {
	c.starts++
	c.id = p.UID + "." + c.name
	if c.starts > 1 {
		c.id += fmt.Sprint(".", c.starts)
	}
	c.cgroup, c.running = p.Cgroup+"/cri-containerd-"+c.id+".scope", true
	n.files(c.cgroup, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n", "memory.events": oomEvents(0, 0), "memory.max": "max\n"})
}

// refresh writes the usage into the files.
func (n *node) refresh() {
	n.stale = false
	stat := func(cache [3]uint64) string {
		return "anon 0\ninactive_file " + number(cache[0]) + "active_file " + number(cache[1]) + "slab_reclaimable " + number(cache[2])
	}
	all := n.cache
	for _, p := range n.pods {
		for i, cache := range p.cache {
			all[i] += cache
		}
	}
	// First of all, because a poll may read in between: memory of a pod that is back is the
	// partition's.
	n.files(n.slice, map[string]string{"memory.current": number(n.sum()), "memory.stat": stat(all)})
	for _, p := range n.pods {
		populated := 0
		for _, c := range p.containers {
			if c.running {
				populated = 1
				n.files(c.cgroup, map[string]string{"memory.current": number(c.uses), "memory.stat": stat([3]uint64{})})
			}
		}
		if p.min > 0 || p.low > 0 {
			n.files(p.Cgroup, map[string]string{"memory.min": number(p.min), "memory.low": number(p.low), "memory.max": "max\n"})
		}
		n.files(p.Cgroup, map[string]string{
			"memory.current": number(p.uses()), "memory.stat": stat(p.cache), "cgroup.events": fmt.Sprintf("populated %d\nfrozen 0\n", populated),
		})
	}
}

// sum returns the usage of the partition.
func (n *node) sum() uint64 {
	sum := n.left + n.cache[0] + n.cache[1] + n.cache[2]
	for _, p := range n.pods {
		sum += p.uses()
	}
	return sum
}

// uses returns the usage of a pod.
func (p *nodePod) uses() uint64 {
	sum := p.rest + p.cache[0] + p.cache[1] + p.cache[2]
	for _, c := range p.containers {
		if c.running {
			sum += c.uses
		}
	}
	return sum
}

// set changes the node.
func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	n.refresh()
}

func (n *node) pod(name string) *nodePod {
	for _, p := range n.pods {
		if p.Name == name {
			return p
		}
	}
	n.t.Fatalf("no pod %s", name)
	return nil
}

// running returns the IDs of the running containers.
func (n *node) running() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []string
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.running {
				ids = append(ids, c.id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// exit ends a container after a time, as its cgroup does: it is empty first, and the runtime then
// removes it. The kubelet restarts the container under another ID.
func (n *node) exit(cgroup string, after time.Duration) bool {
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.cgroup != cgroup || !c.running {
				continue
			}
			if after <= n.ends {
				n.strains(c, after)
			}
			if c.immortal {
				return true
			}
			time.AfterFunc(after, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				if c.cgroup == cgroup && c.running {
					n.exited(p, c)
				}
			})
			return true
		}
	}
	return false
}

func (n *node) exited(p *nodePod, c *nodeContainer) {
	n.kernel.ooms++ // the last allocation before its memory is back
	n.writeCounts()
	c.running, c.dying, c.marked, p.cache[2] = false, false, false, 0
	cgroup := c.cgroup
	n.refresh() // memory is back before the cgroup is empty: a process frees it while it ends
	n.files(cgroup, map[string]string{"cgroup.events": "populated 0\nfrozen 0\n"})
	time.AfterFunc(20*time.Millisecond, func() { n.remove(cgroup) })
	delay := n.restarts
	if delay == 0 {
		delay = n.fails
	}
	p.pendingSyncs++
	time.AfterFunc(delay, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		p.pendingSyncs--
		switch {
		case p.ending:
		case p.failed:
			n.end(p, n.fails-delay)
		case n.restarts > 0:
			c.uses = n.restarted
			n.startContainer(p, c)
			n.refresh()
		}
	})
}

// end does what the kubelet does with a pod that it has found to have failed.
func (n *node) end(p *nodePod, after time.Duration) {
	p.ending = true
	time.AfterFunc(max(0, after), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, c := range p.containers {
			if c.running && c.immortal {
				return
			}
		}
		for _, c := range p.containers {
			if c.running {
				n.exited(p, c)
			}
		}
		n.left += p.leaves
		n.pods = slices.DeleteFunc(n.pods, func(other *nodePod) bool { return other == p })
		n.remove(p.Cgroup)
		n.refresh()
	})
}

// fail does what the API server does with a pod that is made Failed. The kubelet follows when
// it syncs the pod, after a container of it has ended and not before. The status of containers
// that it has restarted meanwhile overwrites the failure.
func (n *node) fail(uid string) {
	for _, p := range n.pods {
		if p.UID != uid || p.failed {
			continue
		}
		p.failed = true
		n.madeFailed[uid]++
		overwrites := n.overwrites > 0
		if overwrites {
			n.overwrites--
		}
		time.AfterFunc(n.fails/2, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			again := slices.ContainsFunc(p.containers, func(c *nodeContainer) bool { return c.running && c.starts > 1 })
			if p.failed && !p.ending && (overwrites || again && p.pendingSyncs == 0) {
				p.failed = false
				n.madeFailed[uid]--
				n.overwritten++
			}
		})
	}
}

// failedTimes returns the number of times that the first pod in eviction order was made Failed
// without being overwritten.
func (n *node) failedTimes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.madeFailed["greedy"]
}

// call counts calls at which a program may end, and reports whether it ends at this one.
func (n *node) call(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.crashed != "" {
		return true
	}
	if n.calls++; n.calls != n.crashAt && (n.crashIn == "" || what != n.crashIn) {
		return false
	}
	n.crashed = what
	n.cancel()
	return true
}

// inMain is a call from the goroutine that decides.
func (n *node) inMain(what string) {
	if n.call(what) {
		panic(crash{})
	}
}

// mark stores the pods that are being evicted.
func (n *node) mark(uids map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marked = maps.Clone(uids)
}

// state returns the path of the state file of the partition.
func (n *node) state() string {
	what := "evictions"
	if n.name != partition.System {
		what += "-" + string(n.name)
	}
	return filepath.Join(n.root, what+".json")
}

// options returns the options of the manager of the partition.
func (n *node) options() Options {
	return Options{
		Partition: n.name,
		Cgroups:   cgroups.FS(n.root),
		Inventory: Inventory{Pods: n.list, Known: n.isKnown, Refresh: n.refreshPods, Scopes: n.scopes, Rest: n.restOf, Spare: n.spare},
		Actions: Actions{
			Kill: n.kill, Runtime: (*nodeRuntime)(n), Mark: n.mark, API: (*nodeAPI)(n), LowerLimit: n.lowerLimit, Reclaim: n.reclaim,
		},
		Store:  Store(n.state()),
		Events: (*nodeEvents)(n),
	}
}

func (n *node) manager(c Settings) *Manager {
	m, err := New(n.options())
	if err != nil {
		n.t.Fatal(err)
	}
	m.SetConfig(c)
	return m
}

// started returns a manager that has read its state.
func (n *node) started(c Settings) *Manager {
	m := n.manager(c)
	m.executor.load(m.present().Cooldown)
	return m
}

// run is Run for a while. It polls at the times of one partition alone.
func (n *node) run(m *Manager, d time.Duration) {
	end := time.Now().Add(d)
	for n.ctx.Err() == nil && time.Now().Before(end) {
		n.flush()
		next := m.step(n.ctx)
		<-time.After(min(next, time.Until(end)))
	}
}

// stop ends a program.
func (n *node) stop(m *Manager) {
	n.cancel()
	m.background.Wait()
	m.watch.close()
}
