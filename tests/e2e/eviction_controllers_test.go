//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/pkg/evict"
)

// withControllers starts the controllers that create pods of a DaemonSet or a Job.
func (e *evictor) withControllers(t *testing.T) {
	t.Helper()
	if e.controllers {
		return
	}
	if err := e.control.StartControllers(t.Context(), "daemonset-controller", "job-controller"); err != nil {
		t.Fatal(err)
	}
	e.controllers = true
}

// rampDaemonSet leaks in a pod that its DaemonSet replaces. The next pod leaks as well, and is
// restarted and not evicted: otherwise the controller would create one after the other for ever.
func (e *evictor) rampDaemonSet(t *testing.T, d drawn) {
	labels, remove := e.daemonSet(t, d, e.template(d).Spec)
	seen := e.times(t, d, 2)
	if d.api && (seen[0].Method != evict.Evict || seen[1].Method != evict.Restart || seen[0].UID == seen[1].UID || seen[0].Owner != seen[1].Owner) {
		t.Errorf("first %+v\nthen  %+v\nwant one evicted for good, and the next one of the same owner restarted", seen[0], seen[1])
	}
	pods := e.labelled(t, labels)
	if len(pods) != 1 || string(pods[0].UID) != seen[1].UID {
		t.Errorf("%d pods of the set: %+v", len(pods), pods)
	}
	remove()
}

// rampDaemonSetTmpfs does the same with files in memory. Restarting the second pod frees nothing,
// so that one is evicted for good, too.
func (e *evictor) rampDaemonSetTmpfs(t *testing.T, d drawn) {
	pod := d.pod("", "/podtool", "fill", "/memory", d.mebibytes(20, 60), "1Gi").pod()
	inMemory(pod)
	before := e.noCandidates(t)
	_, remove := e.daemonSet(t, d, pod.Spec)
	if !d.api {
		e.times(t, d, 1)
		// Memory is low only for a short time each time, because the restarted container writes the files
		// again.
		eventually(t, e.Node, "it was said that no other pod can go", func(context.Context) (bool, string, error) {
			now := e.noCandidates(t)
			return now > before, fmt.Sprint(now), nil
		})
		remove()
		return
	}
	eventually(t, e.Node, "two pods of the set evicted for good", func(context.Context) (bool, string, error) {
		seen := e.named(t, d)
		return len(seen) >= 2 && seen[0].UID != seen[1].UID && seen[0].Method == evict.Evict && seen[1].Method == evict.Evict, fmt.Sprintf("%+v", seen), nil
	})
	remove()
}

// noCandidates returns how often a pod had to be evicted and there was no candidate.
func (e *evictor) noCandidates(t *testing.T) float64 {
	t.Helper()
	value, err := metric(t.Context(), e.Node, `nodepartition_eviction_no_candidates_total{partition="system"}`)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// daemonSet creates a DaemonSet of such a pod on this node. It returns the labels of its pods, and
// a function that removes everything.
func (e *evictor) daemonSet(t *testing.T, d drawn, pod v1.PodSpec) (labels map[string]string, remove func()) {
	t.Helper()
	e.withControllers(t)
	pod.NodeName = e.Hostname
	labels = map[string]string{"app": d.name}
	sets := e.control.Client().AppsV1().DaemonSets(members)
	if _, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return labels, func() {
		// A set that fits no node creates no pods. One that is deleted may create another: its
		// controller is notified later (seen with 1.37.0: the pod leaked in the next ramp).
		const none = `{"spec":{"template":{"spec":{"nodeSelector":{"no":"node"}}}}}`
		set, err := sets.Patch(t.Context(), d.name, types.StrategicMergePatchType, []byte(none), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		generation := set.Generation
		eventually(t, e.Node, "the set has seen that it fits no node", func(ctx context.Context) (bool, string, error) {
			set, err := sets.Get(ctx, d.name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			status := set.Status
			return status.ObservedGeneration >= generation && status.DesiredNumberScheduled == 0, fmt.Sprintf("%+v", status), nil
		})
		// The set keeps its pods, so it is deleted first.
		if err := sets.Delete(t.Context(), d.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.removeAll(t, labels)
	}
}

// rampJob leaks in a pod of a Job, and in the next one. That one is in the cooldown of the first
// and evicted nevertheless, because no controller would start it again. The Job ignores evictions
// and allows no other failure, so there is a next pod only if the API server was notified.
func (e *evictor) rampJob(t *testing.T, d drawn) {
	e.withControllers(t)
	once, none := int32(1), int32(0)
	labels := map[string]string{"app": d.name}
	template := e.template(d)
	template.Labels = labels
	template.Spec.RestartPolicy = v1.RestartPolicyNever
	jobs := e.control.Client().BatchV1().Jobs(members)
	if _, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		Spec: batchv1.JobSpec{
			Parallelism: &once, Completions: &once, BackoffLimit: &none, Template: template,
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
			}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if d.api {
		seen := e.times(t, d, 2)
		if seen[0].Method != evict.Evict || seen[1].Method != evict.Evict || seen[0].UID == seen[1].UID || seen[0].Owner != seen[1].Owner {
			t.Errorf("first %+v\nthen  %+v\nwant two of the same owner evicted for good", seen[0], seen[1])
		}
		e.through(t) // the API server cannot be notified about a pod that is deleted
	} else {
		e.times(t, d, 1)
	}
	if err := jobs.Delete(t.Context(), d.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.removeAll(t, labels)
}

// template returns the pod template from which a controller creates leaks on this node.
func (e *evictor) template(d drawn) v1.PodTemplateSpec {
	pod := d.pod("", "/podtool", "grow", d.mebibytes(8, 100), d.mebibytes(20, 60), "1Gi").pod()
	pod.Spec.NodeName = e.Hostname
	return v1.PodTemplateSpec{Spec: pod.Spec}
}

// named returns the evictions of a ramp's pods, the oldest first.
func (e *evictor) named(t *testing.T, d drawn) []evict.Eviction {
	t.Helper()
	return slices.DeleteFunc(e.account(t).evictions, func(v evict.Eviction) bool { return !strings.HasPrefix(v.Name, d.name+"-") })
}

// times waits until a ramp's pods have been evicted n times.
func (e *evictor) times(t *testing.T, d drawn, n int) []evict.Eviction {
	t.Helper()
	var seen []evict.Eviction
	eventually(t, e.Node, fmt.Sprintf("%d evictions", n), func(context.Context) (bool, string, error) {
		seen = e.named(t, d)
		return len(seen) >= n, fmt.Sprintf("%+v", seen), nil
	})
	return seen
}

// labelled returns the pods with these labels.
func (e *evictor) labelled(t *testing.T, labels map[string]string) []v1.Pod {
	t.Helper()
	list, err := e.control.Client().CoreV1().Pods(members).List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// removeAll deletes the pods with these labels, and those that their controller created before it
// stopped.
func (e *evictor) removeAll(t *testing.T, labels map[string]string) {
	t.Helper()
	now := int64(0)
	eventually(t, e.Node, "no pods of the controller", func(ctx context.Context) (bool, string, error) {
		pods := e.labelled(t, labels)
		for _, p := range pods {
			// A pod that is gone already needs no deletion. The next poll finds the rest.
			_ = e.control.Client().CoreV1().Pods(members).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		return len(pods) == 0, fmt.Sprint(len(pods)), nil
	})
	eventually(t, e.Node, "the kubelet has none of them", func(ctx context.Context) (bool, string, error) {
		pods, err := e.Pods(ctx)
		return err == nil && !slices.ContainsFunc(pods, func(p v1.Pod) bool { return p.Labels["app"] == labels["app"] }), "", err
	})
}
