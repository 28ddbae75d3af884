package node

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
)

const (
	mebi     = 1 << 20
	capacity = 2000 * mebi // of the node
)

// inside is the prefix of all cgroups in the partition, and of no other.
var inside = partition.CgroupPath(partition.System.Slice()) + "/"

// placed returns a pod on the node without containers. partitionSlice means that its slice in the
// partition exists.
func placed(name string, q v1.PodQOSClass, partitionSlice bool) podmove.Pod {
	uid := "uid-of-" + name
	return podmove.Pod{
		UID: uid, Namespace: "kube-system", Name: name, QoS: q, Exists: true, Ready: true,
		DefaultCgroup: podmove.PodCgroup{Slice: partition.PodSlice(partition.Default, q, uid), Exists: true, Limits: cgroups.NoLimits},
		Partitions: []podmove.PodCgroup{{
			Partition: partition.System, Slice: partition.PodSlice(partition.System, q, uid), Exists: partitionSlice, Limits: cgroups.NoLimits,
		}},
	}
}

// with adds a container that runs in a slice of the pod.
func with(p podmove.Pod, slice podmove.PodCgroup, name string, r cri.Resources) podmove.Pod {
	p.Containers = append(p.Containers, podmove.Container{
		ID: "id-" + name, Name: name, Running: true, Unit: "cri-containerd-id-" + name + ".scope", Slice: slice.Slice, Resources: r,
	})
	return p
}

func inGuest(name string, q v1.PodQOSClass, resources ...cri.Resources) podmove.Pod {
	p := placed(name, q, true)
	for i, r := range resources {
		p = with(p, p.Partitions[0], string(rune('a'+i)), r)
	}
	return p
}

// told returns pods as the kubelet's Pods API reports them.
func told(pods ...*kubelet.Pod) map[types.UID]*kubelet.Pod {
	known := map[types.UID]*kubelet.Pod{}
	for _, p := range pods {
		known[types.UID(p.UID)] = p
	}
	return known
}

// one returns the only pod of an inventory.
func one(t *testing.T, p podmove.Pod, known map[types.UID]*kubelet.Pod) evict.Pod {
	t.Helper()
	pods := Candidates(partition.System, []podmove.Pod{p}, known, capacity)
	if len(pods) != 1 {
		t.Fatalf("%s: %d pods; want one", p.Name, len(pods))
	}
	return pods[0]
}

// TestInventoryInPartition: no pod outside the partition is a candidate, because its eviction would
// not free memory of the partition. A pod whose sandbox runs may have a container that no reconcile
// has seen. evict.Measure drops it if no process runs in its slice.
func TestInventoryInPartition(t *testing.T) {
	t.Parallel()
	var found []podmove.Pod
	add := func(p podmove.Pod) { found = append(found, p) }
	none := cri.Resources{}

	user := placed("shop", v1.PodQOSBestEffort, false)
	user.Namespace = "web"
	add(with(user, user.DefaultCgroup, "shop", none))

	misplaced := placed("misplaced", v1.PodQOSBurstable, false)
	add(with(misplaced, misplaced.DefaultCgroup, "a", none))

	// Its slice is empty: its containers are still outside.
	prepared := placed("prepared", v1.PodQOSBurstable, true)
	add(with(prepared, prepared.DefaultCgroup, "a", none))

	add(placed("no-containers", v1.PodQOSBurstable, true))

	completed := inGuest("completed", v1.PodQOSBurstable, none)
	completed.Containers[0].Running, completed.Ready = false, false
	add(completed)

	exited := inGuest("exited", v1.PodQOSBurstable, none)
	exited.Containers[0].Running = false
	add(exited)

	unplaced := inGuest("without-a-cgroup", v1.PodQOSBurstable, none)
	unplaced.Containers[0].Unit, unplaced.Containers[0].Slice = "", ""
	add(unplaced)

	left := inGuest("left-over", v1.PodQOSBurstable, none)
	left.Exists = false
	add(left)

	gone := inGuest("slice-is-gone", v1.PodQOSBurstable, none)
	gone.Partitions[0].Exists = false
	add(gone)

	// The slice, left from an earlier state, has another class than the pod, and the containers are in
	// it.
	other := inGuest("other-class", v1.PodQOSBestEffort, none)
	other.Partitions[0].Slice = partition.PodSlice(partition.System, v1.PodQOSBurstable, other.UID)
	add(other)

	add(inGuest("dns", v1.PodQOSBurstable, none))

	half := placed("half", v1.PodQOSBurstable, true) // one container in each
	half = with(half, half.DefaultCgroup, "outside", none)
	half = with(half, half.Partitions[0], "inside", none)
	add(half)

	known := make([]*kubelet.Pod, 0, len(found))
	for _, p := range found {
		known = append(known, &kubelet.Pod{UID: p.UID, QoS: p.QoS})
	}
	for name, known := range map[string]map[types.UID]*kubelet.Pod{"with the Pods API": told(known...), "without": nil} {
		var names []string
		for _, p := range Candidates(partition.System, found, known, capacity) {
			names = append(names, p.Name)
			if !strings.HasPrefix(p.Cgroup, inside) {
				t.Errorf("%s: %s would be measured at %s", name, p.Name, p.Cgroup)
			}
			for _, c := range p.Containers {
				if !strings.HasPrefix(c.Cgroup, inside) || filepath.Dir(c.Cgroup) != p.Cgroup || c.Name == "outside" {
					t.Errorf("%s: container %s of %s would be killed at %s", name, c.Name, p.Name, c.Cgroup)
				}
			}
		}
		if want := []string{"prepared", "no-containers", "completed", "exited", "without-a-cgroup", "other-class", "dns", "half"}; !slices.Equal(names, want) {
			t.Errorf("%s: %v; want %v", name, names, want)
		}
	}
	if pods := Candidates(partition.System, nil, nil, capacity); len(pods) > 0 {
		t.Errorf("before the first pass: %v", pods)
	}
}

// TestContainerInTwoScopes: a live move that ended half-way leaves a container in two scopes. The
// one in the partition counts, in either order.
func TestContainerInTwoScopes(t *testing.T) {
	t.Parallel()
	for _, swapped := range []bool{false, true} {
		p := placed("dns", v1.PodQOSBurstable, true)
		c := podmove.Container{
			ID: "1", Name: "dns", Running: true, Unit: "cri-containerd-1.scope", Slice: p.DefaultCgroup.Slice,
			AlsoUnit: "partition-cri-containerd-1.scope", AlsoSlice: p.Partitions[0].Slice,
		}
		if swapped {
			c.Unit, c.Slice, c.AlsoUnit, c.AlsoSlice = c.AlsoUnit, c.AlsoSlice, c.Unit, c.Slice
		}
		p.Containers = []podmove.Container{c}
		got := one(t, p, nil).Containers
		want := []evict.Container{{ID: "1", Name: "dns", Cgroup: partition.CgroupPath(p.Partitions[0].Slice) + "/partition-cri-containerd-1.scope"}}
		if !slices.EqualFunc(got, want, func(a, b evict.Container) bool { return a.ID == b.ID && a.Name == b.Name && a.Cgroup == b.Cgroup }) {
			t.Errorf("swapped %t: %+v; want %+v", swapped, got, want)
		}
	}
}

// TestContainersByState: containers that have ended are left out. One that is being created is
// included.
func TestContainersByState(t *testing.T) {
	t.Parallel()
	p := inGuest("dns", v1.PodQOSBurstable, cri.Resources{}, cri.Resources{}, cri.Resources{})
	p.Containers[0].Running = false
	p.Containers[1].Running, p.Containers[1].Creating = false, true
	got := one(t, p, nil).Containers
	if !slices.EqualFunc(got, []string{"b", "c"}, func(c evict.Container, name string) bool { return c.Name == name }) {
		t.Errorf("%+v; want b and c", got)
	}
}

// TestKubeletValues: with the Pods API, the kubelet's values are used, and none of the runtime.
func TestKubeletValues(t *testing.T) {
	t.Parallel()
	p := inGuest("dns", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 500, MemoryLimit: 7 * mebi}, cri.Resources{OOMScoreAdj: -997})
	p.Partitions[0].Limits.MemoryMax = 9 * mebi
	k := &kubelet.Pod{
		UID: p.UID, Priority: 2_000_000_000, MemoryRequest: 170 * mebi, Owner: "uid-of-replicaset", GracePeriod: 90 * time.Second,
		Containers: map[string]kubelet.Container{"a": {MemoryRequest: 70 * mebi}, "b": {MemoryRequest: 30 * mebi}},
	}
	got := one(t, p, told(k))
	if got.UID != p.UID || got.Namespace != "kube-system" || got.Name != "dns" || got.QoS != v1.PodQOSBurstable || got.Cgroup != partition.CgroupPath(p.Partitions[0].Slice) {
		t.Errorf("%+v; want who it is and where", got)
	}
	if got.Priority != k.Priority || got.Request != 170*mebi || got.Owner != "uid-of-replicaset" || got.GracePeriod != 90*time.Second {
		t.Errorf("%+v; want the kubelet's figures", got)
	}
	if got.Estimated || got.Static || got.Terminating {
		t.Errorf("%+v; want neither estimated, static nor terminating", got)
	}
	if a, b := got.Containers[0], got.Containers[1]; a.Request != 70*mebi || b.Request != 30*mebi {
		t.Errorf("%d and %d for the containers", a.Request, b.Request)
	}
	// An ephemeral container has no request, and is not in the kubelet's list.
	if debug := one(t, with(p, p.Partitions[0], "debug", cri.Resources{OOMScoreAdj: 500}), told(k)).Containers[2]; debug.Name != "debug" || debug.Request != 0 {
		t.Errorf("%+v", debug)
	}
	// A grace period of 0 and a negative priority are values, too.
	if got := one(t, p, told(&kubelet.Pod{UID: p.UID, Priority: -5})); got.GracePeriod != 0 || got.Priority != -5 {
		t.Errorf("%+v; want no grace, priority -5", got)
	}
}

// TestTerminatingAndStatic: only the kubelet reports that a pod terminates. The kubelet or the
// sandbox reports that it is static.
func TestTerminatingAndStatic(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		known               kubelet.Pod
		sandboxStatic       bool
		terminating, static bool
	}{
		"running":                     {},
		"deleted":                     {known: kubelet.Pod{Terminating: true}, terminating: true},
		"evicted, or failed":          {known: kubelet.Pod{Ended: true}, terminating: true},
		"static":                      {known: kubelet.Pod{Origin: partition.Origin{Static: true}}, sandboxStatic: true, static: true},
		"static by the kubelet alone": {known: kubelet.Pod{Origin: partition.Origin{Static: true}}, static: true},
		"static by its sandbox alone": {sandboxStatic: true, static: true},
	} {
		p := inGuest("dns", v1.PodQOSBurstable, cri.Resources{})
		p.Static, test.known.UID = test.sandboxStatic, p.UID
		if got := one(t, p, told(&test.known)); got.Terminating != test.terminating || got.Static != test.static {
			t.Errorf("%s: terminating %t, static %t", name, got.Terminating, got.Static)
		}
	}
	// Without the kubelet, the sandbox decides.
	p := inGuest("etcd", v1.PodQOSBurstable, cri.Resources{})
	p.Static = true
	if !one(t, p, nil).Static {
		t.Error("not static without the kubelet")
	}
}

// TestEstimates: without the kubelet, requests and priorities are estimated from the runtime's
// values.
func TestEstimates(t *testing.T) {
	t.Parallel()
	const step = capacity / 1000 // memory per point of the score
	for name, test := range map[string]struct {
		pod      podmove.Pod
		limit    uint64 // of the pod's slice, 0 for none
		request  uint64
		priority int32
	}{
		"guaranteed: its limit":          {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997, MemoryLimit: 50 * mebi}), request: 50 * mebi},
		"guaranteed: its limits":         {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997, MemoryLimit: 50 * mebi}, cri.Resources{OOMScoreAdj: -997, MemoryLimit: 10 * mebi}), limit: 60 * mebi, request: 60 * mebi},
		"guaranteed: the limit of a pod": {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997}), limit: 64 * mebi, request: 64 * mebi},
		// Each container may use all of it, but it is requested once.
		"guaranteed: that of a pod, for two": {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997}, cri.Resources{OOMScoreAdj: -997}), limit: 64 * mebi, request: 64 * mebi},
		"guaranteed without any":             {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997})},
		"burstable: its score":               {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 900, MemoryLimit: 1000 * mebi}), request: 100*step + step/2},
		"burstable: their scores":            {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 900}, cri.Resources{OOMScoreAdj: 990}), request: 110*step + step},
		"burstable without a request":        {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 999})},
		"burstable, half of it":              {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 900}, cri.Resources{OOMScoreAdj: 1000}), request: 100*step + step/2},
		// The request is estimated to half a step, and is never above the limit.
		"burstable at its limit": {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 900, MemoryLimit: 100 * step}), limit: 100 * step, request: 100 * step},
		"best effort":            {pod: inGuest("p", v1.PodQOSBestEffort, cri.Resources{OOMScoreAdj: 1000})},
		"node-critical":          {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: -997}), priority: 2_000_001_000},
		"node-critical, by one":  {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 999}, cri.Resources{OOMScoreAdj: -997}), priority: 2_000_001_000},
		// A guaranteed pod has that score with any priority.
		"guaranteed, unknown priority": {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997, MemoryLimit: mebi}), request: mebi},
		// The kubelet gives no container a score of 0: the runtime reported none. The whole node's memory
		// is not an estimate.
		"a runtime without figures":                      {pod: inGuest("p", v1.PodQOSBurstable, cri.Resources{}, cri.Resources{})},
		"a runtime without figures, guaranteed by limit": {pod: inGuest("p", v1.PodQOSGuaranteed, cri.Resources{}), limit: 64 * mebi, request: 64 * mebi},
	} {
		if test.limit > 0 {
			test.pod.Partitions[0].Limits.MemoryMax = test.limit
		}
		got := one(t, test.pod, nil)
		if got.Request != test.request || got.Priority != test.priority || !got.Estimated || got.GracePeriod != 30*time.Second || got.Terminating {
			t.Errorf("%s: request %d, priority %d, %+v; want %d, %d, estimated, a grace of 30s", name, got.Request, got.Priority, got, test.request, test.priority)
		}
	}
	// A container outside the partition counts for the priority of its pod, and not for its request.
	p := inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 999})
	p = with(p, p.DefaultCgroup, "outside", cri.Resources{OOMScoreAdj: -997})
	if got := one(t, p, nil); got.Priority != 2_000_001_000 || got.Request != 0 {
		t.Errorf("%+v", got)
	}
	// The memory of the node is unknown if it could not be read.
	unknown := Candidates(partition.System, []podmove.Pod{inGuest("p", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: 900})}, nil, 0)
	if len(unknown) != 1 || unknown[0].Request != 0 || !unknown[0].Estimated {
		t.Errorf("%+v", unknown)
	}
}

// TestOwners: the cooldown is for pods that a controller creates again. A pod without a controller
// is its own owner, within its namespace.
func TestOwners(t *testing.T) {
	t.Parallel()
	owner := func(namespace, name string, known *kubelet.Pod) string {
		p := inGuest(name, v1.PodQOSBurstable, cri.Resources{})
		p.Namespace = namespace
		if known == nil {
			return one(t, p, nil).Owner
		}
		known.UID = p.UID
		return one(t, p, told(known)).Owner
	}
	bare := func(namespace, name string) string { return owner(namespace, name, &kubelet.Pod{}) }
	if got := bare("kube-system", "etcd"); got != "kube-system/etcd" {
		t.Errorf("a pod without a controller: %q", got)
	}
	// A name that looks like a controller's is not used if the kubelet reports no controller.
	if bare("kube-system", "dns-abcde") == bare("kube-system", "dns-fghij") || bare("a", "p") == bare("b", "p") {
		t.Error("two pods without a controller are one")
	}
	if a, b := owner("x", "dns-1", &kubelet.Pod{Owner: "7"}), owner("x", "dns-2", &kubelet.Pod{Owner: "7"}); a != b || a != "7" {
		t.Errorf("%q and %q of one controller", a, b)
	}
	if a, b := owner("kube-system", "kube-proxy-x7k2p", nil), owner("kube-system", "kube-proxy-bcdfg", nil); a != b || a == "" {
		t.Errorf("%q and %q of one DaemonSet", a, b)
	}
	if owner("a", "kube-proxy-x7k2p", nil) == owner("b", "kube-proxy-x7k2p", nil) {
		t.Error("pods of two namespaces are one")
	}
}

// TestContainerScopes: the scopes of containers are returned by container, and no other unit.
func TestContainerScopes(t *testing.T) {
	t.Parallel()
	root := cgroups.FS(t.TempDir())
	slice := partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, "1"))
	for _, unit := range []string{"partition-cri-containerd-c2.scope", "crio-conmon-c3.scope", "some.service"} {
		if err := os.MkdirAll(root.Path(slice+"/"+unit), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	scopes := ContainerScopes(root)
	if got, err := scopes(slice); err != nil || !maps.Equal(got, map[string]string{"c2": slice + "/partition-cri-containerd-c2.scope"}) {
		t.Errorf("%v, %v; want the scope of c2", got, err)
	}
	if got, err := scopes(slice + "/gone.slice"); err != nil || len(got) > 0 {
		t.Errorf("a slice that is gone: %v, %v", got, err)
	}
}

// TestContainers: all containers of a pod are returned, in either partition, and both cgroups
// after a half-way move. Containers of other pods are not.
func TestContainers(t *testing.T) {
	t.Parallel()
	p := placed("dns", v1.PodQOSBurstable, true)
	p = with(p, p.Partitions[0], "inside", cri.Resources{})
	p = with(p, p.DefaultCgroup, "outside", cri.Resources{})
	p = with(p, p.Partitions[0], "both", cri.Resources{})
	p.Containers[2].AlsoUnit, p.Containers[2].AlsoSlice = "partition-both.scope", p.DefaultCgroup.Slice
	p.Containers = append(p.Containers, podmove.Container{ID: "id-nowhere", Name: "nowhere", Running: true})
	other := inGuest("other", v1.PodQOSBurstable, cri.Resources{})
	defaultSlice, partitionSlice := partition.CgroupPath(p.DefaultCgroup.Slice), partition.CgroupPath(p.Partitions[0].Slice)
	want := []evict.Container{
		{ID: "id-inside", Name: "inside", Cgroup: partitionSlice + "/cri-containerd-id-inside.scope"},
		{ID: "id-outside", Name: "outside", Cgroup: defaultSlice + "/cri-containerd-id-outside.scope"},
		{ID: "id-both", Name: "both", Cgroup: partitionSlice + "/cri-containerd-id-both.scope"},
		{ID: "id-both", Name: "both", Cgroup: defaultSlice + "/partition-both.scope"},
	}
	found := []podmove.Pod{other, p}
	if got := CandidateContainers(found, p.UID); !slices.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	for _, uid := range []string{"", "uid-of-no-pod"} {
		if got := CandidateContainers(found, uid); len(got) > 0 {
			t.Errorf("of %q: %+v", uid, got)
		}
	}
	if got := CandidateContainers(nil, p.UID); len(got) > 0 {
		t.Errorf("before the first pass: %+v", got)
	}
}
