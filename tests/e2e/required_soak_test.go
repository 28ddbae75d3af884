//go:build node

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/tests/lab"
)

// startsFolder has a file for each part of TestSoakRequired, with a line for each container that
// has started: its cgroup, as its first process saw it.
const startsFolder = "/run/starts"

// disturbances are what TestSoakRequired does to the monitor again and again, with pauses of random
// length, so that starts meet each instant of it.
var disturbances = map[string]string{
	"killed": "pause 1 8; systemctl kill --kill-whom=main --signal=KILL " + monitorUnit + "; ((RANDOM % 3)) && until systemctl -q is-active " +
		monitorUnit + "; do sleep 1; done",
	// The runtime gives a plugin up after two seconds.
	"stopped": stopFor("5") + "; pause 3 15",
	"slow":    stopFor("3") + "; pause 1 6",
	"upgraded": "cp -p " + monitorPath + " " + monitorPath + ".new && mv " + monitorPath + ".new " + monitorPath +
		" && pause 1 8 && systemctl restart " + monitorUnit,
}

// stopFor returns a command that stops the monitor for some seconds.
func stopFor(seconds string) string {
	const signal = "systemctl kill --kill-whom=main --signal="
	return signal + "STOP " + monitorUnit + " && sleep " + seconds + " && " + signal + "CONT " + monitorUnit
}

// TestSoakRequired: while the monitor is killed, stopped, slow or upgraded again and again, members
// that require it start, and none of their containers starts outside. While it is dead, static pods
// and user pods start. STARTS in the environment replaces the number of each.
func TestSoakRequired(t *testing.T) {
	starts := fromEnvironment(t, "STARTS", 50)
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		r := newRequired(t, flavour, lab.File{Path: "/etc/default/node-partition", Data: []byte("PARTITION_MONITOR_ARGS=--nri-validate\n")})
		r.require(t)
		run(t, r.Node, "mkdir "+startsFolder)
		for _, part := range []string{"killed", "stopped", "slow", "upgraded"} {
			t.Run(part, func(t *testing.T) { r.disturbed(t, part, starts) })
		}
		run(t, r.Node, "systemctl stop "+monitorUnit)
		t.Run("static", func(t *testing.T) {
			r.undisturbed(t, members, "static", starts, func(t *testing.T, s spec) {
				if _, err := r.ApplyPod(t.Context(), s.manifest(t)); err != nil {
					t.Fatal(err)
				}
			}, func(t *testing.T, s spec) { remove(t, r.Node, s) })
		})
		t.Run("user", func(t *testing.T) {
			r.undisturbed(t, metav1.NamespaceDefault, "user", starts, r.submit, func(t *testing.T, s spec) { r.delete(t, s.namespace, s.name) })
		})
	})
}

// starter returns a pod whose containers write their cgroup to the file of a part, and end. Only a
// privileged container sees its whole path.
func starter(namespace, part string, i int) spec {
	return spec{
		namespace: namespace, name: fmt.Sprintf("%s-%d", part, i), command: []string{"sh", "-c", "cat /proc/self/cgroup >>/starts/" + part},
		change: func(pod *v1.Pod) {
			privileged := true
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			pod.Spec.Volumes = []v1.Volume{{Name: "starts", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: startsFolder}}}}
			pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "starts", MountPath: "/starts"}}
			pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: &privileged}
		},
	}
}

// inARow returns a pod that has its container more often, as init containers.
func (s spec) inARow(containers int) spec {
	change := s.change
	s.change = func(pod *v1.Pod) {
		change(pod)
		for i := range containers - 1 {
			c := pod.Spec.Containers[0].DeepCopy()
			c.Name = fmt.Sprintf("init-%d", i)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, *c)
		}
	}
	return s
}

// disturbed: the containers of a pod start one after the other. So most starts are in a sandbox
// that is there, as those of a container that comes back.
func (r required) disturbed(t *testing.T, part string, starts int) {
	refused := r.refusals(t)
	run(t, r.Node, "cat >/run/disturb <<'end'\npause() { sleep $(($1 + RANDOM % ($2 - $1))).$((RANDOM % 10)); }\n"+
		"while :; do "+disturbances[part]+"; echo >>/run/"+part+"; done\nend\nsystemd-run --unit=disturb bash /run/disturb")
	began := time.Now()
	const inARow, atOnce = 5, 5
	pods := 0
	for ended := range starts {
		for ; pods < starts/inARow && pods < atOnce+ended/inARow; pods++ {
			r.submit(t, starter(members, part, pods).inARow(inARow))
		}
		r.reaches(t, part, ended+1)
	}
	run(t, r.Node, "systemctl stop disturb; systemctl kill --kill-whom=main --signal=CONT "+monitorUnit+"; systemctl start "+monitorUnit)
	r.connected(t)
	r.report(t, part, starts, began, refused, "/kubepods-system.slice/")
	for i := range pods {
		r.delete(t, members, fmt.Sprintf("%s-%d", part, i))
	}
}

// undisturbed: pods that do not require the monitor start while it is dead.
func (r required) undisturbed(t *testing.T, namespace, part string, starts int, start, end func(*testing.T, spec)) {
	refused := r.refusals(t)
	began := time.Now()
	const atOnce = 10
	for i := 0; i < starts; i += atOnce {
		pods := make([]spec, atOnce)
		for j := range pods {
			pods[j] = starter(namespace, part, i+j)
			start(t, pods[j])
		}
		r.reaches(t, part, i+atOnce)
		for _, pod := range pods {
			end(t, pod)
		}
	}
	r.report(t, part, starts, began, refused, "/kubepods-besteffort.slice/")
}

// report compares where the containers of a part have started.
func (r required) report(t *testing.T, part string, starts int, began time.Time, refused int, slice string) {
	t.Helper()
	file := startsFolder + "/" + part
	seen, elsewhere := r.count(t, "wc -l <"+file), r.count(t, "grep -vc "+slice+" "+file)
	t.Logf("%s: %d starts in %.0f s, %d outside of %s, %d times, %d creations refused first", part, seen, time.Since(began).Seconds(),
		elsewhere, slice, r.count(t, "cat /run/"+part+" 2>/dev/null | wc -l"), r.refusals(t)-refused)
	if seen < starts || elsewhere > 0 {
		t.Errorf("%s: %d starts; want %d, all in %s:\n%s", part, seen, starts, slice, run(t, r.Node, "cat "+file))
	}
}

// reaches waits for another start of a part.
func (r required) reaches(t *testing.T, part string, starts int) {
	t.Helper()
	r.await(t, fmt.Sprintf("%s: %d starts", part, starts), func(context.Context) (bool, string, error) {
		n := r.count(t, "for i in $(seq 20); do n=$(cat "+startsFolder+"/"+part+" 2>/dev/null | wc -l); [ $n -lt "+strconv.Itoa(starts)+
			" ] || break; sleep 3; done; echo $n")
		return n >= starts, strconv.Itoa(n), nil
	})
}

// refusals counts the containers that the runtime did not create.
func (r required) refusals(t *testing.T) int {
	t.Helper()
	return r.count(t, "journalctl -b -o cat --no-pager -u containerd.service | grep -c 'CreateContainer within sandbox.* failed'")
}

// count returns the number that a command prints, such as grep, which fails at 0.
func (r required) count(t *testing.T, command string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(run(t, r.Node, command+" || true")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
