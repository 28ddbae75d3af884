//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// olderKubelet is the end of the name of a node whose kubelet has no Pods API.
const olderKubelet = "+kubelet-1.35"

// TestOlderKubelet: without the Pods API the partition is up before the kubelet, members are placed
// when they are created, and a leaking one is evicted before the kernel kills in the partition. No
// other pod is touched, not even to move it. check says what is missing. The node is made by name
// alone: make test-older.
func TestOlderKubelet(t *testing.T) {
	older := slices.DeleteFunc(allFlavours(), func(name string) bool { return !strings.HasSuffix(name, olderKubelet) })
	onEach(t, kinds(older), func(t *testing.T, flavour string) {
		n, control := bootsJoined(t, flavour, programs())
		want(t, n, "kubelet --version | grep -o 'v1[.][0-9]*'", "v1.35")
		inSlice(t, n, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
		wantMetric(t, n, `nodepartition_placements_total{method="creation",partition="system",result="success"}`, 1)
		want(t, n, monitorPath+" check --move=auto | grep -o 'no pod is restarted to be moved'", "no pod is restarted to be moved")

		// What was placed wrong stays until its next start.
		e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
		run(t, n, "systemctl stop "+monitorUnit)
		e.create(t, spec{namespace: members, name: "outside"})
		run(t, n, "systemctl start "+monitorUnit)
		eventually(t, n, "the pod outside is reported", func(ctx context.Context) (bool, string, error) {
			report, err := reportOf(ctx, n)
			for _, pod := range report.Pods {
				if pod.Name == "outside" {
					return pod.Misplaced == 1 && pod.Reason == podmove.ReasonUnknownPolicy, fmt.Sprintf("%+v", pod), err
				}
			}
			return false, "not in the report", err
		})
		e.remove(t, members, "outside")

		e.neighbours(t)
		e.leaks(t, leaker("leaker", "20Mi"))
		eventually(t, n, "the leaking pod is evicted", func(context.Context) (bool, string, error) {
			count := e.count(t)
			return count > 0, fmt.Sprint(count), nil
		})
		e.unharmed(t)
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}
