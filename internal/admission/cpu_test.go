package admission

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/text"
)

// requesting returns a container that requests an amount of a resource; none if it is empty.
func requesting(name, amount string, what v1.ResourceName) v1.Container {
	c := v1.Container{Name: name}
	if amount != "" {
		list := v1.ResourceList{what: resource.MustParse(amount)}
		c.Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	}
	return c
}

func cores(name, amount string) v1.Container {
	return requesting(name, amount, "management.workload.openshift.io/cores")
}

// TestCPUOf: the request of the resource counts, whatever annotations have for shares. A limit is a
// number within bounds, beside the shares of the request, or none.
func TestCPUOf(t *testing.T) {
	t.Parallel()
	const key, document = "resources.workload.openshift.io/main", "io.openshift.workload.management.cpushares/main"
	for name, test := range map[string]struct {
		key, value, cores string
		want              CPU
		// flaw is a part of the message, empty for none.
		flaw string
	}{
		"no annotation":                   {"", "", "400", CPU{Request: 400}, ""},
		"as a conversion writes it":       {key, `{"cpushares":409,"cpulimit":500}`, "400", CPU{400, 500}, ""},
		"with spaces":                     {key, ` {"cpushares": 409} `, "400", CPU{Request: 400}, ""},
		"a limit alone":                   {key, `{"cpulimit":500}`, "400", CPU{400, 500}, ""},
		"shares above the request":        {key, `{"cpushares":262144,"cpulimit":500}`, "400", CPU{Request: 400}, "cpushares of " + key},
		"shares below the request":        {key, `{"cpushares":2}`, "400", CPU{Request: 400}, "is not 409"},
		"shares out of range":             {key, `{"cpushares":-1}`, "400", CPU{Request: 400}, "is not 409"},
		"shares that are no number":       {key, `{"cpushares":"many"}`, "400", CPU{Request: 400}, "is not an object"},
		"without a request":               {key, `{"cpushares":409,"cpulimit":500}`, "", CPU{}, ""},
		"of another container":            {"resources.workload.openshift.io/other", `{"cpulimit":500}`, "400", CPU{Request: 400}, ""},
		"CPUs of their choice":            {key, `{"cpuset":"0"}`, "400", CPU{Request: 400}, ""},
		"a limit of nothing":              {key, `{"cpulimit":0}`, "1", CPU{Request: 1}, "from 1 to 256000"},
		"a negative limit":                {key, `{"cpulimit":-1}`, "1", CPU{Request: 1}, "from 1 to 256000"},
		"the largest limit":               {key, `{"cpulimit":256000}`, "1", CPU{1, 256_000}, ""},
		"a limit above all nodes":         {key, `{"cpulimit":256001}`, "1", CPU{Request: 1}, "from 1 to 256000"},
		"a limit with a fraction":         {key, `{"cpulimit":1.5}`, "1", CPU{Request: 1}, "from 1 to 256000"},
		"a limit that overflows":          {key, `{"cpulimit":1e99}`, "1", CPU{Request: 1}, "from 1 to 256000"},
		"something else":                  {key, `[1]`, "1", CPU{Request: 1}, "is not an object"},
		"too long":                        {key, strings.Repeat(" ", 1<<10) + `{"cpulimit":1}`, "1", CPU{Request: 1}, "is not an object"},
		"more than all nodes have":        {"", "", "9223372036854775807", CPU{Request: text.MaxMilliCPU}, ""},
		"the document's, of the request":  {document, "400", "400", CPU{Request: 400}, ""},
		"the document's, of another size": {document, "4000", "400", CPU{Request: 400}, document + " is not 400"},
		"the document's, no number":       {document, "x", "400", CPU{Request: 400}, document + " is not 400"},
	} {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{test.key: test.value}},
			Spec:       v1.PodSpec{Containers: []v1.Container{cores("main", test.cores)}},
		}
		got := CPUOf(pod, "management")
		if got.CPU != test.want || got.Containers["main"] != test.want || got.Type != "management" {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
		if (got.Flaw == "") != (test.flaw == "") || !strings.Contains(got.Flaw, test.flaw) || got.Flaw != "" && !strings.HasPrefix(got.Flaw, "container main: ") {
			t.Errorf("%s: flaw %q; want %q", name, got.Flaw, test.flaw)
		}
		if got := CPUOf(pod, "telemetry"); got.CPU != (CPU{}) || len(got.Containers) > 0 || got.Flaw != "" {
			t.Errorf("%s: another type has %+v", name, got)
		}
	}
}

// TestCPUOfPod: the pod has what the kubelet would count if the resource were CPU: the sum of the
// containers and sidecars, or an init container that is larger.
func TestCPUOfPod(t *testing.T) {
	t.Parallel()
	sidecar := func(c v1.Container) v1.Container {
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		return c
	}
	cpu := func(name, amount string) v1.Container { return requesting(name, amount, v1.ResourceCPU) }
	for name, test := range map[string]struct {
		init, containers []v1.Container
		limits           map[string]int
		want             CPU
	}{
		"two containers":                {nil, []v1.Container{cores("a", "400"), cores("b", "100")}, nil, CPU{Request: 500}},
		"a large init container":        {[]v1.Container{cores("i", "700")}, []v1.Container{cores("a", "400"), cores("b", "100")}, nil, CPU{Request: 700}},
		"a small one":                   {[]v1.Container{cores("i", "300")}, []v1.Container{cores("a", "400")}, nil, CPU{Request: 400}},
		"a sidecar":                     {[]v1.Container{sidecar(cores("s", "50")), cores("i", "700")}, []v1.Container{cores("a", "400")}, nil, CPU{Request: 750}},
		"one without the resource":      {nil, []v1.Container{cores("a", "400"), cores("b", "")}, nil, CPU{Request: 400}},
		"one with a request of CPU":     {nil, []v1.Container{cores("a", "400"), cpu("b", "1")}, nil, CPU{Request: 400}},
		"none with the resource":        {nil, []v1.Container{cpu("a", "1")}, map[string]int{"a": 500}, CPU{}},
		"all with a limit":              {nil, []v1.Container{cores("a", "400"), cores("b", "100")}, map[string]int{"a": 500, "b": 105}, CPU{500, 605}},
		"one without a limit":           {nil, []v1.Container{cores("a", "400"), cores("b", "100")}, map[string]int{"a": 500}, CPU{Request: 500}},
		"one with a limit of CPU":       {nil, []v1.Container{cores("a", "400"), cpu("b", "1")}, map[string]int{"a": 500}, CPU{400, 1500}},
		"an init container with a":      {[]v1.Container{cores("i", "10")}, []v1.Container{cores("a", "400")}, map[string]int{"a": 500, "i": 900}, CPU{400, 900}},
		"an init container without":     {[]v1.Container{cores("i", "10")}, []v1.Container{cores("a", "400")}, map[string]int{"a": 500}, CPU{Request: 400}},
		"a sum that would overflow":     {nil, []v1.Container{cores("a", "9223372036854775807"), cores("b", "9223372036854775807")}, nil, CPU{Request: text.MaxMilliCPU}},
		"a limit of CPU beyond numbers": {nil, []v1.Container{cores("a", "1"), cpu("b", "9223372036854775807")}, map[string]int{"a": 1}, CPU{1, text.MaxMilliCPU}},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: test.init, Containers: test.containers}}
		pod.Annotations = map[string]string{}
		for name, limit := range test.limits {
			pod.Annotations["resources.workload.openshift.io/"+name] = `{"cpulimit":` + strconv.Itoa(limit) + `}`
		}
		if got := CPUOf(pod, "management"); got.CPU != test.want {
			t.Errorf("%s: %+v; want %+v", name, got.CPU, test.want)
		}
	}
}

// TestAnnotated: a container has the CPU time that both of its annotations say. A container that no
// conversion leaves so has none.
func TestAnnotated(t *testing.T) {
	t.Parallel()
	const shipped, document = "resources.workload.openshift.io/", "io.openshift.workload.management.cpushares/"
	for name, test := range map[string]struct {
		annotations map[string]string
		want        map[string]CPU
		sum         int64
		// flaw is a part of the message, empty for none.
		flaw string
	}{
		"none":                      {nil, nil, 0, ""},
		"as a conversion writes it": {map[string]string{document + "a": "400", shipped + "a": `{"cpushares":409,"cpulimit":500}`}, map[string]CPU{"a": {400, 500}}, 400, ""},
		"two containers": {
			map[string]string{document + "a": "400", document + "b": "100", shipped + "a": `{"cpushares":409}`, shipped + "b": `{"cpushares":102}`},
			map[string]CPU{"a": {Request: 400}, "b": {Request: 100}}, 500, "",
		},
		"best effort":                 {map[string]string{document + "a": "0", shipped + "a": `{"cpushares":2}`}, nil, 0, ""},
		"shares without the request":  {map[string]string{shipped + "a": `{"cpushares":262144}`}, nil, 0, ""},
		"the shares are not the same": {map[string]string{document + "a": "400", shipped + "a": `{"cpushares":262144}`}, nil, 0, "is not 409"},
		"no number":                   {map[string]string{document + "a": "1e9"}, nil, 0, "is not a whole number"},
		"a negative number":           {map[string]string{document + "a": "-400"}, nil, 0, "is not a whole number"},
		"a number that overflows":     {map[string]string{document + "a": "9223372036854775808"}, nil, 0, "is not a whole number"},
		"of another type":             {map[string]string{"io.openshift.workload.web.cpushares/a": "400"}, nil, 0, ""},
		"more than there are shares":  {map[string]string{document + "a": "1000000000", document + "b": "1000000000"}, map[string]CPU{"a": {Request: 1_000_000_000}, "b": {Request: 1_000_000_000}}, maxWeighed, ""},
	} {
		got := Annotated(test.annotations, "management")
		if !maps.Equal(got.Containers, test.want) || got.CPU != (CPU{Request: test.sum}) || got.Type != "management" {
			t.Errorf("%s: %+v; want %v", name, got, test.want)
		}
		if !strings.Contains(got.Flaw, test.flaw) || (got.Flaw == "") != (test.flaw == "") {
			t.Errorf("%s: the flaw is %q; want %q", name, got.Flaw, test.flaw)
		}
		if rest := got.Without(func(name string) bool { return name == "b" }); rest.Request != min(got.Containers["a"].Request, maxWeighed) {
			t.Errorf("%s: %+v without b", name, rest)
		}
	}
}

// FuzzCPUOf: no annotation gives a container more than its request, or a limit out of range, and
// the message is bounded.
func FuzzCPUOf(f *testing.F) {
	f.Add(`{"cpushares":409,"cpulimit":500}`, "400", int64(400))
	f.Add(`{"cpulimit":-9223372036854775808}`, "x", int64(math.MaxInt64))
	f.Add("{", "", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, shipped, document string, request int64) {
		c := v1.Container{Name: "main"}
		c.Resources.Requests = v1.ResourceList{resourceOf("management"): *resource.NewQuantity(request, resource.DecimalSI)}
		annotations := map[string]string{resourcesKey("main"): shipped, documentKey("management", "main"): document}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(annotations)}, Spec: v1.PodSpec{Containers: []v1.Container{c}}}
		got := CPUOf(pod, "management")
		if got.Request != min(max(request, 0), text.MaxMilliCPU) || got.Limit < 0 || got.Limit > maxWeighed || len(got.Flaw) > 256 {
			t.Errorf("%+v", got)
		}
		said := Annotated(annotations, "management")
		for name, of := range said.Containers {
			if of.Request <= 0 || of.Limit < 0 || of.Limit > maxWeighed || name != "main" {
				t.Errorf("by its annotations: %+v", said)
			}
		}
		if said.Request < 0 || said.Request > maxWeighed || len(said.Flaw) > 256 {
			t.Errorf("by its annotations: %+v", said)
		}
		if got.Request == 0 && (got.Limit != 0 || got.Flaw != "") {
			t.Errorf("without a request: %+v", got)
		}
	})
}
