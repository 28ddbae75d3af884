package cluster

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// put sends a patch and returns the Node. With writes it has the labels and the condition that the
// Node is to have, and removes those of ours that the Node has besides. Without, it is empty.
func (k *Keeper) put(ctx context.Context, want node.Written, writes bool, now time.Time) (kubeapi.Node, error) {
	p := kubeapi.NodePatch{Labels: map[string]*string{}, Conditions: map[v1.NodeConditionType]*v1.NodeCondition{}}
	// A write that is not known could never be taken back.
	before := k.written
	before.Labels, before.Conditions = map[string]string{}, map[v1.NodeConditionType]v1.NodeCondition{}
	maps.Copy(before.Labels, k.written.Labels)
	maps.Copy(before.Conditions, k.written.Conditions)
	if writes && k.looked {
		for name := range k.written.Labels {
			p.Labels[name] = nil
		}
		for kind := range k.written.Conditions {
			p.Conditions[kind] = nil
		}
	}
	removes := len(p.Labels)+len(p.Conditions) > 0
	if writes {
		for name, value := range want.Labels {
			p.Labels[name], before.Labels[name] = &value, k.written.Labels[name]
		}
		for kind, c := range want.Conditions {
			last := k.written.Conditions[kind]
			before.Conditions[kind] = last
			c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy(), last.LastTransitionTime
			if c.Status != last.Status {
				c.LastTransitionTime = c.LastHeartbeatTime
			}
			want.Conditions[kind], p.Conditions[kind] = c, &c
		}
	}
	//guard: labels that may be on the Node are known before they are written
	k.store(before)
	n, err := k.patch(ctx, p)
	if errors.Is(err, kubeapi.ErrGone) {
		before.Node, before.Cores, before.Seen = "", nil, nil
		k.store(before)
	}
	if err != nil {
		return n, err
	}
	k.looked = true
	after := k.written
	after.Labels, after.Conditions = n.Labels, n.Conditions
	if writes { // whatever something in between has made of it
		maps.Copy(after.Labels, want.Labels)
		maps.Copy(after.Conditions, want.Conditions)
	}
	k.store(after)
	if k.clears && removes {
		k.clears = false
		k.options.Log.Info("labels or the condition of the Node are removed: no option asks for them any more")
	}
	most := heartbeat
	if len(k.types) > 0 {
		most = repair
	}
	k.pause = min(2*k.pause, most)
	//guard: the heartbeats of many nodes are spread after an outage
	k.beat = now.Add(kubeapi.Spread(k.pause))
	return n, nil
}

// store keeps what is known for the next start, and for other programs.
func (k *Keeper) store(w node.Written) {
	w.Version = k.written.Version // of the file, which node.WriteWritten sets
	//guard: a file that could not be written is written later
	if reflect.DeepEqual(w, k.written) && !k.unsaved {
		return
	}
	k.written = w
	err, failed := node.WriteWritten(k.options.Node, w), k.unsaved
	if k.unsaved = err != nil; k.unsaved && !failed {
		k.options.Log.Error("what this program has written to the Node is not remembered over a restart", "error", err)
	}
}

// farewell makes the condition Unknown if the node is being shut down. While the node is off, and
// after a boot without a partition, no program writes it.
func (k *Keeper) farewell(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	now := time.Now()
	want := k.wanted(now)
	//guard: a plain stop of the monitor leaves the condition as it is
	//guard: a shutdown writes nothing after the removal at the end
	if k.ended || len(k.written.Conditions) == 0 || len(want.Conditions) == 0 || !k.options.Stopping(ctx) {
		return
	}
	stopping := condition(v1.ConditionUnknown, reasonStopping, "the node is being shut down")
	want.Conditions[kubeapi.Ready] = k.ofBoot(stopping)
	_, err := k.put(ctx, want, true, now)
	k.options.Count(err == nil)
}

// Remove removes what is on the Node, because the partitions are switched off and this program
// ends. Nothing is written after that.
func (k *Keeper) Remove(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended = true; k.written.IsEmpty() || !k.looked && !k.isRequested() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	k.types = nil
	looked := k.looked
	n, err := k.put(ctx, node.Written{}, true, time.Now())
	if err == nil && !looked { // what is ours was not known before
		n, err = k.put(ctx, node.Written{}, true, time.Now())
	}
	switch {
	case err == nil:
		err = k.putCores(ctx, n)
	//guard: labels whose removal is refused do not keep resources on the Node
	case !errors.Is(err, kubeapi.ErrGone) && !errors.Is(err, kubeapi.ErrUnreachable):
		if n, again := k.put(ctx, node.Written{}, false, time.Now()); again == nil {
			err = errors.Join(err, k.putCores(ctx, n))
		}
	}
	if err != nil && !errors.Is(err, kubeapi.ErrGone) && !errors.Is(err, kubeapi.ErrNoClient) {
		k.warnLeft(err)
	}
}

// warnLeft logs what may be left on the Node.
func (k *Keeper) warnLeft(err error) {
	names := make([]string, 0, len(k.written.Cores))
	for _, one := range slices.Sorted(maps.Keys(k.written.Cores)) {
		names = append(names, partition.WorkloadResource(one))
	}
	k.options.Log.Warn("the labels, the condition and the resources of the Node could not be removed; remove them with kubectl",
		"labels", kubeapi.Labels(), "condition", kubeapi.Ready, "resources", names, "error", err)
}
