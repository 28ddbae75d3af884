//go:build node

package apitest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/plan"
)

var (
	many = flag.Int("nodes", 5000, "the number of nodes of TestThousands, at least 100")
	away = flag.Duration("away", 5*time.Minute, "how long the API server is away in TestThousands")
)

// TestThousands: a rollout over 5,000 nodes. It stops at failures and goes on, its API server is
// away, its leader is killed, and it is taken off again.
func TestThousands(t *testing.T) {
	c := newCluster(t)
	c.patience = 20 * time.Minute
	names := make([]string, *many)
	for i := range names {
		names[i] = fmt.Sprintf("node-%05d", i)
	}
	c.nodes(names...)
	share := max(1, *many*5/100)
	stop := c.run(nil)
	c.ends(names[*many/10], 1, record.Termination{Reason: "verify"})
	c.ends(names[*many/10+1], 1, record.Termination{Reason: "verify"})
	began := time.Now()
	c.partition()
	status := c.await(v1alpha1.Progressing, metav1.ConditionFalse, "Stopped")
	order := c.ran(0)
	if status.Nodes.Failed != 2 || len(order) > *many/10+2+2*share {
		t.Errorf("%d pods were made, and %+v; want a stop at the second failure", len(order), status.Nodes)
	}
	if order[0] != "apply "+names[0] {
		t.Errorf("the first is %s", order[0])
	}
	if got := c.labelled(plan.StateLabel + "=failed," + plan.ReasonLabel + "=verify"); got != 2 {
		t.Errorf("%d nodes have the label of a failure", got)
	}

	c.mu.Lock()
	clear(c.exits)
	c.mu.Unlock()
	c.unlabel(names[*many/10], names[*many/10+1])
	for len(c.ran(0)) < *many/2 {
		again(t.Context())
	}
	stop()
	stop = c.run(nil)
	for len(c.ran(0)) < *many*3/4 {
		again(t.Context())
	}
	c.must(c.Interrupt())
	c.wait(*away)
	c.must(c.Restore(t.Context()))
	status = c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	took := time.Since(began) - *away
	if status.Nodes.Current != int32(*many) || c.labelled(plan.StateLabel+"=kept,node-partition.io/section="+status.SectionHash[:12]) != *many {
		t.Errorf("%+v; want all nodes current", status.Nodes)
	}
	order = c.ran(0)
	if twice := len(order) - len(slices.Compact(slices.Sorted(slices.Values(order)))); twice != 2 {
		t.Errorf("%d nodes were tried twice; want the two that had failed", twice)
	}
	c.mu.Lock()
	requests, most := maps.Clone(c.used), c.most
	c.mu.Unlock()
	sum := 0
	for _, n := range requests {
		sum += n
	}
	if most > share {
		t.Errorf("%d nodes changed at once; want %d at most", most, share)
	}
	t.Logf("%d nodes in %s: %.2f requests a node, at most %d of %d at once; requests %v", *many, took, float64(sum)/float64(*many), most, share, requests)
	if sum > *many*9 {
		t.Errorf("%d requests for %d nodes", sum, *many)
	}

	// the program takes it off, and is killed meanwhile
	stop()
	made, began := len(order), time.Now()
	start := c.program()
	killed := start()
	c.must(c.admin.Delete(t.Context(), c.get()))
	c.eventually("half of it is removed", func(context.Context) (bool, string) { return len(c.ran(made)) > *many/2, "" })
	c.must(killed.Process.Kill())
	_ = killed.Wait()
	last := start()
	c.gone()
	resident, most := c.resident(last, "VmRSS"), c.resident(last, "VmHWM")
	t.Logf("removed in %s; %d MB resident, %d MB while it read the Nodes", time.Since(began), resident/1e6, most/1e6)
	if resident > 100e6 || most > 160<<20 { // the limit in the chart
		t.Errorf("the controller has %d MB, and had %d MB", resident/1e6, most/1e6)
	}
	if got := c.ran(made); len(got) != *many || !strings.HasPrefix(got[0], "remove ") {
		t.Errorf("%d pods removed it", len(got))
	}
	for _, label := range []string{plan.StateLabel, plan.ReasonLabel, "node-partition.io/version", "node-partition.io/section"} {
		if got := c.labelled(label); got != 0 {
			t.Errorf("%d nodes have the label %s", got, label)
		}
	}
}

// wait waits for a time that is part of the test.
func (c *cluster) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.t.Context().Done():
	}
}

// unlabel removes the state of nodes, as an operator does who has mended them.
func (c *cluster) unlabel(names ...string) {
	c.t.Helper()
	for _, name := range names {
		patch := fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, plan.StateLabel)
		_, err := c.kube.CoreV1().Nodes().Patch(c.t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		c.must(err)
	}
}

// TestLife: what an operator does with a NodePartition, and what it shows.
func TestLife(t *testing.T) {
	c := newCluster(t)
	c.nodes("a", "b", "c", "d")
	c.run(nil)
	c.ends("b", 3, record.Termination{Reason: "foreign-file", Message: "a package has it"})
	c.partition(func(p *v1alpha1.NodePartition) {
		p.Spec.Rollout.SurveyOnly, p.Spec.Rollout.MaxUnavailable = true, intstr.FromInt32(1)
		p.Spec.Rollout.Trial.Duration = 90500 * time.Millisecond
		p.Spec.MonitorArgs = []string{"--web.config.file=/etc/x.yaml", "--listen=[::]:9948"}
	})
	surveyed := c.await(v1alpha1.Progressing, metav1.ConditionFalse, "Surveyed")
	if surveyed.Nodes.Refused != 1 || c.labelled("node-partition.io/version") != 0 {
		t.Errorf("a survey: %+v", surveyed.Nodes)
	}
	c.ends("b", 0, record.Termination{})
	made := len(c.ran(0))
	c.change(func(p *v1alpha1.NodePartition) { p.Spec.Rollout.SurveyOnly = false })
	c.await(v1alpha1.Progressing, metav1.ConditionFalse, "Waiting")
	c.unlabel("b")
	c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	if got := c.ran(made); !slices.Equal(got, []string{"apply a", "apply c", "apply d", "apply b"}) {
		t.Errorf("%q", got)
	}
	c.eventually("an Event on the Node", func(ctx context.Context) (bool, string) {
		events, err := c.kube.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=b,reason=PartitionRefused"})
		return err == nil && len(events.Items) == 1, fmt.Sprint(err)
	})

	made = len(c.ran(0))
	c.change(func(p *v1alpha1.NodePartition) { p.Annotations = map[string]string{"applied": "again"} })
	c.nodes("e")
	c.eventually("a node that joins", func(context.Context) (bool, string) { return c.labelled(plan.StateLabel+"=kept") == 5, "" })
	if got := c.ran(made); !slices.Equal(got, []string{"apply e"}) {
		t.Errorf("a second apply of the same, and a new node: %q", got)
	}

	made = len(c.ran(0))
	for want, change := range map[string]func(*v1alpha1.NodePartition){
		"spec.section.systemPartition.memoryLimit": func(p *v1alpha1.NodePartition) { p.Spec.Section = limited("2GB") },
		"want 1m to 60m": func(p *v1alpha1.NodePartition) { p.Spec.Rollout.Trial.Duration = record.MaxTrial + time.Second },
	} {
		p := c.get()
		before := p.DeepCopy()
		change(p)
		if err := c.admin.Patch(t.Context(), p, client.MergeFrom(before)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the API server answers %v; want %s", err, want)
		}
	}
	c.change(func(p *v1alpha1.NodePartition) { // what the schema cannot say
		p.Spec.Section.Raw = []byte(`{"systemPartition": {"namespaces": ["a"]}, "workloadPartitions": {"infra": {"namespaces": ["a"]}}}`)
	})
	refused := c.await(v1alpha1.Accepted, metav1.ConditionFalse, "Invalid")
	c.change(func(p *v1alpha1.NodePartition) {
		p.Spec.Section = limited("3Gi")
		p.Spec.Rollout.Paused = true
	})
	c.await(v1alpha1.Progressing, metav1.ConditionFalse, "Paused")
	if got := c.ran(made); len(got) > 0 || refused.Nodes.Current != 0 {
		t.Errorf("refused and paused: %q, %+v", got, refused.Nodes)
	}
	c.change(func(p *v1alpha1.NodePartition) { p.Spec.Rollout.Paused = false })
	c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	c.must(c.admin.Delete(t.Context(), c.get()))
	c.gone()
}

// TestKilled: the leader dies at each of its writes, and another one goes on. Each node is changed
// once, and taken off once.
func TestKilled(t *testing.T) {
	c := newCluster(t)
	c.nodes("a", "b", "c")
	c.partition(func(p *v1alpha1.NodePartition) {
		p.Spec.Rollout.MaxUnavailable, p.Spec.Rollout.First = intstr.FromInt32(2), 0
		p.Spec.Rollout.Soak.Duration = time.Millisecond
	})
	life := func(done func() bool) (lives int) {
		for !done() {
			lives++
			var dead atomic.Bool
			var once sync.Once
			kill := make(chan struct{})
			stop := c.run(func(r *http.Request) *http.Response {
				if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/leases") || strings.Contains(r.URL.Path, "/events") {
					return nil
				}
				if dead.Swap(true) { // after its first write it does nothing more
					once.Do(func() { close(kill) })
					return answer(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
				}
				return nil
			})
			c.eventually("a second write, or the end", func(context.Context) (bool, string) {
				select {
				case <-kill:
					return true, ""
				default:
					return done(), ""
				}
			})
			stop()
		}
		return lives
	}
	kept := life(func() bool {
		made, owned := len(c.ran(0)), 0
		list, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		c.must(err)
		for _, n := range list.Items {
			if strings.Contains(n.Annotations[plan.RecordAnnotation], `"partition":"general"`) {
				owned++
			}
		}
		if made > owned {
			t.Errorf("%d pods were made, and %d nodes are recorded", made, owned)
		}
		return c.labelled(plan.StateLabel+"=kept") == 3
	})
	if got := slices.Sorted(slices.Values(c.ran(0))); !slices.Equal(got, []string{"apply a", "apply b", "apply c"}) {
		t.Errorf("%q", got)
	}
	c.must(c.admin.Delete(t.Context(), c.get()))
	removed := life(func() bool {
		var list v1alpha1.NodePartitionList
		c.must(c.admin.List(t.Context(), &list))
		return len(list.Items) == 0
	})
	if got := slices.Sorted(slices.Values(c.ran(3))); !slices.Equal(got, []string{"remove a", "remove b", "remove c"}) {
		t.Errorf("%q", got)
	}
	t.Logf("%d leaders until all nodes had it, %d until none", kept, removed)
}

// TestFaults: answers that an API server gives in bad times. The rollout ends all the same.
func TestFaults(t *testing.T) {
	c := newCluster(t)
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("node-%02d", i)
	}
	c.nodes(names...)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	type fault struct {
		status int
		reason metav1.StatusReason
	}
	var pods atomic.Pointer[fault]                                           // the answer to each pod
	pods.Store(&fault{http.StatusBadRequest, metav1.StatusReasonBadRequest}) // as Kyverno denies
	faults := []fault{
		{http.StatusConflict, metav1.StatusReasonConflict}, {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests},
		{http.StatusInternalServerError, metav1.StatusReasonInternalError}, {http.StatusGone, metav1.StatusReasonExpired},
		{http.StatusForbidden, metav1.StatusReasonForbidden},
	}
	choose := make(chan int)
	go func() {
		for {
			select {
			case choose <- random.IntN(4 * len(faults)):
			case <-t.Context().Done():
				return
			}
		}
	}()
	c.run(func(r *http.Request) *http.Response {
		if strings.Contains(r.URL.Path, "/leases") {
			return nil
		}
		if f := pods.Load(); f != nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
			return answer(r, f.status, f.reason)
		}
		select {
		case n := <-choose:
			if n < len(faults) {
				return answer(r, faults[n].status, faults[n].reason)
			}
		case <-r.Context().Done():
		}
		return nil
	})
	c.partition(func(p *v1alpha1.NodePartition) { p.Spec.Rollout.MaxUnavailable = intstr.FromInt32(8) })
	c.await(v1alpha1.Degraded, metav1.ConditionTrue, "NotAllowed")
	pods.Store(&fault{http.StatusInternalServerError, metav1.StatusReasonInternalError}) // its webhook is gone
	c.await(v1alpha1.Degraded, metav1.ConditionTrue, "RequestFailed")
	c.await(v1alpha1.Progressing, metav1.ConditionFalse, "RequestFailed")
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	c.must(err)
	for i := range nodes.Items {
		if claim, is := nodes.Items[i].Annotations[plan.RecordAnnotation]; is {
			t.Errorf("%s, whose pod is not made, has %s", nodes.Items[i].Name, claim)
		}
	}
	pods.Store(nil)
	status := c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	if status.Nodes.Failed != 0 || len(c.ran(0)) != len(names) {
		t.Errorf("%+v, and %d pods for %d nodes", status.Nodes, len(c.ran(0)), len(names))
	}
}

// TestRights: the controller uses each right of install.yaml, and no other.
func TestRights(t *testing.T) {
	c := newCluster(t)
	c.nodes("a", "b", "c")
	stop := c.run(nil)
	c.partition(func(p *v1alpha1.NodePartition) {
		p.Spec.Rollout.MaxUnavailable, p.Spec.Rollout.First = intstr.FromInt32(3), 0
	})
	c.await(v1alpha1.Available, metav1.ConditionTrue, "")
	c.must(c.admin.Delete(t.Context(), c.get()))
	c.gone()
	c.eventually("an Event", func(ctx context.Context) (bool, string) {
		list, err := c.kube.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) > 0, fmt.Sprint(err)
	})
	stop()
	var granted []string
	add := func(in string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, verb := range r.Verbs {
				granted = append(granted, verb+" "+strings.Trim(in+"/"+r.APIGroups[0]+"/"+r.Resources[0], "/"))
			}
		}
	}
	roles, err := c.kube.RbacV1().ClusterRoles().Get(t.Context(), "node-partition-rollout", metav1.GetOptions{})
	c.must(err)
	add("", roles.Rules)
	for _, in := range []string{namespace, "default"} {
		role, err := c.kube.RbacV1().Roles(in).Get(t.Context(), "node-partition-rollout", metav1.GetOptions{})
		c.must(err)
		add(in, role.Rules)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, right := range granted {
		// The right to list all pods is used in each namespace of the section.
		used := strings.Replace(right, "list pods", "list kube-system//pods", 1)
		// An Event that comes again is patched, which takes minutes.
		if c.used[used] == 0 && right != "patch default/events.k8s.io/events" {
			t.Errorf("no request needs the right to %s: %v", right, c.used)
		}
	}
}
