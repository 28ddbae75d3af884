package admission

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestLeftAlone: what asks for no type is not changed, and neither is a mirror pod.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"a": "b"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set)+len(e.Milli) != 0 {
		t.Errorf("%+v; want no change", e)
	}
	pod.Annotations = map[string]string{mirrorKey: "x", resourcesKey("c"): "y"}
	if e := Convert(nil, Namespace{}, pod); len(e.Remove)+len(e.Set) != 0 {
		t.Errorf("%+v; want no change of a mirror pod", e)
	}
	if err := Judge(nil, Namespace{}, pod); err != nil {
		t.Error(err)
	}
}
