package partition

import "testing"

// TestTypeOf: the resource of a type leads back to it, and others belong to no type.
func TestTypeOf(t *testing.T) {
	t.Parallel()
	if name := WorkloadResource("management"); name != "management.workload.openshift.io/cores" {
		t.Errorf("resource %q", name)
	}
	if got, ok := WorkloadOf(WorkloadResource("a-b")); !ok || got != "a-b" {
		t.Errorf("%q, %v", got, ok)
	}
	for _, name := range []string{"cpu", "example.com/cores", ".workload.openshift.io/cores", "a.workload.openshift.io/cpus"} {
		if got, ok := WorkloadOf(name); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
}
