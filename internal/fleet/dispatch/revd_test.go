package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"nodepartition/internal/fleet"
)

// The numbers are to be said when nothing has happened for five minutes. The lock, which is renewed
// every 15 seconds, ends each wait before that.
func TestRevdProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.ends["worker-00"] = "hangs"
		w.roll(fleet.Install, 1, "")
		if !w.saidHas("waits for Jobs: ") {
			t.Errorf("in %s without a step: %q", jobDeadline, w.said)
		}
	})
}

// A removal leaves the Jobs of the roll in place, and a release that is installed again (Helm begins
// with revision 1, kustomize stays at it) is a roll of the same ID: it takes those Jobs for its own.
func TestRevdInstalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(2))
		w.want(w.roll(fleet.Uninstall, 1, "nodes: 2"), fleet.CodeDone, "2 nodes have nothing of it any more")
		made := len(w.order)
		report := w.roll(fleet.Install, 1, "nodes: 2")
		if len(w.order) != made+2 {
			t.Errorf("%d Jobs were made, and it says %q; labels of worker-00: %q", len(w.order)-made, report.Lines, w.labels("worker-00"))
		}
	})
}

// A Job that is removed for another attempt may stay for a while: a finalizer of another controller,
// or kubectl delete --cascade=foreground. The dispatcher must not ask without a pause meanwhile.
func TestRevdRemovedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.ends["worker-00"] = "4 error: x"
		w.roll(fleet.Uninstall, 1, "")
		w.ends = map[string]string{}
		changed, stays := w.api.Changed, true
		w.api.Changed = func(kind watch.EventType, object map[string]any) {
			if object["kind"] == "Job" && kind == watch.Deleted && stays {
				stays = false
				w.api.Put(jobsPath, object)
				return
			}
			changed(kind, object)
		}
		o, _ := w.dispatcher("a", fleet.Uninstall, 1, "")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		asked := 0
		w.api.Before = func(request string) (bool, error) {
			if request == postJob {
				if asked++; asked > 1000 {
					stop()
				}
			}
			return false, nil
		}
		start := time.Now()
		<-w.begin(ctx, o)
		if asked > 100 {
			t.Errorf("%d requests for one Job in %s", asked, time.Since(start))
		}
	})
}
