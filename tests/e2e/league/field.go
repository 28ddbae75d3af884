package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/tests/e2e/league/verdict"
	"node-partition.io/node-partition/tests/lab"
)

const (
	monitorUnit = "partition-monitor.service"
	// dir is the folder that pods share with onnode.
	dir    = "/run/league"
	onNode = dir + "/onnode"
	// patience bounds what an emulated node does, such as starting ten pods.
	patience = 10 * time.Minute
)

// member is a pod that starts with the command of podtool, or of onnode if it begins with a slash.
type member struct{ name, request, command string }

// bystanders are there in each round. Each is a wrong victim: one within its request, which works,
// one above it by less than any pod that leaks, and a user's.
var bystanders = []member{
	{"neighbour", "64Mi", onNode + " work"},
	{"above", "48Mi", "/podtool alloc 48Mi"},
	{"user", "16Mi", "/podtool alloc 48Mi"},
}

// load is what takes the memory. Pods whose names begin with verdict.Leaker are to be ended.
type load struct {
	name string
	pods []member
	// on, ready and off are commands in the shell, before the pods start, when they run, and after
	// they are gone.
	on, ready, off string
}

func leaker(command string) member {
	return member{verdict.Leaker, "16Mi", onNode + " gate /podtool " + command}
}

var loads = []load{
	{name: "leaker", pods: []member{leaker("grow 16Mi 50Mi 3Gi")}},
	{name: "burst", pods: []member{leaker("rush 0s 2 1Gi")}},
	{name: "tmpfs", pods: []member{leaker("fill /memory 50Mi 1Gi")}},
	// The page cache fills the partition in the ten seconds before the leak.
	{name: "cache", pods: []member{
		leaker("leak 10s 16Mi 50Mi 3Gi"),
		{"reader", "16Mi", onNode + " gate /podtool read /tmp 20Mi 450Mi"},
	}},
	{name: "fifty", pods: together(50)},
	{name: "forks", pods: []member{
		leaker("leak 5s 16Mi 50Mi 3Gi"),
		{"forks", "16Mi", onNode + " gate /podtool forks"},
	}},
	{name: "slow", pods: []member{leaker("grow 250Mi 2Mi 3Gi")}},
	// A user's pod has the whole node wait for its disk, which is slow, before the leak begins. The
	// code that nobody has locked has to be read again.
	{
		name: thrash, pods: []member{leaker("leak 15s 16Mi 50Mi 3Gi"), {userThrash, "16Mi", onNode + " thrash"}},
		on: slowDisk("/ 30"), ready: "echo 3 >/proc/sys/vm/drop_caches", off: slowDisk(""),
	},
}

const (
	// thrash is a load on the whole node, so that only keepers of a partition meet it.
	thrash     = "thrash"
	userThrash = "user-thrash"
)

// slowDisk limits how often a second the pods and the services read from the disk.
func slowDisk(limit string) string {
	return fmt.Sprintf("systemctl set-property --runtime kubepods.slice IOReadIOPSMax=%q\n"+
		"systemctl set-property --runtime system.slice IOReadIOPSMax=%[1]q", limit)
}

// together returns pods that grow at the same time.
func together(number int) []member {
	all := make([]member, 0, number)
	for i := range number {
		one := leaker("grow 2Mi 1Mi 100Mi")
		one.name, one.request = fmt.Sprintf("%s-%d", one.name, i), "1Mi"
		all = append(all, one)
	}
	return all
}

// field is the node of the league, with the keeper of the moment.
type field struct {
	*lab.Node
	control   *lab.ControlPlane
	keeper    keeper
	threshold uint64
}

// slowly runs a command that may take minutes on an emulated node.
func (f *field) slowly(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return f.Run(ctx, "set -e\n"+command)
}

// round plays a load once.
func (f *field) round(ctx context.Context, l load) (line verdict.Line, err error) {
	if _, err := f.Run(ctx, "rm -f "+dir+"/gate; mkfifo "+dir+"/gate\n"+l.on); err != nil {
		return line, err
	}
	if err := f.start(ctx, l.pods); err != nil {
		return line, err
	}
	if _, err := f.slowly(ctx, l.ready); err != nil {
		return line, err
	}
	pods := map[string]string{}
	list, err := f.control.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return line, err
	}
	for i := range list.Items {
		pods[string(list.Items[i].UID)] = list.Items[i].Name
	}
	before, err := f.kernelKills(ctx)
	if err != nil {
		return line, err
	}
	silent := f.silence(ctx)
	out, err := f.slowly(ctx, fmt.Sprintf("%s watch %s %d", onNode, f.keeper.meter, f.threshold))
	seconds := silent()
	if err != nil {
		return line, err
	}
	var seen verdict.Seen
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		return line, err
	}
	after, err := f.kernelKills(ctx)
	if err != nil {
		return line, err
	}
	seen.Kernel = after[len(before):]
	line = verdict.Decide(seen, pods)
	line.Node, line.Keeper, line.Load, line.Silent = f.Flavour, f.keeper.name, l.name, seconds
	if err := f.remove(ctx, l.pods); err != nil {
		return line, err
	}
	if _, err := f.Run(ctx, l.off); err != nil {
		return line, err
	}
	return line, f.restore(ctx)
}

// kernelKills returns the cgroups of the decisions of the kernel's OOM killer since the boot.
func (f *field) kernelKills(ctx context.Context) ([]string, error) {
	out, err := f.slowly(ctx, "journalctl --sync; journalctl -b -k -o cat --no-pager | "+
		"sed -n -E 's/^oom-kill:constraint=.*(oom_memcg=|global_oom)([^,]*),.*/\\2/p'")
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")[:strings.Count(out, "\n")], err
}

// tolerated is the time between two answers of an emulated node that is busy.
const tolerated = 2 * time.Second

// silence asks the kubelet for its health, through the node's sshd, until the function that it
// returns is called. That one returns the seconds in which there was no answer, each time beyond
// what is tolerated.
func (f *field) silence(ctx context.Context) func() float64 {
	ctx, cancel := context.WithCancel(ctx)
	silent := make(chan float64)
	go func() {
		sum, answered := time.Duration(0), time.Now()
		for ctx.Err() == nil {
			if _, err := f.Get(ctx, "http://127.0.0.1:10248/healthz"); err == nil {
				sum += max(0, time.Since(answered)-tolerated)
				answered = time.Now()
			}
			select {
			case <-ctx.Done():
			case <-time.After(tolerated / 4):
			}
		}
		silent <- (sum + max(0, time.Since(answered)-tolerated)).Seconds()
	}()
	return func() float64 {
		cancel()
		return <-silent
	}
}

// namespace returns kube-system, where members of the partition are, and default for the user.
func namespace(m member) string {
	if strings.HasPrefix(m.name, "user") {
		return metav1.NamespaceDefault
	}
	return metav1.NamespaceSystem
}

// start creates the pods that there are not yet, and waits until all run.
func (f *field) start(ctx context.Context, all []member) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, m := range all {
		_, err := f.control.Client().CoreV1().Pods(namespace(m)).Create(ctx, f.pod(m), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, m := range all {
		if _, err := f.control.WaitPod(ctx, namespace(m), m.name); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) pod(m member) *v1.Pod {
	grace, folder := int64(1), v1.HostPathDirectory
	restart := v1.RestartPolicyAlways
	if strings.HasPrefix(m.name, verdict.Leaker) {
		restart = v1.RestartPolicyNever
	}
	limits := v1.ResourceList{}
	if m.name == userThrash {
		limits[v1.ResourceMemory] = resource.MustParse("64Mi")
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(m), Name: m.name},
		Spec: v1.PodSpec{
			NodeName: f.Hostname, HostNetwork: true, TerminationGracePeriodSeconds: &grace, RestartPolicy: restart,
			Containers: []v1.Container{{
				Name: "main", Image: lab.PodtoolImage, ImagePullPolicy: v1.PullNever, Command: strings.Fields(m.command),
				Resources: v1.ResourceRequirements{Limits: limits, Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: resource.MustParse(m.request),
				}},
				VolumeMounts: []v1.VolumeMount{{Name: "league", MountPath: dir}, {Name: "memory", MountPath: "/memory"}},
			}},
			Volumes: []v1.Volume{
				{Name: "league", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir, Type: &folder}}},
				{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
			},
		},
	}
}

// remove deletes pods, and waits until the kubelet has none of them.
func (f *field) remove(ctx context.Context, all []member) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	grace, gone := int64(0), map[string]bool{}
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	for _, m := range all {
		gone[m.name] = true
		err := f.control.Client().CoreV1().Pods(namespace(m)).Delete(ctx, m.name, atOnce)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return f.Eventually(ctx, "the pods of the round are gone", func(ctx context.Context) (bool, string, error) {
		pods, err := f.Pods(ctx)
		if err != nil {
			return false, "", err
		}
		for i := range pods {
			if gone[pods[i].Name] {
				return false, pods[i].Name, nil
			}
		}
		return true, "", nil
	})
}

// restore replaces bystanders that have ended for good, and waits until all run.
func (f *field) restore(ctx context.Context) error {
	for _, m := range bystanders {
		pod, err := f.control.Client().CoreV1().Pods(namespace(m)).Get(ctx, m.name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase == v1.PodFailed {
			err = f.remove(ctx, []member{m})
		}
		if err != nil {
			return err
		}
	}
	return f.start(ctx, bystanders)
}
