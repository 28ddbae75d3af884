package audit

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// kubeletCgroup checks that the kubelet is counted where its reservation is. A kubelet inside the
// cgroup of systemReserved uses up the reservation of other services, and is killed with them.
func (a *audit) kubeletCgroup() {
	k := a.Kubelet
	if k == nil {
		return
	}
	for i := range a.Processes {
		p := &a.Processes[i]
		if p.Kind != KubeletDaemon {
			continue
		}
		f := Finding{
			Severity: warning, Path: file(p.Cgroup, ""), Value: p.Unit + " in /" + path.Dir(p.Cgroup), Document: docSystemd,
			Cure: "set SERVICES_SLICE=kubernetes.slice in /etc/default/node-partition, and kubeReservedCgroup: /kubernetes.slice " +
				"for the kubelet; then systemctl daemon-reload && systemctl restart " + p.Unit,
		}
		system := a.container("system-reserved", k.SystemReservedCgroup)
		kube := a.container("kube-reserved", k.KubeReservedCgroup)
		if system == "" && k.SystemCgroups != "" {
			system = strings.Trim(k.SystemCgroups, "/")
		}
		// The cgroup of kubeReserved may be below the cgroup of systemReserved.
		apart := kube != "" && within(p.Cgroup, kube) && within(kube, system)
		switch {
		case system != "" && within(p.Cgroup, system) && !apart:
			f.Expected = "outside /" + system
			f.Why = "the cgroup of systemReserved is for the services of the node. The kubelet in it uses up their reservation, " +
				"and kubeReserved does not count it"
		case kube != "" && !within(p.Cgroup, kube):
			f.Expected = "in /" + kube
			f.Why = "enforceNodeAllocatable limits the cgroup of kubeReserved, but the kubelet does not run in that cgroup"
		default:
			continue
		}
		a.add(f)
	}
}

// container returns the path of a reserved cgroup that the kubelet limits, empty without one.
func (a *audit) container(enforcement, name string) string {
	if name == "" || !a.Kubelet.enforces(enforcement) && !a.Kubelet.enforces(enforcement+"-compressible") {
		return ""
	}
	return reservedCgroup(name)
}

// within reports whether a cgroup is another, or below it.
func within(cgroup, other string) bool {
	return cgroup == other || strings.HasPrefix(cgroup, other+"/")
}

// oomd checks that systemd-oomd does not manage a slice of pods, nor one above them.
func (a *audit) oomd() {
	units := []string{"-.slice"}
	for _, cgroup := range a.sorted() {
		if within(cgroup, kubepods) && strings.HasSuffix(cgroup, ".slice") {
			units = append(units, path.Base(cgroup))
		}
	}
	for _, unit := range units {
		for _, property := range []string{"ManagedOOMMemoryPressure", "ManagedOOMSwap"} {
			if a.Units[unit][property] != "kill" {
				continue
			}
			f := Finding{
				Severity: Error, Path: unit + ": " + property, Value: "kill", Expected: "auto",
				Why:      "systemd-oomd kills whole cgroups below this one by a separate rule. It knows neither requests nor priorities, and the kubelet does not learn of it",
				Document: docOomd, Cure: setProperty(unit, property+"=auto"),
			}
			if !a.OomdActive {
				f.Severity = warning
				f.Why = "systemd-oomd does not run. Once it does, it kills whole cgroups below this one by a separate rule, which knows neither requests nor priorities"
			}
			a.add(f)
		}
	}
}

// parameters lists the kernel parameters that the kubelet sets when it starts, or with
// protectKernelDefaults expects (setupKernelTunables, pkg/kubelet/cm/container_manager_linux.go).
var parameters = []struct {
	name  string
	value int
	why   string
}{
	{"vm.overcommit_memory", 1, "the kernel does not refuse memory that pods ask for: limits and evictions bound them"},
	{"vm.panic_on_oom", 0, "the kernel kills a process when memory runs out, and does not stop the node"},
	{"kernel.panic", 10, "the node reboots ten seconds after the kernel has failed"},
	{"kernel.panic_on_oops", 1, "the kernel stops after an error in itself, instead of running on with damaged state"},
	{"kernel.keys.root_maxkeys", 1_000_000, "each container uses one of root's key rings"},
	{"kernel.keys.root_maxbytes", 25_000_000, "each container uses one of root's key rings, 25 bytes on average"},
}

func (a *audit) kernelParameters() {
	if a.Cgroups[kubepods] == nil {
		return // no kubelet has started
	}
	for _, p := range parameters {
		text, ok := a.Sysctls[p.name]
		expected := strconv.Itoa(p.value)
		if !ok || text == expected {
			continue
		}
		a.add(Finding{
			Severity: warning, Path: sysctlFile(p.name), Value: text, Expected: expected,
			Why:      p.why + ". The kubelet sets it at its start; with protectKernelDefaults it does not start with another value",
			Document: docKubelet, Cure: fmt.Sprintf("sysctl -w %s=%s", p.name, expected),
		})
	}
}

// sysctlFile returns the file of a kernel parameter.
func sysctlFile(parameter string) string {
	return "/proc/sys/" + strings.ReplaceAll(parameter, ".", "/")
}

// defaultScore is the kubelet's oomScoreAdj (SetDefaults_KubeletConfiguration,
// v1beta1/defaults.go), and the score in the units of containerd and CRI-O.
const defaultScore = -999

// oomScores checks the order in which the kernel kills when the node has no memory left.
func (a *audit) oomScores() {
	for i := range a.Processes {
		p := &a.Processes[i]
		expected := defaultScore
		if k := a.Kubelet; p.Kind == KubeletDaemon && k != nil && k.OOMScoreAdj != nil {
			expected = int(*k.OOMScoreAdj)
		}
		// The runtime has any value below the containers' values.
		if p.OOMScoreAdj == expected || p.Kind == RuntimeDaemon && p.OOMScoreAdj < guaranteedScore {
			continue
		}
		path := scoreFile(p.PID)
		cure := fmt.Sprintf("echo %d > %s", expected, path)
		if p.Kind == RuntimeDaemon {
			cure += fmt.Sprintf(" # until its next start; OOMScoreAdjust=%d in a drop-in of %s, or SERVICES_OOM_SCORE_ADJUST in /etc/default/node-partition", expected, p.Unit)
		}
		a.add(Finding{
			Severity: Error, Path: path, Value: strconv.Itoa(p.OOMScoreAdj), Expected: strconv.Itoa(expected),
			Why: fmt.Sprintf("%s: the kernel kills services of the node after every container, and guaranteed containers have %d",
				p.Unit, guaranteedScore),
			Document: docOOM, Cure: cure,
		})
	}
	for _, pod := range a.settled() {
		for _, c := range a.running(pod) {
			a.containerScore(pod, c)
		}
	}
}

// scoreFile returns the file with the oom_score_adj of a process.
func scoreFile(pid int) string { return fmt.Sprintf("/proc/%d/oom_score_adj", pid) }

func (a *audit) containerScore(pod *v1.Pod, c container) {
	process, seen := a.Containers[c.scope]
	expected, known := a.score(pod, c.spec)
	if !seen || !known || process.OOMScoreAdj == expected || process.OOMScoreAdj < expected && mayLowerScore(c.spec) {
		return
	}
	a.add(Finding{
		Severity: warning, Path: scoreFile(process.PID),
		Value: strconv.Itoa(process.OOMScoreAdj), Expected: strconv.Itoa(expected),
		Why: fmt.Sprintf("the first process of container %s of the %s pod %s/%s: when memory runs out, the kernel kills BestEffort pods first, "+
			"then burstable ones by the memory that they request, and guaranteed and node-critical ones last",
			c.spec.Name, pod.Status.QOSClass, pod.Namespace, pod.Name),
		Document: docOOM, Cure: fmt.Sprintf("echo %d > %s", expected, scoreFile(process.PID)),
	})
}
