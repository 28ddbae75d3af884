//go:build node

package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// podProcess is a process below kubepods.slice. It is read from /proc, and no report is trusted.
type podProcess struct {
	pid, name string
	// cpus is the list of CPUs that the kernel lets it run on.
	cpus   string
	cgroup string
	// The slice of the pod names partition and class, and uid with underscores. All are empty for a
	// process outside of such slices.
	partition  partition.Name
	class, uid string
}

// inSandbox reports whether the runtime runs the process beside the containers of a pod. It stays
// where the kubelet has put the pod.
func (p podProcess) inSandbox() bool { return p.name == "pause" || p.name == "conmon" }

// String names the process for a message.
func (p podProcess) String() string {
	return fmt.Sprintf("%s %s on %s in %s", p.pid, p.name, p.cpus, p.cgroup)
}

// podProcesses returns all processes below kubepods.slice. Two commands read all of them, because
// an emulated node takes seconds for one command for each process.
func podProcesses(ctx context.Context, n *lab.Node) ([]podProcess, error) {
	out, err := n.Run(ctx, "grep -sH :/kubepods.slice/ /proc/[0-9]*/cgroup; "+
		"grep -sHE '^(Name|State|Cpus_allowed_list):' /proc/[0-9]*/status; true")
	if err != nil {
		return nil, err
	}
	fields := map[string]map[string]string{} // by process
	var pids []string
	for line := range strings.Lines(out) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		key, value, _ := strings.Cut(rest, ":")
		pid := path.Base(path.Dir(file))
		switch {
		case path.Base(file) == "cgroup":
			fields[pid] = map[string]string{"cgroup": strings.TrimPrefix(value, ":/")}
			pids = append(pids, pid)
		case fields[pid] != nil: // the files of the others are of no interest
			fields[pid][key] = strings.TrimSpace(value)
		}
	}
	var all []podProcess
	for _, pid := range pids {
		f := fields[pid]
		if f["Name"] == "" || strings.HasPrefix(f["State"], "Z") || strings.HasSuffix(f["cgroup"], " (deleted)") {
			continue // it has ended
		}
		p := podProcess{pid: pid, name: f["Name"], cpus: f["Cpus_allowed_list"], cgroup: f["cgroup"]}
		for part := range strings.SplitSeq(p.cgroup, "/") {
			if partition, class, uid, ok := partition.ParsePodSlice(part); ok {
				p.partition, p.class, p.uid = partition, class, uid
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// processesOf returns the processes of the containers of a pod, by its UID.
func processesOf(ctx context.Context, n *lab.Node, uid string) ([]podProcess, error) {
	all, err := podProcesses(ctx, n)
	return slices.DeleteFunc(all, func(p podProcess) bool { return p.uid != partition.EscapeUID(uid) || p.inSandbox() }), err
}
