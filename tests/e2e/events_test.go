//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/lab"
)

// The reasons of Events.
const (
	oomKilling      = "SystemPartitionOOMKilling"
	noCandidateLeft = "SystemPartitionNoEvictionCandidate"
	invalid         = "SystemPartitionConfigurationInvalid"
)

// Messages of a configuration that is refused, and of a user without rights.
const (
	refusedConfiguration = `(^the configuration is not valid|keeping the units of the last good one|what is in force stays|memoryLimit: "never")`
	refusedRequests      = "^(an event could not be created|the labels and the condition of the Node could not be written)"
)

// withStatus has the monitor write labels and the condition of the Node, too.
const withStatus = "--node-status"

// TestEvents: a cluster operator finds faults of the partition at the API server: Events on the pod
// and on the node, counted and not one each.
func TestEvents(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		var e *evictor
		part := func(p lab.Part, run func(*evictor, *testing.T)) lab.Part {
			p.Run = func(t *testing.T, _ *lab.Node) { run(e, t) }
			return p
		}
		lab.InTurn(t, func(t *testing.T) *lab.Node {
			e = newEvictor(t, flavour, lab.File{Path: monitorDefaults, Data: arguments(withStatus)})
			return e.Node
		},
			part(lab.Part{Name: "a quiet node", Complaints: []string{disconnected}}, (*evictor).quiet),
			part(lab.Part{Name: "configuration refused", Complaints: []string{refusedConfiguration}}, (*evictor).configurationRefused),
			part(lab.Part{Name: "API server gone", Complaints: []string{refusedConfiguration, "^events wait for the API server", disconnected,
				"^the labels and the condition of the Node could not be (written|removed)"}}, (*evictor).eventsWait),
			part(lab.Part{Name: "without rights", Complaints: []string{refusedConfiguration, refusedRequests}}, (*evictor).eventsRefused),
			part(lab.Part{Name: "bundle"}, (*evictor).bundle),
			part(lab.Part{Name: "edit refused", Complaints: []string{refusedConfiguration}, Spends: true}, (*evictor).editRefused),
			part(lab.Part{Name: "kernel kills", Complaints: []string{kernelKilled, "at the limit of a pod"}, Spends: true}, (*evictor).killsOnNode),
			part(lab.Part{Name: "no candidate", Complaints: []string{"all its pods are protected"}, Spends: true}, (*evictor).noCandidateOnNode),
		)
	})
}

// arguments is a file of settings. With an edit of the section the reload is the word: TestEvents
// counts reloads.
func arguments(args string) []byte {
	return []byte("PARTITION_MONITOR_ARGS=" + args + "\n" + kubeletconfig.WatchKey + "=" + kubeletconfig.WatchOff + "\n")
}

// ready waits until the monitor is ready and has read the pods. A runtime that starts may be too
// slow to list its containers, and then status exits with 1.
func ready(t *testing.T, n *lab.Node) {
	t.Helper()
	eventually(t, n, "the monitor ready, and a runtime that answers it", func(ctx context.Context) (bool, string, error) {
		_, err := n.Run(ctx, monitorPath+" status --wait --timeout=2m >/dev/null")
		return err == nil, fmt.Sprint(err), nil
	})
}

// restarted restarts the monitor with arguments, and waits until it is ready.
func (e *evictor) restarted(t *testing.T, args string) {
	t.Helper()
	restartedWith(t, e.Node, args)
}

func restartedWith(t *testing.T, n *lab.Node, args string) {
	t.Helper()
	if err := n.CopyTo(t.Context(), lab.File{Path: monitorDefaults, Data: arguments(args)}); err != nil {
		t.Fatal(err)
	}
	// The first command waits for a service that does not run yet.
	run(t, n, "systemctl stop "+monitorUnit+" && systemctl start --no-block "+monitorUnit)
	ready(t, n)
}

// events returns the Events of a reason about an object of a name.
func (e *evictor) events(ctx context.Context, reason, name string) ([]v1.Event, error) {
	list, err := e.control.Client().CoreV1().Events("").List(ctx, metav1.ListOptions{
		FieldSelector: "reason=" + reason + ",involvedObject.name=" + name,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// counted waits until there is one Event of a reason about an object, with a count of at least n.
func (e *evictor) counted(t *testing.T, reason, name string, n int32) v1.Event {
	t.Helper()
	var found []v1.Event
	eventually(t, e.Node, fmt.Sprintf("%s on %s, %d times", reason, name, n), func(ctx context.Context) (bool, string, error) {
		var err error
		found, err = e.events(ctx, reason, name)
		return len(found) == 1 && found[0].Count >= n, fmt.Sprint(found), err
	})
	if one := found[0]; one.Type != v1.EventTypeWarning || one.Source.Component != "partition-monitor" || one.Source.Host != e.Hostname {
		t.Errorf("%+v", one)
	}
	return found[0]
}

// ready returns the condition of the node when it is True.
func (e *evictor) ready(t *testing.T) v1.NodeCondition {
	t.Helper()
	var found v1.NodeCondition
	eventually(t, e.Node, "the condition True", func(ctx context.Context) (bool, string, error) {
		var err error
		found, err = e.readiness(ctx)
		return found.Status == v1.ConditionTrue, fmt.Sprintf("%+v", found), err
	})
	return found
}

// readiness returns the condition of the node, empty if it has none.
func (e *evictor) readiness(ctx context.Context) (v1.NodeCondition, error) {
	node, err := e.control.Client().CoreV1().Nodes().Get(ctx, e.Hostname, metav1.GetOptions{})
	if err != nil {
		return v1.NodeCondition{}, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == kubeapi.Ready {
			return c, nil
		}
	}
	return v1.NodeCondition{}, nil
}

// quiet: a node without a fault has the condition True, and no Event of ours.
func (e *evictor) quiet(t *testing.T) {
	c := e.ready(t)
	if c.LastHeartbeatTime.IsZero() || c.LastTransitionTime.IsZero() {
		t.Errorf("%+v", c)
	}
	for _, reason := range []string{oomKilling, noCandidateLeft, invalid} {
		list, err := e.control.Client().CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("%s: %v, %v", reason, list, err)
		}
	}
	// The kubelet writes its status and keeps a condition that it does not know.
	run(t, e.Node, "systemctl restart kubelet.service")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := e.ready(t); !after.LastTransitionTime.Equal(&c.LastTransitionTime) {
		t.Errorf("a transition from %+v to %+v", c, after)
	}
	want(t, e.Node, monitorPath+" check -o json | grep -A1 '\"check\": \"events\"' | grep -o '\"ok\"'", `"ok"`)
}

// refusedSection is a configuration that is refused.
const refusedSection = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsystemPartition: {memoryLimit: never, namespaces: [kube-system]}\n"

// refuse writes a configuration that is refused, and reloads systemd.
func (e *evictor) refuse(t *testing.T) {
	t.Helper()
	if err := e.WriteFile(t.Context(), kubeletconfig.OverridePath, []byte(refusedSection), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl daemon-reload")
}

// repair removes that configuration.
func (e *evictor) repair(t *testing.T) {
	t.Helper()
	run(t, e.Node, "rm "+kubeletconfig.OverridePath+" && systemctl daemon-reload")
	ready(t, e.Node)
}

// configurationRefused: a configuration that is refused after a repair is one more occurrence of
// the same Event on the node. Another reload of it is none.
func (e *evictor) configurationRefused(t *testing.T) {
	for n := range int32(3) {
		e.refuse(t)
		one := e.counted(t, invalid, e.Hostname, n+1)
		if one.InvolvedObject.Kind != "Node" || one.Namespace != metav1.NamespaceDefault || !strings.Contains(one.Message, "memoryLimit") {
			t.Errorf("%+v", one)
		}
		e.refuse(t) // as before: nothing new
		e.repair(t)
	}
	e.deleteEvents(t, invalid)
}

// editRefused: where the file is watched, a refused edit is one occurrence, without a reload. The
// same error after another edit is none, and after a repair it is one again.
func (e *evictor) editRefused(t *testing.T) {
	// A node of an earlier part, which had the same name, may have written one since.
	e.deleteEvents(t, invalid)
	settings := lab.File{Path: monitorDefaults, Data: []byte("PARTITION_MONITOR_ARGS=" + withStatus + "\n")}
	if err := e.CopyTo(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	reload(t, e.Node)
	becomes(t, e.Node, "systemctl is-active partition-generator-watch.path || true", "active")
	becomes(t, e.Node, stillRead, noneRead)
	const invocation = "systemctl show --value -p InvocationID " + readUnit
	read := func(command string) {
		t.Helper()
		before := run(t, e.Node, invocation)
		run(t, e.Node, command)
		becomes(t, e.Node, "test \"$("+invocation+")\" != '"+before+"' && echo read || true", "read")
		becomes(t, e.Node, stillRead, noneRead)
	}
	for n := range int32(2) {
		read(edit("in place", refusedSection))
		if one := e.counted(t, invalid, e.Hostname, n+1); !strings.Contains(one.Message, "memoryLimit") {
			t.Errorf("%+v", one)
		}
		read(edit("in place", refusedSection+"# why\n"))
		read("rm " + kubeletconfig.OverridePath)
		wantMetric(t, e.Node, refusedProblem, 0)
		if one := e.counted(t, invalid, e.Hostname, n+1); one.Count != n+1 {
			t.Errorf("%d refused edits are %d occurrences", n+1, one.Count)
		}
	}
	wantReported(t, e.Node, "what is in force stays. Repair the file: it is read again when it changes")
}

// deleteEvents removes the Events of a reason. The monitor creates them again.
func (e *evictor) deleteEvents(t *testing.T, reason string) {
	t.Helper()
	err := e.control.Client().CoreV1().Events(metav1.NamespaceDefault).
		DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
}

// eventsWait: faults while the API server is away are one Event with the whole count afterwards.
func (e *evictor) eventsWait(t *testing.T) {
	e.restarted(t, withStatus) // its counts begin at 0
	if err := e.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		e.refuse(t)
		becomes(t, e.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+
			" _PID=$(systemctl show --value -p MainPID "+monitorUnit+") | grep -c '^the configuration is not valid' || true", fmt.Sprint(n+1))
		e.repair(t)
	}
	if err := e.control.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.counted(t, invalid, e.Hostname, 3)
	e.deleteEvents(t, invalid)
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// eventsRefused: a user without the rights creates no Event. The log says so once, faults are
// counted, and pods are placed all the same.
func (e *evictor) eventsRefused(t *testing.T) {
	config, err := e.control.KubeconfigOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), "/etc/kubernetes/nobody.conf", config, 0o600); err != nil {
		t.Fatal(err)
	}
	e.restarted(t, withStatus+" --kubeconfig=/etc/kubernetes/nobody.conf")
	for n := range 3 {
		e.refuse(t)
		wantMetric(t, e.Node, `nodepartition_cluster_events_total{result="dropped"}`, float64(n+1))
		e.repair(t)
	}
	if found, err := e.events(t.Context(), invalid, e.Hostname); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	const log = "journalctl -b -o cat --no-pager -u " + monitorUnit + " | grep -c '^"
	want(t, e.Node, log+"an event could not be created.*create and patch of events'", "1")
	// The first condition is written a minute or two after the start.
	becomes(t, e.Node, log+"the labels and the condition of the Node could not be written.*patch of nodes/status' || true", "1")
	want(t, e.Node, monitorPath+" check -o json | grep -A1 '\"check\": \"events\"' | grep -o '\"warning\"'", `"warning"`)
	e.create(t, spec{namespace: members, name: "placed"})
	e.placed(t, "placed")
	e.remove(t, members, "placed")
	e.restarted(t, withStatus)
	run(t, e.Node, "rm /etc/kubernetes/nobody.conf")
}

// bundle: partition-monitor collect finds what it is to hold, and no key of the node. The generator
// has said nothing on this one.
func (e *evictor) bundle(t *testing.T) {
	const dir = "/root/bundle"
	run(t, e.Node, "mkdir "+dir+" && "+monitorPath+" collect - | tar -xz --strip-components=1 -C "+dir)
	want(t, e.Node, "grep -rl -e 'PRIVATE KEY' -e 'BEGIN CERT' "+dir+" || true", "")
	want(t, e.Node, "for secret in $(sed -n 's/.*\\(client-key-data\\|token\\): *//p' /etc/kubernetes/kubelet.conf); do "+
		"grep -rlF -e \"$secret\" "+dir+"; done || true", "")
	sizes := strings.Fields(run(t, e.Node, "cd "+dir+" && find . -size +1c -type f -printf '%P '"))
	for _, file := range []string{
		"status.json", "check.json", "metrics.txt", "options.txt", "units.txt", "journal-monitor.txt",
		"etc/default/node-partition", "run/node-partition/units/kubepods-system.slice",
	} {
		if !slices.Contains(sizes, file) {
			t.Errorf("no %s, or an empty one: %q", file, sizes)
		}
	}
	want(t, e.Node, monitorPath+" status -o json --root="+dir+" | grep -om1 limitBytes", "limitBytes")
	run(t, e.Node, "rm -r "+dir)
}

// killsOnNode: kills at the partition's limit are one Event on the node, with a count. Kills at
// another limit are none.
func (e *evictor) killsOnNode(t *testing.T) {
	e.restarted(t, withStatus+" --eviction=off")
	// The kernel may choose again before a process that it kills has freed its memory.
	run(t, e.Node, "find "+systemCgroup+" -name cgroup.procs -exec cat {} + | while read p; do echo -1000 > /proc/$p/oom_score_adj; done")
	// A container that reaches its own limit is not the partition's business.
	own := leaker("leaker-own", "20Mi")
	own.limits = resources("1", "32Mi")
	e.create(t, own)
	wantOwn := fmt.Sprintf("nodepartition_kernel_kills_total{limit=%q,partition=\"system\"}", "pod")
	eventually(t, e.Node, "a kill at the limit of the container", func(ctx context.Context) (bool, string, error) {
		value, err := metric(ctx, e.Node, wantOwn)
		return err == nil && value > 0, fmt.Sprint(value, err), nil
	})
	if found, err := e.events(t.Context(), oomKilling, e.Hostname); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	e.remove(t, members, "leaker-own")
	e.create(t, spec{
		namespace: members, name: "killed", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "256Mi"},
	})
	var one v1.Event
	for n := range int32(2) {
		one = e.killedAtLimit(t, "killed", n+1)
	}
	if one.InvolvedObject.Kind != "Node" || !strings.Contains(one.Message, "at the memory limit of the system partition") {
		t.Errorf("%+v", one)
	}
	e.remove(t, members, "killed")
}

// killedAtLimit has the kernel kill in the partition, for the n-th time. Below a limit that a
// program of a pod reaches the kernel may reclaim its text for minutes, and read it again, before
// it kills (Linux 6.12 on an emulated node: 240,000 pages in three minutes, and no kill). Below one
// that is lowered it kills other processes before the first one has ended (memory_max_write,
// mm/memcontrol.c). So a program of the node, whose text is not charged to the partition, fills it.
func (e *evictor) killedAtLimit(t *testing.T, name string, n int32) v1.Event {
	t.Helper()
	eventually(t, e.Node, name+" has allocated", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "sed -n 's/^anon //p' "+systemCgroup+"/memory.stat")
		if err != nil {
			return false, "", err
		}
		anon, err := strconv.Atoi(strings.TrimSpace(out))
		return anon >= 320<<20, out, err
	})
	run(t, e.Node, "systemd-run -q --scope --slice="+systemSlice+" dd if=/dev/zero of=/dev/shm/fill bs=1M count=250 status=none; rm /dev/shm/fill")
	return e.counted(t, oomKilling, e.Hostname, n)
}

// noCandidateOnNode: if all pods are protected, the node has an Event. When the partition is
// switched off, the condition is removed.
func (e *evictor) noCandidateOnNode(t *testing.T) {
	e.onlyProtected(t)
	one := e.counted(t, noCandidateLeft, e.Hostname, 1)
	if one.InvolvedObject.Kind != "Node" || !strings.Contains(one.Message, "all its pods are protected") {
		t.Errorf("%+v", one)
	}
	// The monitor runs with --move=restart, and restarts the member.
	configure(t, e.Node, "")
	becomes(t, e.Node, "systemctl is-active "+monitorUnit+" || true", "inactive")
	eventually(t, e.Node, "no condition", func(ctx context.Context) (bool, string, error) {
		c, err := e.readiness(ctx)
		return c.Type == "", fmt.Sprintf("%+v", c), err
	})
}
