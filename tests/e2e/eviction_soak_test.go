//go:build node

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// failed waits until a pod has ended for good. Between the death of its processes and the next
// start of the monitor the kubelet may have started its container again. If that one ends with
// status 0, the kubelet drops the reason of the phase, and leaves the phase and the condition
// (generateAPIPodStatus, 1.37.0).
func (e *evictor) failed(t *testing.T, name string) {
	t.Helper()
	eventually(t, e.Node, name+" failed", func(ctx context.Context) (bool, string, error) {
		pod, err := e.control.Client().CoreV1().Pods(members).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		target := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		})
		ended := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil
		return pod.Status.Phase == v1.PodFailed && target && ended, fmt.Sprintf("%+v", pod.Status), nil
	})
}

// TestSoakEvictions: RAMPS ramps and STORMS storms of all kinds, and KILLS evictions with the
// monitor killed in the middle, each on a node of its own.
func TestSoakEvictions(t *testing.T) {
	seed := seedFrom(t, "EVICTIONS_SEED")
	ramps, storms, kills := fromEnvironment(t, "RAMPS", 100), fromEnvironment(t, "STORMS", 30), fromEnvironment(t, "KILLS", 20)
	onOne(t, func(t *testing.T, flavour string) {
		t.Run("ramps", func(t *testing.T) {
			t.Parallel()
			soakRamps(t, flavour, ramps, rand.New(rand.NewPCG(seed, 0)))
		})
		t.Run("storms", func(t *testing.T) {
			t.Parallel()
			soakStorms(t, flavour, storms, rand.New(rand.NewPCG(seed, 1)))
		})
		t.Run("killed", func(t *testing.T) {
			t.Parallel()
			killer := filepath.Join(t.TempDir(), "killer")
			if err := testkit.Build("node-partition.io/node-partition/tests/e2e/killer", killer); err != nil {
				t.Fatal(err)
			}
			newEvictor(t, flavour, lab.File{Path: "/usr/local/bin/killer", Source: killer, Mode: 0o755}).killed(t, kills)
		})
	})
}

// killed: the monitor is killed when an eviction is written to its state file, and up to some
// milliseconds later.
func (e *evictor) killed(t *testing.T, times int) {
	t.Helper()
	run(t, e.Node, fmt.Sprintf("systemd-run --unit=killer -p StandardOutput=file:/run/killer killer %s %s %d", monitorUnit, evictionsFile, times))
	becomes(t, e.Node, "head -1 /run/killer", "watching")
	for i := range times {
		name := fmt.Sprintf("leaker-killed-%d", i)
		pod := e.leaks(t, leaker(name, "20Mi"))
		e.failed(t, name)
		becomes(t, e.Node, "grep -c '^killed' /run/killer", strconv.Itoa(i+1))
		becomes(t, e.Node, "systemctl is-active "+monitorUnit, "active")
		eventually(t, e.Node, "the eviction is through", func(context.Context) (bool, string, error) {
			h := e.history(t)
			return len(h.Open) == 0, fmt.Sprintf("%+v", h.Open), nil
		})
		if all := e.evictions(t, name); len(all) != 1 || all[0].UID != string(pod.UID) || all[0].Method != evict.Evict || all[0].Problem != "" {
			t.Errorf("%d evictions of %s: %+v", len(all), name, all)
		}
		e.unharmed(t)
		e.remove(t, members, name)
		if t.Failed() {
			t.Fatalf("after %d of %d: %s", i, times, run(t, e.Node, "cat /run/killer"))
		}
	}
	t.Log(run(t, e.Node, "cat /run/killer"))
}
