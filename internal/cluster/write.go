package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// send sends a patch, and sees in its answer what the Node has of ours. An empty patch changes
// nothing.
func (k *Keeper) send(ctx context.Context, p kubeapi.NodePatch, now time.Time) error {
	n, err := k.patch(ctx, p)
	switch {
	case errors.Is(err, kubeapi.ErrGone):
		k.seen = nil
		k.store(node.Written{})
	case errors.Is(err, kubeapi.ErrUnreachable):
		//guard: what a request without an answer has written is looked at
		k.seen = nil
	}
	if err != nil {
		return err
	}
	if c := n.Conditions[kubeapi.Pressure]; k.seen == nil && c.Status == v1.ConditionTrue && k.isOfBoot(c) {
		//guard: a pressure lasts for five minutes over a restart
		k.Pressed() // when it was is not known
	}
	k.seen = &n
	most := heartbeat
	if len(k.types) > 0 {
		most = repair
	}
	k.pause = min(2*k.pause, most)
	//guard: the heartbeats of many nodes are spread after an outage
	k.beat = now.Add(kubeapi.Spread(k.pause))
	return nil
}

// put writes the labels and conditions that the Node is to have, and removes those of ours that it
// has besides.
func (k *Keeper) put(ctx context.Context, want kubeapi.Node, now time.Time) error {
	p := kubeapi.NodePatch{Labels: map[string]*string{}, Conditions: map[v1.NodeConditionType]*v1.NodeCondition{}}
	unasked := false
	for name := range k.seen.Labels {
		p.Labels[name] = nil
		unasked = unasked || k.options.Facts == nil
	}
	for kind := range k.seen.Conditions {
		p.Conditions[kind] = nil
		unasked = unasked || k.options.Facts == nil && kind == kubeapi.Ready ||
			k.options.Memory == nil && kind == kubeapi.Pressure
	}
	for name, value := range want.Labels {
		p.Labels[name] = &value
	}
	for kind, c := range want.Conditions {
		last := k.seen.Conditions[kind]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy(), last.LastTransitionTime
		if c.Status != last.Status {
			c.LastTransitionTime = c.LastHeartbeatTime
		}
		want.Conditions[kind], p.Conditions[kind] = c, &c
	}
	if err := k.send(ctx, p, now); err != nil {
		return err
	}
	if unasked {
		k.options.Log.Info("labels or conditions of the Node are removed: no option asks for them any more")
	}
	// Whatever something in between has made of it.
	maps.Copy(k.seen.Labels, want.Labels)
	maps.Copy(k.seen.Conditions, want.Conditions)
	return nil
}

// farewell makes the conditions Unknown if the node is being shut down. While the node is off, and
// after a boot without a partition, no program writes them.
func (k *Keeper) farewell(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: a shutdown writes nothing after the removal at the end
	if k.ended || k.seen == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	now := time.Now()
	want := k.wanted(now)
	//guard: a plain stop of the monitor leaves the condition as it is
	if len(want.Conditions) == 0 || !k.options.Stopping(ctx) {
		return
	}
	for kind := range want.Conditions {
		want.Conditions[kind] = k.ofBoot(condition(kind, v1.ConditionUnknown, reasonStopping, "the node is being shut down"))
	}
	k.options.Count(k.put(ctx, want, now) == nil)
}

// Remove removes what is on the Node, because the partitions are switched off and this program
// ends. Nothing is written after that.
func (k *Keeper) Remove(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended = true; k.seen == nil && !k.isRequested() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	now := time.Now()
	k.types = nil
	var err error
	if k.seen == nil {
		err = k.send(ctx, kubeapi.NodePatch{}, now)
	}
	if k.seen != nil && k.differs(kubeapi.Node{}) {
		err = k.put(ctx, kubeapi.Node{}, now)
	}
	//guard: labels whose removal is refused do not keep resources on the Node
	if k.seen != nil {
		err = errors.Join(err, k.putCores(ctx, now))
	}
	if err != nil && !errors.Is(err, kubeapi.ErrGone) && !errors.Is(err, kubeapi.ErrNoClient) {
		names := make([]string, 0, len(k.written.Cores))
		for _, one := range slices.Sorted(maps.Keys(k.written.Cores)) {
			names = append(names, partition.WorkloadResource(one))
		}
		k.options.Log.Warn("the labels, conditions and resources of the Node could not be removed; remove them with kubectl",
			"labels", kubeapi.Labels(), "conditions", kubeapi.Conditions(), "resources", names, "error", err)
	}
}
