package budget

import (
	"reflect"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// TestKubeletFields compares the fields of Kubelet with those of the kubelet's type.
func TestKubeletFields(t *testing.T) {
	t.Parallel()
	testkit.CompareWithKubelet(t, reflect.TypeFor[Kubelet](), nil)
}
