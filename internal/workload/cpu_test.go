package workload

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestCPUOf: the request of the type's resource counts, whatever the annotation has for shares. A
// limit is a number within bounds, or none.
func TestCPUOf(t *testing.T) {
	t.Parallel()
	const prefix = "resources.workload.openshift.io/"
	for name, test := range map[string]struct {
		key, value, cores string
		want              CPU
	}{
		"no annotation":             {"", "", "400", CPU{Cores: 400}},
		"as OpenShift writes it":    {prefix + "main", `{"cpushares": 409, "cpulimit": 500}`, "400", CPU{Cores: 400, Limit: 500}},
		"shares above the request":  {prefix + "main", `{"cpushares": 262144}`, "400", CPU{Cores: 400}},
		"without a request":         {prefix + "main", `{"cpushares": 409}`, "0", CPU{}},
		"of another container":      {prefix + "other", `{"cpulimit": 500}`, "400", CPU{Cores: 400}},
		"CPUs of their choice":      {prefix + "main", `{"cpuset": "0"}`, "400", CPU{Cores: 400}},
		"a limit of nothing":        {prefix + "main", `{"cpulimit": 0}`, "1", CPU{Cores: 1}},
		"a negative limit":          {prefix + "main", `{"cpulimit": -1}`, "1", CPU{Cores: 1}},
		"a limit above all nodes":   {prefix + "main", `{"cpulimit": 256001}`, "1", CPU{Cores: 1}},
		"a limit with a fraction":   {prefix + "main", `{"cpulimit": 1.5}`, "1", CPU{Cores: 1}},
		"a limit that overflows":    {prefix + "main", `{"cpulimit": 1e99}`, "1", CPU{Cores: 1}},
		"a limit in quotes":         {prefix + "main", `{"cpulimit": "x"}`, "1", CPU{Cores: 1}},
		"something else":            {prefix + "main", `[1]`, "1", CPU{Cores: 1}},
		"more than all nodes have":  {"", "", "9000000000", CPU{Cores: 256_000}},
		"a value of the document's": {"io.openshift.workload.management.cpushares/main", "400", "300", CPU{Cores: 300}},
	} {
		requests := v1.ResourceList{"management.workload.openshift.io/cores": resource.MustParse(test.cores)}
		got := CPUOf(map[string]string{test.key: test.value}, "management", "main", requests)
		if got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
		if got := CPUOf(nil, "telemetry", "main", requests); got != (CPU{}) {
			t.Errorf("%s: another type has %+v", name, got)
		}
	}
}

// FuzzCPUOf: no annotation gives a container more than its request, or a limit out of range.
func FuzzCPUOf(f *testing.F) {
	f.Add(`{"cpushares": 409, "cpulimit": 500}`)
	f.Add(`{"cpulimit": "500"}`)
	f.Fuzz(func(t *testing.T, value string) {
		requests := v1.ResourceList{"a.workload.openshift.io/cores": *resource.NewQuantity(7, resource.DecimalSI)}
		got := CPUOf(map[string]string{resourcesPrefix + "c": value}, "a", "c", requests)
		if got.Cores != 7 || got.Limit < 0 || got.Limit > maxMilliCPU {
			t.Errorf("%+v of %q", got, value)
		}
	})
}
