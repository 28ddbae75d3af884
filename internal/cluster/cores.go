package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// coresFailed is logged when resources could not be written.
const coresFailed = "the resources of workload types could not be written, trying again"

// milli is the number of thousandths of a CPU in a CPU.
const milli = 1000

// change holds what to write of the resources of workload types.
type change struct {
	// cores holds the values to write by type, nil for a resource to remove. It is empty if the Node
	// is as it should be.
	cores map[string]*int64
	// before holds what is known if the change is not written, and after what is known if it is.
	before, after node.Written
}

// decide compares a Node with the types that are to be advertised with a value, in thousandths of a
// CPU. known holds what was written and seen so far. value is 0 if it is not known.
//
// A value is not lowered on the Node on which it was written: a kubelet that restarts compares the
// requests of running pods with it, and fails those that do not fit. For the same reason a resource
// is removed and never set to zero: the kubelet ignores a request for a resource that its Node does
// not have (removeMissingExtendedResources, pkg/kubelet/lifecycle/predicate.go, v1.37.0).
//
// A resource that was not written by this program is not removed.
func decide(types []string, value int64, known node.Written, n kubeapi.Node) change {
	written := known.Cores
	//guard: a resource on another Node of the name is not ours
	if n.UID != known.Node {
		written = map[string]int64{}
		for _, one := range n.Ours { // an earlier boot has written it
			written[one] = 0
		}
	}
	c := change{cores: map[string]*int64{}, before: known, after: known}
	seen := map[string]int64{}
	c.before.Node, c.before.Cores, c.before.Seen = n.UID, map[string]int64{}, seen
	c.after.Node, c.after.Cores, c.after.Seen = n.UID, map[string]int64{}, seen
	for _, one := range types {
		last, ours := written[one]
		has, is := n.Cores[one]
		if is {
			seen[one] = has
		}
		//guard: a resource is not lowered while the node runs
		want := max(value, last)
		if ours {
			c.before.Cores[one], c.after.Cores[one] = last, want
		}
		//guard: a resource is not set to zero
		if want > 0 && (!is || has != want) {
			c.cores[one], c.after.Cores[one] = &want, want
		}
	}
	for one, last := range written {
		has, is := n.Cores[one]
		if !is || slices.Contains(types, one) {
			continue
		}
		c.cores[one], seen[one] = nil, has
		c.before.Cores[one], c.after.Cores[one] = last, last
	}
	return c
}

// lacks reports whether the resources that the Node is known to have are not those that it is to
// have, or it is time to see which it has.
func (k *Keeper) lacks(now time.Time) bool {
	if len(k.types)+len(k.written.Cores) == 0 {
		return false
	}
	//guard: resources are looked at while labels and conditions are refused
	if !now.Before(k.beat) {
		return true
	}
	seen := kubeapi.Node{UID: k.written.Node, Cores: k.written.Seen}
	return len(decide(k.types, k.value(), k.written, seen).cores) > 0
}

// putCores writes the resources that differ on a Node, which was just seen.
func (k *Keeper) putCores(ctx context.Context, n kubeapi.Node) error {
	before := k.written
	c := decide(k.types, k.value(), before, n)
	//guard: a resource is remembered before it is written
	k.store(c.after) // a write that is not known could never be taken back
	if len(c.cores) == 0 {
		return nil
	}
	n, err := k.patch(ctx, kubeapi.NodePatch{UID: n.UID, Cores: c.cores})
	if err == nil {
		k.report(c, before)
		if c = decide(k.types, k.value(), k.written, n); len(c.cores) > 0 {
			//guard: a value that an admission policy takes back is a failure
			err = errNotKept
		}
		k.store(c.after)
		//guard: a resource that was refused is not ours
	} else if isRefused(err) {
		k.store(c.before)
	}
	return err
}

// errNotKept means that something between us and the store changes what we write.
var errNotKept = errors.New("the API server has accepted the values and has others: " +
	"does an admission policy or a webhook change nodes/status?")

// isRefused reports whether an error means that nothing was written: there was an answer. A policy
// answers 422 by default (ValidatingAdmissionPolicy, Kubernetes 1.37).
func isRefused(err error) bool {
	return !errors.Is(err, kubeapi.ErrUnreachable) && !errors.Is(err, context.Canceled)
}

// value returns the value of each resource, 0 if it is not known. All online CPUs count, whichever
// a process of this program may use.
func (k *Keeper) value() int64 {
	if len(k.types) == 0 {
		return 0
	}
	cpus, err := config.OnlineCPUs(k.options.Node.Root)
	if err != nil {
		k.cores.said.Warn(k.options.Log, err, "the resources of workload types are not written: the CPUs of the node are not known")
		return 0
	}
	return int64(cpus.Size()) * milli
}

// report logs what was written. before holds what was known when the Node was seen the last time.
func (k *Keeper) report(c change, before node.Written) {
	for _, one := range slices.Sorted(maps.Keys(c.cores)) {
		value, had := c.cores[one], c.before.Seen[one]
		last, ours := before.Cores[one]
		switch {
		case value == nil:
			k.options.Log.Info("the resource of a workload type is removed from the Node", "resource", partition.WorkloadResource(one))
		case ours && before.Node == c.after.Node && before.Seen[one] == last && had != last:
			k.options.Log.Warn(
				"the resource of a workload type was overwritten on the Node, and is written again",
				"resource", partition.WorkloadResource(one), "found", had, "capacity", *value,
			)
		default:
			k.options.Log.Info("the resource of a workload type is on the Node", "resource", partition.WorkloadResource(one), "capacity", *value)
		}
	}
}
