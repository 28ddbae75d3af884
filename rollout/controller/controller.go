// Package controller carries out what package plan decides: it reads a cache, asks for a decision,
// and acts once. What it has to remember is in the objects.
package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/rollout/section"
)

// Finalizer keeps a NodePartition until no node has anything of it.
const Finalizer = "node-partition.io/nodes"

const (
	// atOnce is the number of requests that are under way at once.
	atOnce = 16
	// countsEvery is the time between two writes of a status in which only counts differ.
	countsEvery = 5 * time.Second
	// page is the number of pods in an answer of the API server.
	page = 500
)

// Reconciler changes the nodes of NodePartitions.
type Reconciler struct {
	// Client reads from a cache that has its own writes. Direct reads from the API server.
	Client   client.Client
	Direct   client.Reader
	Events   recorder.EventRecorder
	Settings nodepod.Settings
	Metrics  *Metrics
	Now      func() time.Time

	written map[string]time.Time // the last write of a status; one decision is made at a time
}

// Reconcile decides and acts once.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var p v1alpha1.NodePartition
	if err := r.Client.Get(ctx, request.NamespacedName, &p); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.forget(request.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if p.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(&p, Finalizer) {
		before := p.DeepCopy()
		controllerutil.AddFinalizer(&p, Finalizer)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, &p, patch); err != nil {
			return reconcile.Result{}, err
		}
	}
	if p.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(&p, Finalizer) {
		return reconcile.Result{}, nil
	}
	in, s, err := r.input(ctx, &p)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := plan.Decide(in)
	acted := r.act(ctx, &p, s, in.Want, d)
	again, err := r.status(ctx, &p, d, acted)
	if err := errors.Join(acted, err); err != nil {
		return reconcile.Result{}, err
	}
	if d.Finished {
		before := p.DeepCopy()
		controllerutil.RemoveFinalizer(&p, Finalizer)
		err := r.Client.Patch(ctx, &p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if d.Again > 0 && (again == 0 || d.Again < again) {
		again = d.Again
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// input reads what a decision is made from. The objects of the lists are the cache's own.
func (r *Reconciler) input(ctx context.Context, p *v1alpha1.NodePartition) (plan.Input, section.Section, error) {
	in := plan.Input{Partition: p, Now: r.Now()}
	shared := client.UnsafeDisableDeepCopy
	var all v1alpha1.NodePartitionList
	var nodes v1.NodeList
	var pods v1.PodList
	for _, list := range []client.ObjectList{&all, &nodes, &pods} {
		if err := r.Client.List(ctx, list, shared); err != nil {
			return in, section.Section{}, err
		}
	}
	in.All, in.Nodes, in.Pods = pointers(all.Items), pointers(nodes.Items), pointers(pods.Items)
	s, err := section.Of(p.Spec)
	in.Invalid, in.Warnings = err, s.Warnings
	in.Want = plan.Want{Version: r.Settings.Version, SectionHash: s.Hash, MonitorArgs: p.Spec.MonitorArgs}
	return in, s, nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// act writes what has ended, deletes pods, and makes those of the nodes that change next.
func (r *Reconciler) act(
	ctx context.Context, p *v1alpha1.NodePartition, s section.Section, want plan.Want, d plan.Decision,
) error {
	err := each(ctx, d.Ends, func(ctx context.Context, e plan.End) error { return r.end(ctx, p, e) })
	// no node changes in the place of one whose end is not written
	if err != nil {
		return err
	}
	if err := each(ctx, d.Deletes, r.remove); err != nil {
		return err
	}
	if d.Free == 0 || len(d.Starts) == 0 {
		return nil
	}
	replicas := plan.Replicas{}
	if d.Free > 1 || len(d.Busy) > 0 {
		if err := r.replicas(ctx, s.Namespaces, replicas); err != nil {
			return err
		}
	}
	return each(ctx, d.Pick(replicas), func(ctx context.Context, start plan.Start) error {
		create := func(options *client.CreateOptions) error {
			err := r.Client.Create(ctx, nodepod.Of(r.Settings, p, s, want.Key(), start), options)
			if err != nil {
				return fmt.Errorf("make the pod of node %s: %w", start.Node, err)
			}
			return nil
		}
		if start.Claim != nil {
			// The claim and its removal change the Node, and each change causes a reconcile. So a dry
			// run comes first. It makes no object, for which the cache would wait. Another failure may be
			// over by the real request.
			err := create(&client.CreateOptions{DryRun: []string{metav1.DryRunAll}, DisableReadYourWritesConsistency: true})
			if hindered(err) != "" || apierrors.IsAlreadyExists(err) {
				return client.IgnoreAlreadyExists(err)
			}
			if err := r.end(ctx, p, *start.Claim); err != nil {
				return err
			}
		}
		err := create(&client.CreateOptions{})
		// a denied pod has changed nothing; a dry run takes nothing of a quota
		if start.Claim != nil && hindered(err) == notAllowed {
			before := *start.Claim
			before.Record = before.Node.Annotations[plan.RecordAnnotation]
			err = errors.Join(err, r.end(ctx, p, before))
		}
		return client.IgnoreAlreadyExists(err) // a node has one pod at a time
	})
}

// The reasons of requests that have failed.
const (
	notAllowed    = "NotAllowed"
	requestFailed = "RequestFailed"
)

// hindered returns why the API server does not do what it is asked for, and "" if the next try may
// do. A webhook that denies has any status: Kyverno's is 400. The API server answers 500 while it
// cannot call one, and 504 after several that it may do without.
func hindered(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return ""
	}
	switch code := answer.Status().Code; {
	case code == http.StatusConflict, code == http.StatusGone, code == http.StatusTooManyRequests:
		return ""
	case code == http.StatusInternalServerError, code == http.StatusGatewayTimeout:
		return requestFailed
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return notAllowed
	default:
		return ""
	}
}

// each calls do for each item, some at once. All are tried. It returns the first error that is a
// reason of a condition, or else the first.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	errs := make([]error, len(items))
	for i, item := range items {
		group.Go(func() error {
			errs[i] = do(ctx, item)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	if i := slices.IndexFunc(errs, func(err error) bool { return hindered(err) != "" }); i >= 0 {
		return errs[i]
	}
	return cmp.Or(errs...)
}

// end writes the end of a node's try on the Node, and deletes its pod.
func (r *Reconciler) end(ctx context.Context, p *v1alpha1.NodePartition, e plan.End) error {
	annotation := map[string]any{plan.RecordAnnotation: nil}
	if e.Record != "" {
		annotation[plan.RecordAnnotation] = e.Record
	}
	// a Node that was made again with the same name is not written
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": e.Node.UID, "labels": e.Labels, "annotations": annotation},
	})
	if err != nil {
		return err
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Node.Name}}
	err = r.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, data))
	switch {
	case apierrors.IsNotFound(err): // it has left
		return nil
	case err != nil:
		return fmt.Errorf("write node %s: %w", e.Node.Name, err)
	}
	if e.State != "" {
		r.tell(p, e)
	}
	if e.Pod != nil {
		return r.remove(ctx, e.Pod)
	}
	return nil
}

// tell has an Event on the Node.
func (r *Reconciler) tell(p *v1alpha1.NodePartition, e plan.End) {
	r.Metrics.tried(p.Name, e.State)
	kind, reason := v1.EventTypeWarning, map[string]string{
		plan.Failed: "PartitionFailed", plan.Refused: "PartitionRefused", plan.Skipped: "PartitionSkipped",
	}[e.State]
	switch {
	case reason != "":
	case e.State == plan.Kept:
		kind, reason = v1.EventTypeNormal, "PartitionKept"
	default:
		kind, reason = v1.EventTypeNormal, "PartitionRemoved"
	}
	r.Events.Eventf(e.Node, p, kind, reason, "Change", "%s", p.Name+": "+strings.TrimSpace(e.Reason+" "+e.Message))
}

// remove deletes a pod.
func (r *Reconciler) remove(ctx context.Context, p *v1.Pod) error {
	named := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}}
	err := r.Client.Delete(ctx, named, client.Preconditions{UID: &p.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", p.Name, err)
	}
	return nil
}

// replicas reads the pods of namespaces, page by page. A watch of them would be a copy of all pods.
func (r *Reconciler) replicas(ctx context.Context, namespaces []string, add plan.Replicas) error {
	notOfDaemonSets := client.MatchingLabelsSelector{Selector: notOfDaemonSet}
	for _, namespace := range namespaces {
		token := ""
		for {
			var pods v1.PodList
			in, next := client.InNamespace(namespace), client.Continue(token)
			err := r.Direct.List(ctx, &pods, in, notOfDaemonSets, client.Limit(page), next)
			if err != nil {
				return fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
			}
			for i := range pods.Items {
				add.Add(&pods.Items[i])
			}
			if token = pods.Continue; token == "" {
				break
			}
		}
	}
	return nil
}

// status writes the status, unless it is as it was. It returns when to write counts that differ.
func (r *Reconciler) status(
	ctx context.Context, p *v1alpha1.NodePartition, d plan.Decision, acted error,
) (time.Duration, error) {
	before := p.DeepCopy()
	conditions := p.Status.Conditions
	p.Status = d.Status
	p.Status.Conditions = conditions
	news, reason := false, hindered(acted)
	for _, c := range d.Status.Conditions {
		switch {
		case reason == "":
		// what is wrong besides stays to be read
		case c.Type == v1alpha1.Degraded && c.Status == metav1.ConditionFalse:
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason, plan.Message(acted.Error())
		case c.Type == v1alpha1.Progressing && c.Status == metav1.ConditionTrue && d.Status.Nodes.Updating == 0:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, plan.Message(acted.Error())
		}
		was := meta.FindStatusCondition(conditions, c.Type)
		news = news || was == nil || was.Status != c.Status || was.Reason != c.Reason ||
			was.ObservedGeneration != c.ObservedGeneration
		meta.SetStatusCondition(&p.Status.Conditions, c)
	}
	r.Metrics.set(p)
	if equality.Semantic.DeepEqual(before.Status, p.Status) {
		return 0, nil
	}
	now := r.Now()
	if left := r.written[p.Name].Add(countsEvery).Sub(now); !news && left > 0 {
		return left, nil
	}
	if err := r.Client.Status().Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.written[p.Name] = now
	return 0, nil
}
