package dispatch

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodepartition/internal/fleet"
)

const allRemoved = "2 nodes have no file of it any more"

// TestInstalledAgain: what was removed gets new Jobs by the roll of before, whose ID and Jobs are the
// same: Helm begins with revision 1 again, and kustomize stays at it.
func TestInstalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		for range 2 {
			made := len(w.order)
			w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
			w.want(w.roll(fleet.Uninstall, 1, "nodes: 2"), fleet.CodeDone, allRemoved)
			if len(w.order) != made+4 || w.labels("worker-00")+w.labels("worker-01") != "" {
				t.Errorf("%d Jobs, labels of worker-00: %q", len(w.order)-made, w.labels("worker-00"))
			}
		}
		// A removal that did not reach all of them.
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
		w.node("worker-00", false)
		w.want(w.roll(fleet.Uninstall, 1, "nodes: 2"), fleet.CodeFailed,
			"1 node have no file of it any more, 1 not reached", "not reached: worker-00: not-ready: KubeletNotReady: no network")
		w.node("worker-00", true)
		made := len(w.order)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
		if made := w.order[made:]; len(made) != 1 || made[0] != "worker-01" {
			t.Errorf("made %q; want one for the node from which it was removed", made)
		}
	})
}

// TestOwnerGone: the Jobs of a release that was deleted without its removal say nothing about the one
// that is installed in its place. They keep their names until they are collected.
func TestOwnerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
		w.api.Drop(configPath, configMap)
		w.api.Put(configPath, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMap, Namespace: namespace}})
		const later = 10 * time.Minute
		time.AfterFunc(later, func() {
			for _, name := range w.api.Names(jobsPath) {
				w.api.Drop(jobsPath, name)
			}
		})
		start, made := time.Now(), len(w.order)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
		if took := time.Since(start); len(w.order) != made+2 || took < later || took > later+longestWait+2*jobTakes+time.Minute || !w.saidHas("waits until Job ") {
			t.Errorf("%d Jobs in %s, said %q", len(w.order)-made, took, w.said)
		}
	})
}

// TestRemovedStays: a Job that is removed for another attempt may stay for a while, by a finalizer of
// another controller or "kubectl delete --cascade=foreground". The dispatcher waits for longer and
// longer between two requests meanwhile.
func TestRemovedStays(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.ends["worker-00"] = "4 error: x"
			w.roll(fleet.Uninstall, 1, "")
			w.ends = map[string]string{}
			changed, stays := w.api.Changed, true
			w.api.Changed = func(kind watch.EventType, object map[string]any) {
				if object["kind"] == "Job" && kind == watch.Deleted && stays {
					stays = false
					if leaving {
						metadata, _ := object["metadata"].(map[string]any)
						metadata["deletionTimestamp"], metadata["uid"] = "2026-11-27T09:00:00Z", "of another dispatcher's"
					}
					w.api.Put(jobsPath, object)
					name := w.api.Names(jobsPath)[0]
					time.AfterFunc(10*time.Minute, func() { w.api.Drop(jobsPath, name) })
					return
				}
				changed(kind, object)
			}
			asked := 0
			w.api.Before = func(request string) (bool, error) {
				if request == postJob {
					asked++
				}
				return false, nil
			}
			w.want(w.roll(fleet.Uninstall, 1, ""), fleet.CodeDone, "1 node have no file of it any more")
			if asked > 40 {
				t.Errorf("leaving %t: %d requests for one Job in ten minutes", leaving, asked)
			}
		})
	}
}

// TestFoundJob: the Job that an attempt without an answer has made is found. One of the same name for
// another node, another Node of that name or another roll is not taken for it.
func TestFoundJob(t *testing.T) {
	for name, change := range map[string]func(*batchv1.Job){
		"ours":             func(*batchv1.Job) {},
		"another node":     func(j *batchv1.Job) { j.Annotations[fleet.NodeNameAnnotation] = "worker-01" },
		"a Node of before": func(j *batchv1.Job) { j.Annotations["node-partition.io/node-uid"] = "before" },
		"another roll":     func(j *batchv1.Job) { j.Labels[fleet.RollLabel] = "another" },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			o, _ := w.dispatcher("a", fleet.Install, 1, "")
			var n v1.Node
			w.api.Get(nodesPath, "worker-00", &n)
			var owner v1.ConfigMap
			w.api.Get(configPath, configMap, &owner)
			j := o.Template.For(&fleet.Node{Name: "worker-00", UID: string(n.UID)}, o.Plan, fleet.Owner{Name: configMap, UID: string(owner.UID)})
			j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
			change(j)
			// It is there at the first POST, after the lists.
			posted := false
			w.api.Refuse = func(line string, _ *http.Request) int {
				if line == postJob && !posted {
					posted = true
					w.api.Put(jobsPath, j)
				}
				return 0
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			report := Run(ctx, o)
			if name == "ours" {
				w.want(report, fleet.CodeDone, allKept(2))
				return
			}
			if len(report.Lines) != 1 || !strings.Contains(report.Lines[0], "only a dispatcher makes Jobs of that name: delete it") {
				t.Errorf("%s: %+v", name, report)
			}
		})
	}
}
