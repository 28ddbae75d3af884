package cluster

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// coresFailed is logged when resources could not be written.
const coresFailed = "the resources of workload types could not be written, trying again"

// milli is the number of thousandths of a CPU in a CPU.
const milli = 1000

// decide returns the values that a Node is to get, by type, nil for a resource to remove: it is to
// have the types with a value, in thousandths of a CPU. value is 0 if it is not known.
//
// A value is not lowered on the Node on which it was written: a kubelet that restarts compares the
// requests of running pods with it, and fails those that do not fit. For the same reason a resource
// is removed and never set to zero: the kubelet ignores a request for a resource that its Node does
// not have (removeMissingExtendedResources, pkg/kubelet/lifecycle/predicate.go, v1.37.0).
//
// A resource that was not written by this program is not removed.
func decide(types []string, value int64, written node.Written, n kubeapi.Node) map[string]*int64 {
	cores := map[string]*int64{}
	for _, one := range types {
		has, is := n.Cores[one]
		want := value
		//guard: a resource on another Node of the name is not ours
		if n.UID == written.Node {
			//guard: a resource is not lowered while the node runs
			want = max(value, written.Cores[one])
		}
		//guard: a resource is not set to zero
		if want > 0 && (!is || has != want) {
			cores[one] = &want
		}
	}
	for _, one := range n.Ours {
		if !slices.Contains(types, one) {
			cores[one] = nil
		}
	}
	return cores
}

// lacking is decide for the Node as it was last seen.
func (k *Keeper) lacking() map[string]*int64 { return decide(k.types, k.value(), k.written, *k.seen) }

// putCores writes the resources that differ on the Node.
func (k *Keeper) putCores(ctx context.Context, now time.Time) error {
	if cores := k.lacking(); len(cores) > 0 {
		had := k.seen.Cores
		if err := k.send(ctx, kubeapi.NodePatch{UID: k.seen.UID, Cores: cores}, now); err != nil {
			return err
		}
		k.report(cores, had)
	}
	lacking := k.lacking()
	k.remember()
	if len(lacking) > 0 {
		//guard: a value that an admission policy takes back is a failure
		return errNotKept
	}
	return nil
}

// remember keeps the resources of the Node for the next start, and for other programs.
func (k *Keeper) remember() {
	cores := maps.Clone(k.seen.Cores)
	maps.DeleteFunc(cores, func(one string, _ int64) bool {
		return !slices.Contains(k.types, one) && !slices.Contains(k.seen.Ours, one)
	})
	k.store(node.Written{Node: k.seen.UID, Cores: cores})
}

// store replaces what is known of the resources.
func (k *Keeper) store(w node.Written) {
	w.Version = k.written.Version // of the file, which node.WriteWritten sets
	if reflect.DeepEqual(w, k.written) {
		return
	}
	k.written = w
	if err := node.WriteWritten(k.options.Node, w); err != nil {
		k.options.Log.Error("what this program has written to the Node is not remembered over a restart", "error", err)
	}
}

// errNotKept means that something between us and the store changes what we write.
var errNotKept = errors.New("the API server has accepted the values and has others: " +
	"does an admission policy or a webhook change nodes/status?")

// value returns the value of each resource, 0 if it is not known. All online CPUs count, whichever
// a process of this program may use.
func (k *Keeper) value() int64 {
	if len(k.types) == 0 {
		return 0
	}
	cpus, err := node.OnlineCPUs(k.options.Node.Root)
	if err != nil {
		k.cores.said.Warn(k.options.Log, err, "the resources of workload types are not written: the CPUs of the node are not known")
		return 0
	}
	return int64(cpus.Size()) * milli
}

// report logs what was written to a Node that had other values.
func (k *Keeper) report(cores map[string]*int64, had map[string]int64) {
	for _, one := range slices.Sorted(maps.Keys(cores)) {
		resource, value := partition.WorkloadResource(one), cores[one]
		last, known := k.written.Cores[one]
		switch {
		case value == nil:
			k.options.Log.Info("the resource of a workload type is removed from the Node", "resource", resource)
		case known && k.written.Node == k.seen.UID && had[one] != last:
			k.options.Log.Warn(
				"the resource of a workload type was overwritten on the Node, and is written again",
				"resource", resource, "found", had[one], "capacity", *value,
			)
		default:
			k.options.Log.Info("the resource of a workload type is on the Node", "resource", resource, "capacity", *value)
		}
	}
}
