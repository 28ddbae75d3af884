package podmove

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// TestReconcilerQuiet: while nothing happens, one tick in five minutes reconciles. An event does,
// and so does the next tick, because the kubelet may write after the event. Without a kubelet that
// answers, each tick reconciles.
func TestReconcilerQuiet(t *testing.T) {
	var nri atomic.Value
	for name, test := range map[string]struct {
		nri    NRIState
		away   bool
		event  func(*Reconciler)
		within time.Duration
		after  time.Duration // it is not noticed before
	}{
		"nothing tells of it":    {Working, false, func(*Reconciler) {}, 5*time.Minute + time.Second, 31 * time.Second},
		"an event":               {Working, false, func(r *Reconciler) { r.Wake() }, 3 * time.Second, 0},
		"eviction or a command":  {Working, false, func(r *Reconciler) { r.Urge() }, time.Second, 0},
		"the kubelet is away":    {Working, true, func(*Reconciler) {}, 31 * time.Second, 0},
		"the write is late":      {Working, false, nil, 32 * time.Second, 0},
		"the kubelet comes back": {Working, true, func(r *Reconciler) { r.Wake() }, 3 * time.Second, 0},
		"NRI is given up":        {Awaited, false, func(*Reconciler) { nri.Store(Unavailable) }, 31 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.placed()
				h.cgroup(defaultA, map[string]string{"memory.max": "1000"})
				r, _ := h.reconciler(Working, members)
				nri.Store(test.nri)
				r.options.NRI = func() NRIState { return nri.Load().(NRIState) }
				start(t, r)
				<-time.After(10*time.Minute + 10*time.Second)
				h.away(test.away)
				<-time.After(time.Minute)
				synctest.Wait()
				if test.event == nil {
					r.Wake()
					<-time.After(time.Second)
					synctest.Wait()
				}
				before := len(h.all())
				h.cgroup(defaultA, map[string]string{"memory.max": "2000"}) // resized in place
				if test.event != nil {
					test.event(r)
				}
				begin := time.Now()
				for {
					<-time.After(500 * time.Millisecond)
					synctest.Wait()
					limits, err := cgroups.FS(h.root).Limits(partitionA)
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(begin)
					if limits.MemoryMax == 2000 {
						if took < test.after || !slices.Contains(h.all()[before:], "ensure Pod kube-system/a") {
							t.Errorf("followed after %s, did %q", took, h.all()[before:])
						}
						return
					}
					if took > test.within {
						t.Fatalf("not followed after %s", took)
					}
				}
			})
		})
	}
}
