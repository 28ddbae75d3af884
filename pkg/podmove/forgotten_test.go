package podmove

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const (
	leftID    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	leftScope = "cri-containerd-" + leftID + ".scope"
)

// outlive puts a process of a pod that is gone into the partition. Runtime and kubelet answer.
func (n *node) outlive() {
	n.pods = map[types.UID]*kubelet.Pod{uidA: {UID: uidA}}
	n.cgroup(partitionB+"/"+leftScope, map[string]string{"cgroup.events": "populated 1\nfrozen 0"})
	// CRI-O's monitor of a container is no container.
	n.cgroup(partitionB+"/crio-conmon-"+leftID+".scope", map[string]string{"cgroup.events": "populated 1"})
}

// movedLive gives the process a scope that a live move has made.
func (n *node) movedLive() {
	removeAll(n.t, filepath.Join(n.root, partitionB+"/"+leftScope))
	n.cgroup(partitionB+"/"+partition.LiveScope(leftScope), map[string]string{"cgroup.events": "populated 1"})
}

// TestGathererOutlived: processes count as forgotten when for a minute neither the runtime nor the
// kubelet has known their pod. Whatever speaks against it ends or restarts that minute.
func TestGathererOutlived(t *testing.T) {
	defaultB := "kubepods.slice/" + partition.PodSlice(partition.Default, v1.PodQOSGuaranteed, uidB)
	type result struct{ reported, due, killed bool }
	for name, test := range map[string]struct {
		change func(*node) // before the first reconcile
		midway func(*node) // after the first reconcile; there is another, and then midway2
		again  func(*node)
		want   result
	}{
		"nobody knows it": {want: result{true, true, true}},
		"the kubelet serves no Pods API": {
			change: func(n *node) { n.pods = nil }, want: result{true, true, false},
		},
		"the kubelet is away": {change: func(n *node) { n.silent = true }, want: result{true, true, false}},
		"the kubelet reported the pod, and is away": {change: func(n *node) {
			n.pods[uidB] = &kubelet.Pod{UID: uidB, Namespace: "kube-system", Name: "b"}
			n.silent = true
		}, want: result{true, true, false}},
		"the kubelet was away": {
			midway: func(n *node) { n.silent = true }, again: func(n *node) { n.silent = false }, want: result{true, false, false},
		},
		"the runtime was away": {
			midway: func(n *node) { n.err = errors.New("connection refused") }, again: func(n *node) { n.err = nil },
			want: result{true, false, false},
		},
		"the kubelet reports the pod": {
			change: func(n *node) { n.pods[uidB] = &kubelet.Pod{UID: uidB, Namespace: "kube-system", Name: "b"} },
		},
		"the kubelet has a slice of the pod": {change: func(n *node) { n.cgroup(defaultB, nil) }},
		"the kubelet had a slice of the pod": {
			midway: func(n *node) { n.cgroup(defaultB, nil) }, again: func(n *node) { removeAll(n.t, filepath.Join(n.root, defaultB)) },
			want: result{true, false, false},
		},
		"the kubelet has a slice of the pod, and it was moved live": {change: func(n *node) {
			n.movedLive()
			n.cgroup(defaultB, nil)
		}, want: result{true, true, true}},
		"the kubelet serves no Pods API, and it was moved live": {change: func(n *node) {
			n.movedLive()
			n.pods = nil
		}, want: result{true, true, true}},
		"the runtime lists the sandbox": {change: func(n *node) {
			n.sandboxes = append(n.sandboxes, cri.Sandbox{ID: "pause2", UID: uidB, Namespace: "kube-system", Name: "b"})
		}},
		"the runtime announced its sandbox": {change: func(n *node) {
			n.announced = []cri.Sandbox{{ID: "pause2", UID: uidB, Namespace: "kube-system", Name: "b", Ready: true}}
		}},
		"the runtime lists the container, and no sandbox": {change: func(n *node) {
			n.containers = append(n.containers, cri.Container{ID: leftID, SandboxID: "lost", State: cri.Exited})
		}},
		"it cannot be read": {change: func(n *node) {
			n.cgroup(partitionB+"/"+leftScope, map[string]string{"cgroup.events": "populated"})
		}},
		"it was empty": {
			midway: func(n *node) {
				n.cgroup(partitionB+"/"+leftScope, map[string]string{"cgroup.events": "populated 0"})
			},
			again: func(n *node) {
				n.cgroup(partitionB+"/"+leftScope, map[string]string{"cgroup.events": "populated 1"})
			},
			want: result{true, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.outlive()
				for _, change := range []*func(*node){&test.change, &test.midway, &test.again} {
					if *change == nil {
						*change = func(*node) {}
					}
				}
				g := n.gatherer()
				pass := func() (found []report.Outlived) {
					t.Helper()
					pods, err := g.found(t.Context())
					if (err != nil) != (n.err != nil) {
						t.Fatal(err)
					}
					d := Decide(snapshot(nil, pods...))
					if len(d.KillScopes) != 0 {
						t.Errorf("ends %q as if it were empty", d.KillScopes)
					}
					return d.Outlived
				}
				test.change(n)
				pass()
				<-time.After(outlivedAge / 2)
				test.midway(n)
				pass()
				test.again(n)
				<-time.After(outlivedAge/2 - 1)
				for _, o := range pass() {
					if o.Due {
						t.Errorf("%+v before a minute has passed", o)
					}
				}
				<-time.After(1)
				var got result
				for _, o := range pass() {
					if !strings.HasSuffix(o.Scope, leftScope) || o.Slice != filepath.Base(partitionB) {
						t.Errorf("%+v", o)
					}
					got = result{true, o.Due, o.Due && o.Kill}
				}
				if got != test.want {
					t.Errorf("reported, due, killed: %+v; want %+v", got, test.want)
				}
				if slices.ContainsFunc(pass(), func(o report.Outlived) bool { return o.Due }) {
					t.Error("due again right afterwards")
				}
			})
		})
	}
}

// TestReconcilerOutlived: what has outlived its pod is killed after a minute, again after another
// if it is still there, and then its slice is stopped. Where the kubelet cannot confirm that, it is
// reported, and nothing is killed.
func TestReconcilerOutlived(t *testing.T) {
	for name, api := range map[string]bool{"with the Pods API": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				pods := h.pods
				h.outlive()
				if h.pods = pods; !api {
					h.pods = nil
				}
				r, e := h.reconciler(Working, members)
				start(t, r)
				<-time.After(outlivedAge - time.Second)
				synctest.Wait()
				end := "kill " + leftScope
				if slices.Contains(h.all(), end) || len(e.outlived) != 0 {
					t.Errorf("did %q, reported %+v within a minute", h.all(), e.outlived)
				}
				if got := r.Report().Outlived; len(got) != 1 || got[0].Scope != leftScope {
					t.Errorf("the report has %+v", got)
				}
				<-time.After(2*time.Minute + 2*time.Second)
				synctest.Wait()
				kills := 0
				for _, did := range h.all() {
					if did == end {
						kills++
					}
				}
				// Passes are thirty seconds apart.
				if api && (kills < 2 || len(e.outlived) != kills) || !api && (kills != 0 || len(e.outlived) != 1) {
					t.Errorf("killed %d times, and reported %+v", kills, e.outlived)
				}
				h.mu.Lock()
				err := os.RemoveAll(filepath.Join(h.root, partitionB, leftScope))
				err = errors.Join(err, os.RemoveAll(filepath.Join(h.root, partitionB, "crio-conmon-"+leftID+".scope")))
				h.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if did := h.all(); !slices.Contains(did, "stop "+filepath.Base(partitionB)) || len(r.Report().Outlived) != 0 {
					t.Errorf("did %q, reported %+v; want the slice stopped", did, r.Report().Outlived)
				}
			})
		})
	}
}
