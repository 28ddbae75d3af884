package controller

import (
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
)

// LeaseName is the name of the Lease of the leader, in the controller's namespace.
const LeaseName = "node-partition-rollout"

// notOfDaemonSet selects pods that no DaemonSet has made: those have the label since Kubernetes
// 1.6.
var notOfDaemonSet = mustParse("!pod-template-generation")

func mustParse(text string) labels.Selector {
	s, err := labels.Parse(text)
	utilruntime.Must(err)
	return s
}

// gather is how long changes of objects are gathered for one decision.
const gather = 100 * time.Millisecond

// mapper knows the types of the cache. The API server is not asked for them: the controller starts
// while it is away.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	m := meta.NewDefaultRESTMapper(nil)
	for _, of := range []struct {
		version    schema.GroupVersion
		kind, name string
		scope      meta.RESTScope
	}{
		{v1.SchemeGroupVersion, "Node", "node", meta.RESTScopeRoot},
		{v1.SchemeGroupVersion, "Pod", "pod", meta.RESTScopeNamespace},
		{v1alpha1.GroupVersion, "NodePartition", "nodepartition", meta.RESTScopeRoot},
	} {
		one, many := of.version.WithResource(of.name), of.version.WithResource(of.name+"s")
		for _, kind := range []string{of.kind, of.kind + "List"} {
			m.AddSpecific(of.version.WithKind(kind), many, one, of.scope)
		}
	}
	return m, nil
}

// Addresses are those that the controller listens on; "0" for none.
type Addresses struct {
	Metrics, Health string
}

// New returns a manager that runs the controller while it is the leader.
func New(config *rest.Config, s nodepod.Settings, at Addresses) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	m, err := manager.New(config, manager.Options{
		Scheme: scheme, MapperProvider: mapper, Cache: cacheOptions(s.Namespace),
		// A decision sees what the one before it has done.
		Client:  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		Metrics: server.Options{BindAddress: at.Metrics}, HealthProbeBindAddress: at.Health,
		LeaderElection: true, LeaderElectionID: LeaseName, LeaderElectionNamespace: s.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// Nobody waits for the next leader, and an API server that is slow for half a minute costs none.
		LeaseDuration: ptr.To(time.Minute), RenewDeadline: ptr.To(40 * time.Second), RetryPeriod: ptr.To(8 * time.Second),
	})
	if err != nil {
		return nil, err
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := m.AddReadyzCheck("api", reaches(m.GetAPIReader())); err != nil {
		return nil, err
	}
	r := &Reconciler{
		Client: m.GetClient(), Direct: m.GetAPIReader(), Events: m.GetEventRecorder("node-partition"),
		Settings: s, Metrics: newMetrics(), Now: time.Now,
		written: map[string]time.Time{},
	}
	return m, r.setUp(m)
}

// reaches returns a check that the API server answers: a policy of the network or a proxy may keep
// the controller from it for ever.
func reaches(api client.Reader) healthz.Checker {
	return func(r *http.Request) error {
		return api.List(r.Context(), &v1alpha1.NodePartitionList{}, client.Limit(1))
	}
}

// setUp has each change lead to a decision. One decision is made at a time.
func (r *Reconciler) setUp(m manager.Manager) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 30*time.Second)
	return builder.ControllerManagedBy(m).Named("nodepartition").
		Watches(&v1alpha1.NodePartition{}, r.all(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectNew.GetDeletionTimestamp() != nil && e.ObjectOld.GetDeletionTimestamp() == nil
			}}))).
		Watches(&v1.Node{}, r.all(), builder.WithPredicates(predicate.Funcs{UpdateFunc: changed})).
		Watches(&v1.Pod{}, enqueue(func(_ context.Context, o client.Object) []string {
			return []string{o.GetAnnotations()[plan.PartitionAnnotation]}
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             limiter,
			SkipNameValidation:      ptr.To(true),
		}).
		Complete(r)
}

// changed reports whether a Node has changed in what is kept of it.
func changed(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1.Node)
	after, is := e.ObjectNew.(*v1.Node)
	if !ok || !is {
		return true
	}
	old := before.DeepCopy()
	old.ResourceVersion = after.ResourceVersion
	return !equality.Semantic.DeepEqual(old, after)
}

// all asks for a decision about each NodePartition: a Node may be of any, and they may overlap.
func (r *Reconciler) all() handler.EventHandler {
	return enqueue(func(ctx context.Context, _ client.Object) []string {
		var list v1alpha1.NodePartitionList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the manager stops
		}
		names := make([]string, 0, len(list.Items))
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	})
}

// enqueue asks for a decision soon: what happens meanwhile is part of the same one.
func enqueue(names func(context.Context, client.Object) []string) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, name := range names(ctx, o) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}, gather)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}
