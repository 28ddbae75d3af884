//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	// condemnedTimes counts the ends of the monitor. Each second one is beside a container that has a
	// limit.
	condemnedTimes = 20

	// condemnedSection has a threshold that a pod crosses at the limit alone.
	condemnedSection = `systemPartition:
  memoryLimit: 512Mi
  cpuset: "0-1"
  namespaces: [kube-system]
  evictionHard: {memory.available: 14Mi}
`

	// condemnedDir is the folder on the node in which the test and its pods leave each other notes.
	condemnedDir  = "/run/condemned"
	condemnedUnit = `[Service]
EnvironmentFile=-` + condemnedDir + `/armed
ExecStart=
ExecStart=/usr/local/bin/condemner ` + monitorPath + ` run --move=restart $PARTITION_MONITOR_ARGS
ExecStopPost=+/bin/bash /usr/local/bin/condemned
`
	// condemnedLimits prints the containers of the partition that have a limit.
	condemnedLimits = `cd ` + systemCgroup + ` && for d in $(find . -name '*.scope'); do
	{ read -r limit <"$d/memory.max"; } 2>/dev/null && echo "$d $limit"
done`
	// condemnedEnd runs between the end of the monitor and its next start. It notes the limits, and
	// that the next run is not to end.
	condemnedEnd = `case $SERVICE_RESULT in signal | core-dump) ;; *) exit 0 ;; esac
rm ` + condemnedDir + `/armed || exit
(` + condemnedLimits + `) >` + condemnedDir + `/limits.new && mv ` + condemnedDir + `/limits.new ` + condemnedDir + `/limits
`
)

// condemnedPod is a pod that takes all memory of the partition when it finds its name in
// condemnedDir, most of it in one process. When the kernel has killed that process, the pod frees
// the rest.
func condemnedPod(name string, limits v1.ResourceList) spec {
	s := spec{namespace: members, name: name, requests: resources("10m", "16Mi"), limits: limits}
	// dd writes after it has read everything, to a pipe that nobody reads.
	s.command = []string{"sh", "-c", `trap 'exit 0' TERM
mkfifo /held && exec 3<>/held && cd ` + condemnedDir + ` || exit
while :; do
	until rm ` + name + ` 2>/dev/null; do sleep 0.2; done
	dd if=/dev/zero bs=300M count=1 2>/dev/null >&3 &
	large=$!
	all=$large
	while kill -0 $large 2>/dev/null; do
		dd if=/dev/zero bs=3M count=1 2>/dev/null >&3 &
		all="$all $!"
		sleep 0.1
	done
	kill $all 2>/dev/null
	wait
done`}
	s.change = func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "notes", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: condemnedDir}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "notes", MountPath: condemnedDir}}
	}
	return s
}

// TestEvictionCondemned: the monitor is killed between the lowering of a container's limit and the
// kill. Every container that lives on has the limit that it had before.
func TestEvictionCondemned(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		condemner := filepath.Join(t.TempDir(), "condemner")
		if err := testkit.Build("node-partition.io/node-partition/tests/e2e/condemner", condemner); err != nil {
			t.Fatal(err)
		}
		n, control := joined(t, flavour, condemnedSection,
			lab.File{Path: "/usr/local/bin/condemner", Source: condemner, Mode: 0o755},
			lab.File{Path: "/usr/local/bin/condemned", Data: []byte(condemnedEnd)},
			lab.File{Path: "/run/systemd/system/" + monitorUnit + ".d/60-condemned.conf", Data: []byte(condemnedUnit)},
		)
		e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
		run(t, n, "mkdir "+condemnedDir+" && systemctl daemon-reload")
		pods := []*condemned{{name: "leaker-free"}, {name: "leaker-limited", limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("600Mi")}}}
		for _, c := range pods {
			c.start(t, e)
		}
		for round := range condemnedTimes {
			pods[round%len(pods)].condemn(t, e)
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
	})
}

// condemned is a pod beside which the monitor ends.
type condemned struct {
	name   string
	limits v1.ResourceList
	scope  string // of its container, below the partition's cgroup
}

// start starts the pod. The kernel is to kill one process of it and not all.
func (c *condemned) start(t *testing.T, e *evictor) {
	t.Helper()
	pod := e.create(t, condemnedPod(c.name, c.limits))
	e.placed(t, c.name)
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	c.scope = run(t, e.Node, "cd "+systemCgroup+" && find . -name '*-"+id+".scope'")
	run(t, e.Node, "echo 0 >"+systemCgroup+"/"+c.scope+"/memory.oom.group")
}

// condemn ends the monitor when it has lowered the limit of the pod's container, and waits until
// the next run has given the eviction up: memory is back by then.
func (c *condemned) condemn(t *testing.T, e *evictor) {
	t.Helper()
	before := limitsOf(run(t, e.Node, condemnedLimits))
	run(t, e.Node, "cd "+condemnedDir+" && rm -f limits && echo CONDEMNER=1 >armed && systemctl restart "+monitorUnit+" && touch "+c.name)
	var left map[string]string
	eventually(t, e.Node, "the monitor has ended", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "cat "+condemnedDir+"/limits 2>/dev/null || true")
		left = limitsOf(out)
		return len(left) > 0, out, err
	})
	if left[c.scope] == "" || left[c.scope] == before[c.scope] {
		t.Fatalf("the monitor has ended with the limit %q of %s, which had %q", left[c.scope], c.name, before[c.scope])
	}
	becomes(t, e.Node, "systemctl is-active "+monitorUnit, "active")
	eventually(t, e.Node, "no eviction is open", func(context.Context) (bool, string, error) {
		h := e.history(t)
		return len(h.Open) == 0, fmt.Sprintf("%+v", h.Open), nil
	})
	after := limitsOf(run(t, e.Node, condemnedLimits))
	t.Logf("%s had the limit %s, was left with %s, and then has %q", c.name, before[c.scope], left[c.scope], after[c.scope])
	if !maps.Equal(after, before) {
		t.Errorf("limits before: %v\nand after: %v", before, after)
	}
}

// limitsOf parses the output of condemnedLimits.
func limitsOf(text string) map[string]string {
	limits := map[string]string{}
	for line := range strings.Lines(text) {
		scope, limit, _ := strings.Cut(strings.TrimSpace(line), " ")
		limits[scope] = limit
	}
	return limits
}
