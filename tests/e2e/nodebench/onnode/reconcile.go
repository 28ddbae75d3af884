package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

// sizes lists the numbers of pods. The last ones stay, for a scrape.
var sizes = []int{50, 200, 500}

const (
	// passes of each size that are timed, after those that still have work.
	passes = 15
	// atOnce is the number of concurrent requests for units where these are not measured.
	atOnce = 4
	// maxGrowth limits how much more ten times as many pods may cost: ten times, and the noise of a
	// busy machine.
	maxGrowth = 12.0
)

// node is a node with any number of pods. Their slices, their scopes with a process each, systemd
// and its bus are real. The runtime is a server that answers from memory, and the kubelet a map.
type node struct {
	systemd *systemd.Client
	runtime *runtimeServer
	kubelet fakeKubelet
	scopes  []string // of containers
	passed  chan time.Duration
	err     error // of the last reconcile

	reconciler *podmove.Reconciler
}

// reconcile measures passes: one that creates all slices of pods, one with nothing to do, and one
// that stops all.
func reconcile(ctx context.Context, _ settings) ([]figure.Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	n := &node{systemd: c, kubelet: fakeKubelet{}, passed: make(chan time.Duration, 1)}
	client, err := n.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	n.build(client)
	ended := make(chan error, 1)
	go func() { ended <- n.reconciler.Run(ctx) }()
	for range 2 { // the first one, and one for the configuration
		if _, _, err := n.pass(ctx, false); err != nil {
			return nil, err
		}
	}

	var figures []figure.Figure
	steady, making := map[int]time.Duration{}, map[int]time.Duration{}
	for i, size := range sizes {
		more, err := n.measure(ctx, size, i == len(sizes)-1, steady, making)
		if err != nil {
			return figures, fmt.Errorf("%d pods: %w", size, err)
		}
		figures = append(figures, more...)
	}
	cancel()
	<-ended
	first, last := sizes[0], sizes[len(sizes)-1]
	growth := func(what string, times map[int]time.Duration) figure.Figure {
		return figure.Figure{
			Name: fmt.Sprintf(
				"%s, %d pods to %d",
				what, last, first,
			),
			Value: float64(times[last]) / float64(times[first]),
			Limit: new(maxGrowth),
		}
	}
	return append(
		[]figure.Figure{growth("a pass with nothing to do", steady), growth("making all slices", making)},
		figures...), nil
}

func (n *node) measure(
	ctx context.Context,
	size int,
	keep bool,
	steady, making map[int]time.Duration,
) ([]figure.Figure, error) {
	if err := n.grow(ctx, size); err != nil {
		return nil, err
	}
	made, makeCalls, makeReconciles, err := n.makeAll(ctx)
	if err != nil {
		return nil, err
	}
	making[size] = made
	if err := n.startContainers(ctx); err != nil {
		return nil, err
	}
	// The first reconcile after that sets the partition's weights.
	for range 2 {
		if _, _, err := n.pass(ctx, true); err != nil {
			return nil, err
		}
	}
	var times []time.Duration
	var calls uint64
	for range passes {
		took, made, err := n.pass(ctx, true)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		calls += made
	}
	steady[size] = figure.Median(times)
	if err := n.wantAllPlaced(size); err != nil {
		return nil, err
	}
	figures := []figure.Figure{
		figure.Millis(reconcileName("a pass with nothing to do", size), times),
		{
			Name:  reconcileName("  D-Bus calls, in all of them", size),
			Value: float64(calls),
			Unit:  "calls",
			Limit: new(0.0),
			Note:  fmt.Sprintf("%d passes", passes),
		},
		{
			Name:  reconcileName("making all slices", size),
			Value: made.Seconds() * 1000,
			Unit:  "ms",
			Note:  fmt.Sprintf("%d passes", makeReconciles),
		},
		{Name: reconcileName("  D-Bus calls for each slice", size), Value: float64(makeCalls) / float64(size), Unit: "calls"},
	}
	if keep {
		return figures, nil
	}
	return n.measureStop(ctx, size, figures)
}

// makeAll creates all slices. On a very busy machine a reconcile ends before that, and the next one
// continues. The time between reconciles does not count.
func (n *node) makeAll(ctx context.Context) (took time.Duration, calls uint64, count int, err error) {
	for count = 1; ; count++ {
		more, moreCalls, err := n.pass(ctx, count == 1) // the others start by themselves
		took, calls = took+more, calls+moreCalls
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || count == 5 {
			return took, calls, count, err
		}
	}
}

// measureStop adds the cost of stopping the slices of all pods.
func (n *node) measureStop(ctx context.Context, size int, figures []figure.Figure) ([]figure.Figure, error) {
	if err := n.endPods(ctx); err != nil {
		return nil, err
	}
	stopped, stopCalls, err := n.pass(ctx, true)
	if err != nil {
		return nil, err
	}
	burstable := partition.QoSSlice(partition.System, v1.PodQOSBurstable)
	left, err := tree.Children(partition.CgroupPath(burstable))
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%d of %d slices are left in %s after the pass", len(left), size, burstable)
	}
	return append(
		figures,
		figure.Millis(reconcileName("a pass that stops all slices", size), []time.Duration{stopped}),
		figure.Figure{
			Name:  reconcileName("  D-Bus calls for each slice", size),
			Value: float64(stopCalls) / float64(size),
			Unit:  "calls",
		},
	), nil
}

func reconcileName(what string, size int) string { return fmt.Sprintf("  %s, %d pods", what, size) }

// wantAllPlaced checks that the reconciler has found every pod in its place.
func (n *node) wantAllPlaced(size int) error {
	placed := 0
	for _, pod := range n.reconciler.Report().Pods {
		if pod.Partition() == partition.System && pod.Containers == 1 && pod.Misplaced == 0 {
			placed++
		}
	}
	if placed != size {
		return fmt.Errorf("%d pods are placed, want %d", placed, size)
	}
	return nil
}

// build creates the reconciler as partition-monitor does.
func (n *node) build(client *cri.Client) {
	signals := podmove.NewSignals()
	placer := &nri.Plugin{Wake: func() {}, Announce: signals.Announce, Connection: func(bool) {}}
	n.reconciler = podmove.New(podmove.Options{
		Gatherer: &podmove.Gatherer{Cgroups: tree, Runtime: client, Kubelet: n.kubelet, Announced: placer},
		Units:    n.systemd,
		Placer:   placer,
		Events:   observer{n},
		NRI:      func() podmove.NRIState { return podmove.Working },
		Table:    &podmove.Table{},
		Signals:  signals,
		Tick:     time.Hour,
		Recover:  func(context.Context) {},
	})
	n.reconciler.SetConfig(podmove.Policy{
		Partitions: []decision.Partition{{Name: partition.System, Namespaces: []string{namespace}}},
		Mode:       podmove.Never,
	})
}

// pass waits for one reconcile, which it requests if wake is true. It returns how long the
// reconcile took and how many D-Bus calls it made.
func (n *node) pass(ctx context.Context, wake bool) (took time.Duration, calls uint64, err error) {
	before := n.systemd.Calls()
	if wake {
		n.reconciler.Wake()
	}
	select {
	case took = <-n.passed:
		return took, n.systemd.Calls() - before, n.err
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(3 * time.Minute):
		return 0, 0, errors.New("no pass")
	}
}

// grow adds pods until there are that many: their slices in the default partition and their
// sandboxes, and no container yet.
func (n *node) grow(ctx context.Context, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range size {
		uid, name := fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", i), fmt.Sprintf("pod-%d", i)
		n.runtime.addSandbox(i, name, uid)
		if n.kubelet[types.UID(uid)] != nil {
			continue
		}
		n.kubelet[types.UID(uid)] = knownPod(uid, name)
		group.Go(func() error {
			defaultSlice := partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid)
			if err := n.systemd.EnsureSlice(ctx, defaultSlice, podmove.Description(namespace, name), limits); err != nil {
				return err
			}
			return n.startScope(ctx, defaultSlice, scopeName(idOf('a', i)))
		})
	}
	return group.Wait()
}

func knownPod(uid, name string) *kubelet.Pod {
	return &kubelet.Pod{
		UID:           uid,
		Namespace:     namespace,
		Name:          name,
		QoS:           "Burstable",
		RestartPolicy: "Always",
		GracePeriod:   30 * time.Second,
		MilliCPU:      100,
		Containers:    map[string]kubelet.Container{"main": {}},
	}
}

// startContainers starts the container of each pod in its place.
func (n *node) startContainers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, uid := range n.runtime.uids() {
		scope := scopeName(idOf('c', i))
		n.scopes = append(n.scopes, scope)
		n.runtime.addContainer(i, uid)
		group.Go(func() error {
			return n.startScope(ctx, partition.PodSlice(partition.System, v1.PodQOSBurstable, uid), scope)
		})
	}
	return group.Wait()
}

// startScope starts a scope as runc does, with a process that sleeps.
func (n *node) startScope(ctx context.Context, slice, scope string) error {
	cmd := exec.Command("sleep", "infinity")
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return n.systemd.StartScope(ctx, scope, []systemd.Property{
		{
			Name:  "Description",
			Value: "Container of a benchmark",
		},
		{Name: "Slice", Value: slice},
		{Name: "Delegate", Value: true},
		{Name: "DefaultDependencies", Value: false},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "MemoryAccounting", Value: true},
		{Name: "CPUAccounting", Value: true},
		{Name: "IOAccounting", Value: true},
		{Name: "TasksAccounting", Value: true},
		{Name: "CPUWeight", Value: admission.QuadraticWeight.Weight(shares)},
	}, []uint32{uint32(cmd.Process.Pid)})
}

// endPods ends all pods, as runtime and kubelet do: their containers and sandboxes, and then their
// slices of the default partition. The monitor keeps its slice of a pod as long as that one exists.
func (n *node) endPods(ctx context.Context) error {
	uids := n.runtime.uids()
	scopes, defaultSlices := n.scopes, make([]string, 0, len(uids))
	for i, uid := range uids {
		scopes = append(scopes, scopeName(idOf('a', i)))
		defaultSlices = append(defaultSlices, partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid))
	}
	for _, step := range []struct {
		units []string
		stop  func(context.Context, string) error
	}{
		{scopes, n.systemd.StopScope},
		{defaultSlices, n.systemd.StopSlice},
	} {
		group, stopping := errgroup.WithContext(ctx)
		group.SetLimit(atOnce)
		for _, unit := range step.units {
			group.Go(func() error { return step.stop(stopping, unit) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	n.scopes = nil
	n.runtime.clear()
	clear(n.kubelet)
	return eventually(ctx, "no scope is left in the partition", func() bool {
		populated, err := tree.Populated(partition.CgroupPath("kubepods-system.slice"))
		return err == nil && !populated
	})
}

// idOf returns the ID of a container or a sandbox.
func idOf(kind rune, i int) string { return fmt.Sprintf("%c%063x", kind, i) }

// fakeKubelet is a podmove.Kubelet. It copies the map, as the real one does.
type fakeKubelet map[types.UID]*kubelet.Pod

func (k fakeKubelet) Pods() (map[types.UID]*kubelet.Pod, bool) { return maps.Clone(k), true }
func (k fakeKubelet) Answers() bool                            { return true }

// observer is notified of reconciles.
type observer struct{ *node }

func (o observer) Reconciled(took time.Duration, err error) {
	o.err = err
	o.passed <- took
}

func (observer) Placed(podmove.Placement)               {}
func (observer) NotPrepared(string, string, error)      {}
func (observer) Moving(podmove.Move, podmove.Container) {}
func (observer) Killing(string)                         {}
func (observer) Outlived(report.Outlived)               {}
func (observer) NotFollowed(report.Pod, string)         {}
func (observer) NotReady(podmove.Move)                  {}
