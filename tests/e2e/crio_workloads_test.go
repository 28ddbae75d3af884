//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const (
	// management is the type of TestCRIOSideBySide: an entry of CRI-O's table, and then a partition.
	management partition.Name = "management"
	// managementSection has the type on one CPU of two. render crio makes the table of it, too.
	managementSection = `workloadPartitions:
  management: {cpuset: "0", allowedNamespaces: [operators]}
`
	// crioTable is the file that OpenShift has for the table.
	crioTable = "/etc/crio/crio.conf.d/01-workload-partitioning"
	// gate holds the init container of a pod until the file in it is there.
	gate = "/run/lab-gate"
)

// settings holds what limits a cgroup to CPUs and to a part of their time. It is empty for a cgroup
// that is not there.
type settings struct {
	// cpus is cpuset.cpus.effective, with the CPUs of the processes if they have others.
	cpus string
	// weight is cpu.weight, and quota cpu.max, the smaller one of a scope and of the cgroup in it in
	// which crun has the processes.
	weight, quota string
	// place says of a sandbox where it is.
	place string
}

func (s settings) String() string {
	if s == (settings{}) {
		return "none"
	}
	return strings.Join(slices.DeleteFunc([]string{s.cpus, s.weight, s.quota, s.place}, func(text string) bool { return text == "" }), ", ")
}

// stage is a moment at which the settings are read.
type stage int

const (
	always stage = iota
	initializing
	initialized
)

// side is one of the two ways to pin pods.
type side int

const (
	byTable side = iota
	byPartition
)

func (s side) String() string { return [...]string{"CRI-O's table", "partition"}[s] }

// compared holds the settings that both sides give one cgroup.
type compared struct {
	what string
	when stage
	by   [2]settings
}

const noQuota = "max 100000"

// comparedCgroups are the containers first, which have the same on both sides, and then what
// differs. docs/workload-types.md has the table.
func comparedCgroups() []compared {
	same := func(what string, when stage, cpus, weight, quota string) compared {
		s := settings{cpus: cpus, weight: weight, quota: quota}
		return compared{what, when, [2]settings{s, s}}
	}
	differs := func(what string, table, partition settings) compared {
		return compared{what, always, [2]settings{table, partition}}
	}
	on := func(cpus, weight, quota string) settings { return settings{cpus: cpus, weight: weight, quota: quota} }
	plain := on("0-1", "1", noQuota) // a slice of the kubelet's for a pod that requests no CPU
	all := []compared{
		same("besteffort/main", always, "0", "1", noQuota),
		same("burstable/main", always, "0", "16", noQuota),
		same("burstable/helper", always, "0", "1", noQuota),
		same("burstable/unlisted", always, "0", "1", noQuota),
		same("limited/prepare", initializing, "0", "8", "25000 100000"),
		same("limited/main", initialized, "0", "16", "50000 100000"),
		same("limited/helper", initialized, "0", "4", "10000 100000"),

		// An annotation that admission would not leave, a limit that is not whole percents of a CPU, and
		// a pod that a partition does not take by its annotation.
		differs("odd/fraction", on("0", "12", "30500 100000"), on("0", "12", "31000 100000")),
		differs("odd/greedy", on("0", "79", noQuota), on("0", "1", noQuota)),
		differs("odd/roaming", on("1", "1", noQuota), on("0", "1", noQuota)),
		differs("guaranteed/main", on("0", "6", "15000 100000"), on("0-1", "6", "15000 100000")),

		differs("slice of besteffort", plain, on("0", "1", noQuota)),
		differs("slice of burstable", plain, on("0", "16", noQuota)),
		differs("slice of limited", plain, on("0", "20", "60000 100000")),
		differs("slice of odd", plain, on("0", "12", noQuota)),
		same("slice of guaranteed", always, "0-1", "6", "15000 100000"),
		// 1205 thousandths of a CPU in all.
		differs("slice of the type", settings{}, on("0", "47", noQuota)),
		differs("sandbox of burstable",
			settings{"0-1", "1", noQuota, "with the containers"}, settings{"0-1", "1", noQuota, "apart"}),
		differs("conmon of the sandbox of burstable", settings{cpus: "0"}, settings{cpus: "0-1"}),
	}
	for _, pod := range []string{"besteffort", "burstable", "limited", "odd"} {
		all = append(all, same("the kubelet's slice of "+pod, always, "0-1", "1", noQuota))
	}
	return append(all, same("the kubelet's slice of guaranteed", always, "0-1", "6", "15000 100000"))
}

// part is a container of a pod that asks for the type.
type part struct {
	name string
	// cores is the request of the resource of the type. A container without one requests memory alone,
	// unless its pod is to be a BestEffort pod.
	cores int64
	// annotation is empty for a container of which the annotations say nothing.
	annotation string
	init       bool
}

// managed returns a pod as OpenShift's admission leaves it.
func managed(name string, parts ...part) spec {
	s := asking(spec{namespace: operators, name: name}, string(management))
	asks := s.change
	s.change = func(p *v1.Pod) {
		asks(p)
		base := p.Spec.Containers[0]
		p.Spec.Containers = nil
		for _, part := range parts {
			c := *base.DeepCopy()
			c.Name = part.name
			if part.annotation != "" {
				p.Annotations["resources.workload.openshift.io/"+part.name] = part.annotation
			}
			if name != "besteffort" {
				c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")}
			}
			if part.cores > 0 {
				cores := v1.ResourceName(partition.WorkloadResource(string(management)))
				c.Resources.Requests[cores] = *resource.NewQuantity(part.cores, resource.DecimalSI)
				c.Resources.Limits = v1.ResourceList{cores: *resource.NewQuantity(part.cores, resource.DecimalSI)}
			}
			if part.init {
				p.Spec.InitContainers = append(p.Spec.InitContainers, waiting(p, c))
			} else {
				p.Spec.Containers = append(p.Spec.Containers, c)
			}
		}
	}
	return s
}

// waiting returns the container with a program that ends when the gate is open.
func waiting(p *v1.Pod, c v1.Container) v1.Container {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
		Name: "gate", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: gate}},
	})
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "gate", MountPath: "/gate"})
	c.Command = []string{"sh", "-c", "until [ -e /gate/open ]; do sleep 1; done"}
	return c
}

// managedPods are pods in the forms that OpenShift's admission leaves: a BestEffort pod has its
// shares in the annotation alone, and a Burstable pod has the resource. One has limits, and an init
// container. One has what admission refuses, and a Guaranteed pod asks where no admission removes
// the annotation.
func managedPods() []spec {
	burstable := managed("burstable",
		part{name: "main", cores: 400, annotation: `{"cpushares":409}`}, part{name: "helper", annotation: `{"cpushares":2}`}, part{name: "unlisted"})
	change := burstable.change
	burstable.change = func(p *v1.Pod) {
		change(p)
		// CRI-O has no process for the sandbox of any other pod.
		yes := true
		p.Spec.ShareProcessNamespace = &yes
	}
	// With less CPU the runtime takes minutes to start it: its own work is charged to the pod.
	whole := resources("150m", "32Mi")
	return []spec{
		managed("besteffort", part{name: "main", annotation: `{"cpushares":2}`}),
		burstable,
		managed("limited",
			part{name: "prepare", cores: 200, annotation: `{"cpushares":204,"cpulimit":250}`, init: true},
			part{name: "main", cores: 400, annotation: `{"cpushares":409,"cpulimit":500}`},
			part{name: "helper", cores: 100, annotation: `{"cpushares":102,"cpulimit":100}`}),
		managed("odd",
			part{name: "fraction", cores: 305, annotation: `{"cpushares":312,"cpulimit":305}`},
			part{name: "greedy", annotation: `{"cpushares":2048}`},
			part{name: "roaming", annotation: `{"cpushares":2,"cpuset":"1"}`}),
		asking(spec{namespace: operators, name: "guaranteed", requests: whole, limits: whole}, string(management)),
	}
}

// TestCRIOSideBySide: the same pods, first by CRI-O's own table of workloads without a partition,
// then by a partition without the table. Their containers have the same CPUs, weight and quota.
// What differs is a list, and nothing else does.
func TestCRIOSideBySide(t *testing.T) {
	onEach(t, kinds([]string{"crio"}, "crio"), func(t *testing.T, flavour string) {
		n, control := lab.JoinedForTest(t, lab.Options{Flavour: flavour, Files: programs()})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := &workloads{evictor: &evictor{Node: n, control: control, leakers: map[string]bool{}}}
		w.namespace(t, operators)
		s := &sideBySide{workloads: w, seen: [2]map[string]settings{{}, {}}}
		t.Cleanup(func() { s.explain(t) })

		table := s.rendered(t)
		t.Logf("%s:\n%s", crioTable, table)
		if err := n.WriteFile(t.Context(), crioTable, []byte(table+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.restartRuntime(t)
		want(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		s.measure(t, byTable)
		want(t, n, "ls -d "+management.Cgroup()+" 2>/dev/null || true", "")

		s.removeAll(t)
		run(t, n, "rm "+crioTable)
		s.restartRuntime(t)
		configure(t, n, managementSection)
		run(t, n, "systemctl start slices.target")
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
		w.hasCores(t, string(management), allCores)
		s.measure(t, byPartition)
		want(t, n, checked("crio-workloads"), "ok crio-workloads")
	})
}

// sideBySide is a node whose pods are pinned in one of two ways, and what they had.
type sideBySide struct {
	*workloads
	seen [2]map[string]settings
}

// rendered returns the table that render crio prints for the section. No reload applies the section
// meanwhile.
func (s *sideBySide) rendered(t *testing.T) string {
	t.Helper()
	put := func(section string) {
		t.Helper()
		if err := s.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
			t.Fatal(err)
		}
	}
	put(managementSection)
	defer put("")
	return run(t, s.Node, monitorPath+" render crio --type="+string(management))
}

// restartRuntime restarts CRI-O, which reads its table at its start alone.
func (s *sideBySide) restartRuntime(t *testing.T) {
	t.Helper()
	run(t, s.Node, "systemctl restart "+runtimeUnit(s.Flavour))
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// measure creates the pods and compares their cgroups, while an init container runs and after it.
func (s *sideBySide) measure(t *testing.T, by side) {
	t.Helper()
	run(t, s.Node, "rm -rf "+gate+" && mkdir "+gate)
	pods := managedPods()
	for _, pod := range pods {
		s.submit(t, pod)
	}
	for _, pod := range pods {
		if pod.name == "limited" {
			s.initializes(t, pod)
		} else if _, err := s.control.WaitPod(t.Context(), pod.namespace, pod.name); err != nil {
			t.Fatal(err)
		}
	}
	s.compare(t, by, initializing)
	run(t, s.Node, "touch "+gate+"/open")
	if _, err := s.control.WaitPod(t.Context(), operators, "limited"); err != nil {
		t.Fatal(err)
	}
	s.compare(t, by, initialized)
	for _, pod := range pods {
		s.neverRestarted(t, pod.namespace, pod.name)
	}
}

// initializes waits until the init container of a pod runs.
func (s *sideBySide) initializes(t *testing.T, pod spec) {
	t.Helper()
	eventually(t, s.Node, "the init container of "+pod.name+" runs", func(ctx context.Context) (bool, string, error) {
		p, err := s.control.Client().CoreV1().Pods(pod.namespace).Get(ctx, pod.name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		all := p.Status.InitContainerStatuses
		return len(all) == 1 && all[0].State.Running != nil, fmt.Sprintf("%s %+v", p.Status.Phase, all), nil
	})
}

// removeAll removes all pods of the test, and waits until their containers have ended: with a grace
// period the API server keeps a pod until then.
func (s *sideBySide) removeAll(t *testing.T) {
	t.Helper()
	for _, pod := range managedPods() {
		if err := s.control.Client().CoreV1().Pods(pod.namespace).Delete(t.Context(), pod.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range managedPods() {
		s.gone(t, pod.name)
	}
}

// compare waits until the cgroups have what is wanted, and keeps what they have. A difference does
// not end the test: the table at its end has both sides.
func (s *sideBySide) compare(t *testing.T, by side, when stage) {
	t.Helper()
	var listed string
	err := s.Eventually(t.Context(), "the cgroups by "+by.String(), func(ctx context.Context) (bool, string, error) {
		got, text, err := s.read(ctx)
		if err != nil {
			return false, "", err
		}
		listed = text
		maps.Copy(s.seen[by], got)
		wrong := differ(got, by, when)
		return len(wrong) == 0, strings.Join(wrong, "; "), nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, listed)
	}
}

// differ lists what is not as wanted, and what is not wanted at all.
func differ(got map[string]settings, by side, when stage) (wrong []string) {
	known := map[string]bool{}
	for _, row := range comparedCgroups() {
		if row.when != always && row.when != when {
			continue
		}
		known[row.what] = true
		if got[row.what] != row.by[by] {
			wrong = append(wrong, fmt.Sprintf("%s: %s; want %s", row.what, got[row.what], row.by[by]))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(got)) {
		if !known[what] {
			wrong = append(wrong, fmt.Sprintf("%s: %s; want none", what, got[what]))
		}
	}
	return wrong
}

// listSettings prints a line for each slice and scope: its cgroup, the effective CPUs of the cgroup
// with its processes, their own CPUs, cpu.weight, and cpu.max of both cgroups. A cgroup without a
// cpuset has the CPUs of the one above it, up to the root, the dot. One awk reads everything,
// because each command costs an emulated node a tenth of a second.
const listSettings = "cd " + cgroupRoot + ` && find ./kubepods.slice ./system.slice -type d '(' -name 'kubepods*.slice' -o -name 'crio-*.scope' ')' | awk '
` + awkFunctions + `function effective(dir, line) {
	while ((line = first(dir "/cpuset.cpus.effective")) == "" && sub("/[^/]*$", "", dir)) ;
	return line
}
{
	leaf = $0
	if ($0 ~ /\.scope$/ && first($0 "/container/cgroup.type") != "") leaf = $0 "/container"
	print $0 "|" effective(leaf) "|" cpus(leaf "/cgroup.procs") "|" first($0 "/cpu.weight") "|" first($0 "/cpu.max") "|" first(leaf "/cpu.max")
}'`

// read returns the settings of the pods' cgroups by their names in comparedCgroups, and the lines
// that they are from. It reads the cgroup file system, and trusts no report.
func (s *sideBySide) read(ctx context.Context) (map[string]settings, string, error) {
	list, err := s.control.Client().CoreV1().Pods(operators).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", err
	}
	pods, containers := map[string]string{}, map[string]string{} // names by UID, and by ID
	for i := range list.Items {
		p := &list.Items[i]
		pods[partition.EscapeUID(string(p.UID))] = p.Name
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if c.State.Running != nil {
				_, id, _ := strings.Cut(c.ContainerID, "://")
				containers[id] = p.Name + "/" + c.Name
			}
		}
	}
	out, err := s.Run(ctx, listSettings)
	if err != nil {
		return nil, "", err
	}
	found := placesFound{pods: pods, containers: containers, got: map[string]settings{}}
	for line := range strings.Lines(out) {
		found.add(strings.Split(strings.TrimSpace(line), "|"))
	}
	return found.named(), out, nil
}

// placesFound collects the cgroups of pods.
type placesFound struct {
	// pods and containers are names by UID and by ID.
	pods, containers map[string]string
	got              map[string]settings
	slices           []podSlice
	sandboxes        []sandbox
	conmons          map[string]string // CPUs by the ID of the container
}

type podSlice struct {
	pod, uid  string
	partition partition.Name
	settings
	// full means that containers of the pod run in it.
	full bool
}

type sandbox struct {
	id, uid   string
	partition partition.Name
	settings
}

// add adds a line of listSettings.
func (f *placesFound) add(fields []string) {
	if len(fields) != 6 {
		return
	}
	name := path.Base(fields[0])
	s := settings{cpus: fields[1], weight: fields[3], quota: leastQuota(fields[4], fields[5])}
	if fields[2] != "" && fields[2] != s.cpus {
		s.cpus += " with processes on " + fields[2]
	}
	if name == management.Slice() {
		f.got["slice of the type"] = s
	}
	if partition, _, uid, ok := partition.ParsePodSlice(name); ok && f.pods[uid] != "" {
		f.slices = append(f.slices, podSlice{pod: f.pods[uid], uid: uid, partition: partition, settings: s})
	}
	if id, ok := strings.CutPrefix(name, "crio-conmon-"); ok {
		if f.conmons == nil {
			f.conmons = map[string]string{}
		}
		f.conmons[strings.TrimSuffix(id, ".scope")] = s.cpus
		return
	}
	id := partition.ContainerID(name)
	partition, _, uid, ok := partition.ParsePodSlice(path.Base(path.Dir(fields[0])))
	switch {
	case id == "" || !ok || f.pods[uid] == "":
	case f.containers[id] == "":
		f.sandboxes = append(f.sandboxes, sandbox{id, uid, partition, s})
	default:
		f.got[f.containers[id]] = s
		// find lists a folder before what is in it.
		for i := range f.slices {
			f.slices[i].full = f.slices[i].full || f.slices[i].uid == uid && f.slices[i].partition == partition
		}
	}
}

// named returns all settings by name.
func (f *placesFound) named() map[string]settings {
	full := map[string]partition.Name{}
	for _, slice := range f.slices {
		if slice.full {
			f.got["slice of "+slice.pod], full[slice.uid] = slice.settings, slice.partition
		}
		if slice.partition == partition.Default {
			f.got["the kubelet's slice of "+slice.pod] = slice.settings
		}
	}
	for _, box := range f.sandboxes {
		box.place = "apart"
		if box.partition == full[box.uid] {
			box.place = "with the containers"
		}
		f.got["sandbox of "+f.pods[box.uid]] = box.settings
		f.got["conmon of the sandbox of "+f.pods[box.uid]] = settings{cpus: f.conmons[box.id]}
	}
	return f.got
}

// leastQuota returns the smaller of two values of cpu.max with the same period.
func leastQuota(a, b string) string {
	quota := func(text string) int {
		first, _, _ := strings.Cut(text, " ")
		if n, err := strconv.Atoi(first); err == nil {
			return n
		}
		return int(^uint(0) >> 1) // max, or none
	}
	if quota(b) < quota(a) {
		return b
	}
	return a
}

// explain prints what both sides have given, and in case of a failure what they have said.
func (s *sideBySide) explain(t *testing.T) {
	t.Helper()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\t%s\t%s\t\n", byTable, byPartition)
	for _, row := range comparedCgroups() {
		mark := "equal"
		got := [2]settings{s.seen[byTable][row.what], s.seen[byPartition][row.what]}
		if got[byTable] != got[byPartition] {
			mark = "differs"
		}
		if got != row.by {
			mark += fmt.Sprintf("; want %s | %s", row.by[byTable], row.by[byPartition])
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.what, got[byTable], got[byPartition], mark)
	}
	_ = table.Flush() // to a string
	t.Logf("CPUs, cpu.weight and cpu.max\n%s", text.String())
	if !t.Failed() {
		return
	}
	// The test's own context has ended.
	out, err := s.Run(context.WithoutCancel(t.Context()), "crio --version; crun --version; journalctl -b -o short-precise --no-pager -u "+
		runtimeUnit(s.Flavour)+" | grep -iE 'workload|cpuset|error|Starting CRI-O' | tail -40; journalctl -b -o short-precise --no-pager -u "+
		monitorUnit+" | tail -60; "+monitorPath+" status || true")
	t.Logf("CRI-O and the monitor (%v):\n%s", err, out)
}
