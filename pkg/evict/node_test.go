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

	"nodepartition/internal/cgroupfs"
)

const partition = "kubepods.slice/kubepods-system.slice"

// node is a node in a folder, whose kernel, runtime, kubelet and API server do what they are asked for. It runs in a synctest bubble.
type node struct {
	t testing.TB
	// ctx is that of the program; crash ends it.
	ctx    context.Context
	cancel context.CancelFunc

	*disk

	mu   sync.Mutex
	pods []*nodePod
	// cache is page cache of the partition in bytes, active and inactive, and slabs.
	cache [3]uint64
	// listed is what Pods answers where it is not what runs.
	listed []Pod
	// passTakes is how long a pass takes after which all pods are listed.
	passTakes time.Duration
	passing   bool
	// ends is how long what is killed takes to end.
	ends time.Duration
	// restarts is when the kubelet looks at a pod of which a container has ended, and starts that again where the pod has not failed: 0 for
	// never, and restarted what it uses then.
	restarts  time.Duration
	restarted uint64
	// noKill is a kernel without cgroup.kill, killErr what it answers otherwise.
	noKill  bool
	killErr error
	// beforeKill is called with the container's ID.
	beforeKill func(id string)
	scopesErr  error
	stopErr    error
	// marked are the UIDs of the pods that are said to be evicted for good.
	marked map[string]bool
	// api answers the n-th call, from 1.
	api      func(ctx context.Context, n int) error
	apiCalls int
	noAPI    bool
	// confirm answers the n-th call to confirm.
	confirm  func(ctx context.Context, n int) error
	confirms int
	// available is called when the program asks whether there is an API server.
	available func()
	// overwrites is how often the kubelet undoes what the API server was told although it is about to look at the pod, and overwritten how
	// often it has undone it, for whatever reason.
	overwrites, overwritten int
	// fails is how long the kubelet takes to end a pod that has failed, from when a container of it has ended.
	fails time.Duration
	// lower is LowerLimit.
	lower func() error

	// did is what the node was asked to do, in order, and said what was told.
	did, said []string
	// told counts by pod how often the API server has made it Failed, and nobody has undone that.
	told    map[string]int
	evicted []Eviction
	// confirmed tells by UID whether that was found to be so when it was last asked.
	confirmed map[string]bool
	// resting are the UIDs of pods of which this run of the program has asked what is left: it is not the goroutine that decides who does.
	resting map[string]bool

	// crashAt is the call at which the program ends, counted from 1; 0 for never.
	crashAt, calls int
	crashed        string
}

// disk is the folder of a node. One after the other may use it: most of what they find in it is as they need it.
type disk struct {
	root    string
	writing sync.Mutex
	// written is what is in the files, by path.
	written map[string]string
}

func newDisk(tb testing.TB) *disk {
	tb.Helper()
	// In memory, as cgroups are: the tests make tens of thousands of files.
	root, err := os.MkdirTemp("/dev/shm", "evict-test-")
	if err != nil {
		return &disk{root: tb.TempDir(), written: map[string]string{}}
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			tb.Error(err)
		}
	})
	return &disk{root: root, written: map[string]string{}}
}

type nodePod struct {
	Pod
	containers []*nodeContainer
	// failed is what the API server has, and ending that the kubelet follows it.
	failed, ending bool
	// looks are those of the kubelet that are to come, because a container has ended.
	looks int
	// rest is what it uses beside its containers.
	rest uint64
}

type nodeContainer struct {
	id, name, cgroup string
	uses             uint64
	running          bool
	// immortal is in the state D.
	immortal bool
	starts   int
}

// crash is what a program panics with that ends.
type crash struct{}

func newNode(tb testing.TB, d *disk) *node {
	tb.Helper()
	n := &node{
		t: tb, disk: d, ends: 3 * time.Millisecond, fails: 100 * time.Millisecond, told: map[string]int{}, confirmed: map[string]bool{},
	}
	n.boot()
	n.files(partition, map[string]string{
		"memory.max": number(1000 * mi), "memory.events": events(0, 0), "memory.events.local": events(0, 0), "memory.pressure": "",
	})
	n.refresh()
	return n
}

// boot gives a program that starts its context.
func (n *node) boot() {
	n.ctx, n.cancel = context.WithCancel(n.t.Context())
	n.crashed, n.resting = "", map[string]bool{}
}

// busyNode has 950 of 1000 MiB in use, 500 of them by the pod that goes first.
func busyNode(tb testing.TB, d *disk) *node {
	tb.Helper()
	n := newNode(tb, d)
	n.start(sized("greedy", 0, 0, 0), 300, 200)
	n.start(sized("modest", 0, 0, 350), 300)
	n.start(sized("critical", nodeCritical, 0, 0), 150)
	return n
}

// number is always as long, so that a file can be written over in one go while it is read.
func number(bytes uint64) string { return fmt.Sprintf("%020d\n", bytes) }

func events(oom, oomKill int) string {
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
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			n.t.Error(err)
			continue
		}
		if _, err := file.WriteAt([]byte(text), 0); err != nil {
			n.t.Error(err)
		}
		file.Close()
	}
}

func (d *disk) remove(path string) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	path = filepath.Join(d.root, path)
	maps.DeleteFunc(d.written, func(other, _ string) bool { return other == path || strings.HasPrefix(other, path+"/") })
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
	slice := "kubepods-system-pod" + p.UID + ".slice"
	p.QoS, p.Cgroup, p.GracePeriod = v1.PodQOSBurstable, partition+"/"+slice, 30*time.Second
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
	n.files(c.cgroup, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n"})
}

// refresh writes what is in use.
func (n *node) refresh() {
	stat := func(cache [3]uint64) string {
		return "anon 0\ninactive_file " + number(cache[0]) + "active_file " + number(cache[1]) + "slab_reclaimable " + number(cache[2])
	}
	sum := n.cache[0] + n.cache[1] + n.cache[2]
	for _, p := range n.pods {
		ofPod, populated := p.rest, 0
		for _, c := range p.containers {
			if c.running {
				ofPod += c.uses
				populated = 1
				n.files(c.cgroup, map[string]string{"memory.current": number(c.uses), "memory.stat": stat([3]uint64{})})
			}
		}
		n.files(p.Cgroup, map[string]string{
			"memory.current": number(ofPod), "memory.stat": stat([3]uint64{}), "cgroup.events": fmt.Sprintf("populated %d\nfrozen 0\n", populated),
		})
		sum += ofPod
	}
	n.files(partition, map[string]string{"memory.current": number(sum), "memory.stat": stat(n.cache)})
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

// running are the IDs of the containers that run.
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

// exit ends a container after a time, as its cgroup does: it is empty first, and then removed by the runtime, and the kubelet starts the
// container again under another ID.
func (n *node) exit(cgroup string, after time.Duration) bool {
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.cgroup != cgroup || !c.running {
				continue
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
	c.running = false
	cgroup := c.cgroup
	n.files(cgroup, map[string]string{"cgroup.events": "populated 0\nfrozen 0\n"})
	n.refresh()
	time.AfterFunc(20*time.Millisecond, func() { n.remove(cgroup) })
	delay := n.restarts
	if delay == 0 {
		delay = n.fails
	}
	p.looks++
	time.AfterFunc(delay, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		p.looks--
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

// end is what the kubelet does with a pod that it has found to have failed.
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
		n.pods = slices.DeleteFunc(n.pods, func(other *nodePod) bool { return other == p })
		n.remove(p.Cgroup)
		n.refresh()
	})
}

// fail is what the API server does with a pod that is made Failed. The kubelet sees that when it looks at the pod: after a container of it has
// ended, and not before. What it has started again meanwhile it writes over it.
func (n *node) fail(uid string) {
	for _, p := range n.pods {
		if p.UID != uid || p.failed {
			continue
		}
		p.failed = true
		n.told[uid]++
		overwrites := n.overwrites > 0
		if overwrites {
			n.overwrites--
		}
		time.AfterFunc(n.fails/2, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			again := slices.ContainsFunc(p.containers, func(c *nodeContainer) bool { return c.running && c.starts > 1 })
			if p.failed && !p.ending && (overwrites || again && p.looks == 0) {
				p.failed = false
				n.told[uid]--
				n.overwritten++
			}
		})
	}
}

// toldTimes is how often the pod that goes first has been made Failed, and is still.
func (n *node) toldTimes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told["greedy"]
}

// call counts what can be the last thing that a program does, and says whether it is.
func (n *node) call(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.crashed != "" {
		return true
	}
	if n.calls++; n.calls != n.crashAt {
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

// mark takes over who is being evicted.
func (n *node) mark(uids map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marked = maps.Clone(uids)
}

func (n *node) manager(c Config) *Manager {
	m := New(Options{
		Cgroups: cgroupfs.FS(n.root), Slice: partition, Pods: n.list, Refresh: n.refreshPods, Scopes: n.scopes, Rest: n.restOf, Kill: n.kill, Runtime: (*nodeRuntime)(n),
		Mark: n.mark, API: (*nodeAPI)(n), Store: Store(filepath.Join(n.root, "evictions.json")), LowerLimit: n.lowerLimit,
		Events: (*nodeEvents)(n),
	})
	m.SetConfig(c)
	return m
}

// started is a manager that has read its state.
func (n *node) started(c Config) *Manager {
	m := n.manager(c)
	m.load()
	return m
}

// run is Run for a while, without what wakes it before its time: the fake clock stands still while it waits for the kernel.
func (n *node) run(m *Manager, d time.Duration) {
	end := time.Now().Add(d)
	for n.ctx.Err() == nil && time.Now().Before(end) {
		next := m.step(n.ctx)
		m.watch.reported = false
		<-time.After(min(next, time.Until(end)))
	}
}

// stop ends a program.
func (n *node) stop(m *Manager) {
	n.cancel()
	m.background.Wait()
	m.watch.close()
}
