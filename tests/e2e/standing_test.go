//go:build node

package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// standing holds the partition, the CPUs and the settings of CPU time of a container.
type standing struct {
	partition partition.Name
	class     v1.PodQOSClass
	// cpus has the CPUs of its processes, each list once.
	cpus string
	// The settings of the container, and of its pod.
	weight, quota, podWeight, podQuota string
}

// awkFunctions are functions of awk: first returns the first line of a file, and cpus the CPUs of
// the processes that a cgroup.procs lists.
const awkFunctions = `function first(file, line) { line = ""; getline line < file; close(file); return line }
function cpus(file, all, process, status, line) {
	while ((getline process < file) > 0) {
		status = "/proc/" process "/status"
		while ((getline line < status) > 0)
			if (sub(/^Cpus_allowed_list:\t/, "", line) && index(" " all " ", " " line " ") == 0) all = all (all == "" ? "" : " ") line
		close(status)
	}
	close(file)
	return all
}
`

// listStandings prints a line for each container: its cgroup, the CPUs of its processes, and its
// and its pod's cpu.weight and cpu.max. One awk reads everything, because each command costs an
// emulated node a tenth of a second. crun has the processes one cgroup further down.
const listStandings = "cd " + cgroupRoot + ` && find kubepods.slice -type d -name '*.scope' -not -name 'crio-conmon-*' | awk '
` + awkFunctions + `{
	pod = $0; sub("/[^/]*$", "", pod)
	on = cpus($0 "/cgroup.procs"); if (on == "") on = cpus($0 "/container/cgroup.procs")
	print $0 "|" on "|" first($0 "/cpu.weight") "|" first($0 "/cpu.max") "|" first(pod "/cpu.weight") "|" first(pod "/cpu.max")
}'`

// standings returns the standings of the containers and sandboxes of the node, by their IDs. It
// reads the cgroup file system, and trusts no report.
func standings(ctx context.Context, n *lab.Node) (map[string]standing, error) {
	out, err := n.Run(ctx, listStandings)
	if err != nil {
		return nil, err
	}
	all := map[string]standing{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		scope := fields[0]
		name, class, _, ok := partition.ParsePodSlice(path.Base(path.Dir(scope)))
		if !ok || len(fields) != 6 || fields[2] == "" { // it has ended meanwhile
			continue
		}
		all[partition.ContainerID(path.Base(scope))] = standing{
			name, v1.PodQOSClass(class), fields[1], fields[2], fields[3], fields[4], fields[5],
		}
	}
	return all, nil
}

// standingOf returns the standing of a pod's only container, if it runs.
func standingOf(all map[string]standing, pod *v1.Pod) (standing, error) {
	if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return standing{}, fmt.Errorf("%s/%s does not run: %s %s", pod.Namespace, pod.Name, pod.Status.Phase, pod.Status.Reason)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	found, ok := all[id]
	if !ok {
		return standing{}, fmt.Errorf("%s/%s: no cgroup of the container %s", pod.Namespace, pod.Name, id)
	}
	return found, nil
}
