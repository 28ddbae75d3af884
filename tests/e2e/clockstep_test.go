//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/lab"
)

// TestClockStep: the clock of a running node is set back by eight hours, and then ahead by a day.
// An RTC in local time and a resumed machine do that. Each time everything works as before.
func TestClockStep(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n, control := joined(t, flavour, evictionSection)
		e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
		for i, by := range []string{"8 hours ago", "next day"} {
			step := func(t *testing.T) {
				t.Helper()
				run(t, n, "systemctl stop systemd-timesyncd.service 2>/dev/null; date -s '"+by+"'")
			}
			name := func(what string) string { return what + "-" + strconv.Itoa(i) }
			t.Run(by, func(t *testing.T) {
				t.Run("changed section", func(t *testing.T) { e.changedAfter(t, name("later"), step) })
				t.Run("trial", func(t *testing.T) { e.triedOver(t, name("tried"), step) })
				t.Run("deferred limit", func(t *testing.T) { e.deferredOver(t, name("static-holder"), step) })
				t.Run("cooldown", func(t *testing.T) { e.cooldownOver(t, name("leaker"), step) })
			})
		}
	})
}

// alsoIn is evictionSection with one more namespace.
func alsoIn(namespace string) string {
	return strings.Replace(evictionSection, "[kube-system]", "[kube-system, "+namespace+"]", 1)
}

// changedAfter: a section that is changed after the step is followed, and so is its next change.
// The pod is created after the step: the kubelet takes the container with the latest time for the
// present one, also if that has ended (1.37.0).
func (e *evictor) changedAfter(t *testing.T, namespace string, step func(*testing.T)) {
	step(t)
	s := spec{namespace: namespace, name: namespace}
	apply(t, e.Node, s)
	configure(t, e.Node, alsoIn(namespace))
	inSlice(t, e.Node, namespace, namespace, partition.System, v1.PodQOSBestEffort)
	configure(t, e.Node, evictionSection)
	inSlice(t, e.Node, namespace, namespace, partition.Default, v1.PodQOSBestEffort)
	remove(t, e.Node, s)
}

// triedOver: a trial ends when its time is over, although the clock is set meanwhile.
func (e *evictor) triedOver(t *testing.T, namespace string, step func(*testing.T)) {
	const file, seconds = "/root/partition.yaml", 60
	document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + alsoIn(namespace)
	if err := e.CopyTo(t.Context(), lab.File{Path: file, Data: []byte(document), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	began := e.uptime(t)
	run(t, e.Node, monitorPath+" try "+file+" --for="+strconv.Itoa(seconds)+"s")
	step(t)
	s := spec{namespace: namespace, name: namespace}
	apply(t, e.Node, s)
	over := "test -e " + kubeletconfig.TrialPath + " || echo over"
	if out := run(t, e.Node, over); out != "" && e.uptime(t) < began+seconds {
		t.Errorf("the trial ended with the step of the clock")
	}
	becomes(t, e.Node, over, "over")
	inSlice(t, e.Node, namespace, namespace, partition.Default, v1.PodQOSBestEffort)
	if after := e.uptime(t) - began; after < seconds {
		t.Errorf("the trial ended after %.0f s of %d", after, seconds)
	}
	remove(t, e.Node, s)
}

// uptime returns the seconds since the boot of the node.
func (e *evictor) uptime(t *testing.T) float64 {
	t.Helper()
	seconds, err := strconv.ParseFloat(run(t, e.Node, "cut -d' ' -f1 /proc/uptime"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// deferredOver: a limit below the usage is deferred, the clock is set, and the limit comes into
// force as soon as the usage allows it. The pod is static, so it is not evicted for the limit.
func (e *evictor) deferredOver(t *testing.T, name string, step func(*testing.T)) {
	s := spec{namespace: members, name: name, requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "200Mi"}}
	apply(t, e.Node, s)
	e.placed(t, name+"-"+e.Hostname)
	configure(t, e.Node, strings.NewReplacer("512Mi", "128Mi", "128Mi", "16Mi").Replace(evictionSection))
	want(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
	step(t)
	remove(t, e.Node, s)
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(128<<20))
	configure(t, e.Node, evictionSection)
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
}

// cooldownOver: a pod of a DaemonSet is evicted for good, and the clock is set. The next pod of the
// set is in the cooldown of the first, and restarted.
func (e *evictor) cooldownOver(t *testing.T, name string, step func(*testing.T)) {
	d := drawn{name: name, api: true, pick: middle}
	_, stop := e.daemonSet(t, d, e.template(d).Spec)
	first := e.times(t, d, 1)[0]
	step(t)
	// The clock has no part in their order.
	for _, v := range e.times(t, d, 2) {
		if want := map[bool]evict.Method{true: evict.Evict, false: evict.Restart}[v.UID == first.UID]; v.Method != want {
			t.Errorf("%s: want the first pod evicted for good, and the next one restarted:\n%+v", v.Name, v)
		}
	}
	stop()
}
