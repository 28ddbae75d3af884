package controller

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStripNode: the cache keeps what a decision reads of a Node, and nothing else.
func TestStripNode(t *testing.T) {
	t.Parallel()
	read := func() *v1.Node {
		n := &v1.Node{}
		n.Name, n.UID = "a", "b"
		n.Labels, n.Annotations = map[string]string{"pool": "x"}, map[string]string{"node-partition.io/rollout": "{}"}
		n.Spec.Unschedulable, n.Spec.Taints = true, []v1.Taint{{Key: "t"}}
		n.Status.NodeInfo.MachineID = "m"
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
		return n
	}
	n := read()
	n.Annotations["example.org/x"] = "y"
	n.Spec.PodCIDR, n.Status.Images, n.Status.NodeInfo.KernelVersion = "10.0.0.0/24", make([]v1.ContainerImage, 50), "6.12"
	n.Status.Conditions[0].Message, n.Status.Conditions[0].LastHeartbeatTime = "m", metav1.NewTime(time.Unix(2, 0))
	n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeDiskPressure})
	if got, err := stripNode(n); err != nil || !reflect.DeepEqual(got, read()) {
		t.Errorf("%v: %+v", err, got)
	}
}
