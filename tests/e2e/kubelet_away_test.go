//go:build node

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

// kubeletAway is the time for which the kubelet is stopped. In a third of it the first container
// would count as one that does not come back.
const kubeletAway = 20 * time.Minute

// TestKubeletAway: while the kubelet is stopped, a namespace becomes a member, a partition is
// switched off, and a pod loses its right. Nobody would start a stopped container again, so that
// none is stopped. The pods are moved once the kubelet is back.
func TestKubeletAway(t *testing.T) {
	const (
		joins  = "joins"
		begin  = "systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n"
		change = "systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system, " + joins + "]}\n"
		types  = "workloadPartitions:\n  batch-jobs: {memoryLimit: 384Mi, namespaceAnnotation: false, allowedNamespaces: [%s]}\n"
		off    = "  telemetry: {memoryLimit: 384Mi, namespaces: [telemetry]}\n"
	)
	onOne(t, func(t *testing.T, flavour string) {
		w := newWorkloads(t, flavour, begin+fmt.Sprintf(types, batch)+off)
		small := resources("20m", "16Mi")
		pods := []struct {
			spec
			before, after partition.Name
		}{
			{spec{namespace: joins, name: "one", requests: small}, partition.Default, partition.System},
			{spec{namespace: joins, name: "two", requests: small}, partition.Default, partition.System},
			{spec{namespace: string(telemetry), name: "off", requests: small}, telemetry, partition.Default},
			{asking(spec{namespace: string(batch), name: "withdrawn", requests: small}, string(batch)), batch, partition.Default},
		}
		for _, p := range []partition.Name{joins, telemetry, batch} {
			w.namespace(t, p)
		}
		for _, pod := range pods {
			w.submit(t, pod.spec)
		}
		for _, pod := range pods {
			w.runsIn(t, pod.namespace, pod.name, pod.before, v1.PodQOSBurstable)
		}
		// The runtime removes the scope of a container that ends, and one that starts has another name.
		const scopes = "find /sys/fs/cgroup/kubepods.slice -name '*.scope' | sed 's|.*/||' | sort"
		w.before = w.containers(t)
		before := run(t, w.Node, scopes)
		run(t, w.Node, "systemctl stop kubelet.service")
		stopped := time.Now()
		configure(t, w.Node, change+fmt.Sprintf(types, "others"))
		wantMetric(t, w.Node, `nodepartition_misplaced_pods{partition="system",reason="no-kubelet"}`, 2)
		if out, err := w.Run(t.Context(), monitorPath+" move "+joins+"/one 2>&1"); err == nil || !strings.Contains(out, "no-kubelet") {
			t.Errorf("move says %q, %v; want that it waits for the kubelet", out, err)
		}
		for time.Since(stopped) < kubeletAway {
			if now := run(t, w.Node, "sleep 30; "+scopes); now != before {
				t.Fatalf("%s after the kubelet was stopped there are\n%s\nwant what was there before:\n%s", time.Since(stopped).Round(time.Second), now, before)
			}
		}
		run(t, w.Node, "systemctl start kubelet.service")
		if err := w.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			w.runsIn(t, pod.namespace, pod.name, pod.after, v1.PodQOSBurstable)
			now, err := w.control.Client().CoreV1().Pods(pod.namespace).Get(t.Context(), pod.name, metav1.GetOptions{})
			if err != nil || len(now.Status.ContainerStatuses) != 1 || now.Status.ContainerStatuses[0].RestartCount != 1 {
				t.Errorf("%s/%s has %+v, %v; want one restart, which moved it", pod.namespace, pod.name, now.Status.ContainerStatuses, err)
			}
		}
		w.ended(t, telemetry)
		after := w.containers(t)
		for _, pod := range pods {
			delete(after, pod.namespace+"/"+pod.name)
			delete(w.before, pod.namespace+"/"+pod.name)
		}
		if !maps.Equal(after, w.before) {
			t.Errorf("other containers before: %v\nand after: %v", w.before, after)
		}
	})
}
