//go:build node

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/tests/lab"
)

// TestEvictionBurst tests memory that the node lends to the partition, and needs again.
func TestEvictionBurst(t *testing.T) {
	// The last two are of the kill.
	evictions(t, eviction{lab.Part{Name: "burst", Complaints: []string{
		evicts, disconnected,
		"^partition-monitor.service: Main process exited, code=killed", "^partition-monitor.service: Failed with result 'signal'",
	}}, (*evictor).burst})
}

// burst: a member passes the threshold and is not evicted while the node has memory to spare, also
// over a reload of systemd and a kill of the monitor. When a user pod takes the memory of the node,
// it is, and the user pod is left alone. The kernel's limit stays as the generator has written it.
func (e *evictor) burst(t *testing.T) {
	limit := "cat " + systemCgroup + "/memory.max"
	configure(t, e.Node, strings.Replace(evictionSection, "cpuset:", "memoryBurst: 512Mi\n  cpuset:", 1))
	most := strconv.Itoa(1024 << 20)
	becomes(t, e.Node, limit, most)
	// Page cache above memoryLimit is taken back, though the kernel's limit has room for it.
	e.create(t, spec{namespace: members, name: "reader-burst", requests: resources("10m", "8Mi"), command: []string{"/podtool", "read", "/tmp", "20Mi", "700Mi"}})
	stat := "awk '/^workingset_refault_file/ { print ($2 > 1000 ? \"taken back\" : $2) }' " + systemCgroup + "/memory.stat"
	becomes(t, e.Node, stat, "taken back")
	e.remove(t, members, "reader-burst")
	s := spec{namespace: members, name: "leaker-burst", requests: resources("10m", "16Mi"), command: []string{"/podtool", "grow", "8Mi", "10Mi", "360Mi"}}
	e.create(t, s)
	becomes(t, e.Node, monitorPath+" status | grep -c '(512Mi lent by the node)'", "1")
	becomes(t, e.Node, fmt.Sprintf("[ $(cat %s/memory.current) -gt %d ] && echo full", systemCgroup, 400<<20), "full")
	want(t, e.Node, monitorPath+" check -v | grep -c 'kubepods-system.slice is active with its limits'", "1")

	for _, disturbance := range []string{
		"systemctl daemon-reload", "systemctl kill -s KILL " + monitorUnit,
		// As while a package is replaced.
		"systemctl stop " + monitorUnit + " && systemctl daemon-reload && systemctl start " + monitorUnit,
	} {
		run(t, e.Node, disturbance)
		becomes(t, e.Node, "systemctl is-active "+monitorUnit+" partition-generator-apply.service | tr '\\n' ' '", "active inactive")
		want(t, e.Node, "sleep 5; "+limit, most)
		if got := len(e.evictions(t, "leaker-burst")); got != 0 {
			t.Fatalf("%d evictions after %s", got, disturbance)
		}
	}

	// The kubelet evicts below 100 MiB, and the margin is a twentieth of 4 GiB.
	free := run(t, e.Node, "awk '/^MemFree:|^Inactive.file/ { n += $2 } END { print int(n / 1024) - 300 }' /proc/meminfo")
	e.create(t, spec{namespace: "default", name: "leaker-user", requests: resources("10m", "1Mi"), command: []string{"/podtool", "alloc", free + "Mi"}})
	e.evicted(t, "leaker-burst")
	t.Logf("evicted beside a user pod of %s MiB", free)
	user, err := e.control.Client().CoreV1().Pods("default").Get(t.Context(), "leaker-user", metav1.GetOptions{})
	if err != nil || user.Status.Phase == v1.PodFailed {
		t.Errorf("the user pod: %v, %v", user.Status, err)
	}
	want(t, e.Node, limit, most)
	e.remove(t, "default", "leaker-user") // first: the node has little left for anything else
	e.remove(t, members, "leaker-burst")
	configure(t, e.Node, evictionSection)
	becomes(t, e.Node, limit, strconv.Itoa(512<<20))
	e.unharmed(t)
}
