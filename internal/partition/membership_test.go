package partition

import (
	"reflect"
	"slices"
	"testing"
)

// TestRules: each namespace has one partition, whichever of two claims comes first, and all other
// pods stay in the default partition.
func TestRules(t *testing.T) {
	t.Parallel()
	var rules Rules
	rules.Add(System, "kube-system", "ingress")
	rules.Add("telemetry", "monitoring", "ingress", "monitoring")
	for namespace, want := range map[string]Name{
		"kube-system": System, "ingress": System, "monitoring": "telemetry",
		"default": Default, "": Default,
	} {
		if got := rules.Partition(Pod{Namespace: namespace}); got != want {
			t.Errorf("%q: %s; want %s", namespace, got, want)
		}
	}
	if got := (Rules{}).Partition(Pod{Namespace: "kube-system"}); got != Default {
		t.Errorf("without a partition: %s", got)
	}
}

// TestPlace: an annotation counts with a right alone, and comes before the namespace then.
func TestPlace(t *testing.T) {
	t.Parallel()
	asks := func(name string) Ask { return Ask{Type: name} }
	var rules Rules
	rules.Add(System, "kube-system")
	rules.Add("telemetry", "monitoring")
	rules = rules.With([]Workload{
		{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators", "kube-system"}, Advertise: true},
		{Type: "management", Partition: System, ByNamespace: true},
	})
	member := func(partition Name, name string, by By) Place {
		asks := by == ByAllowedNamespace || by == ByStatic
		return Place{Partition: partition, Type: name, By: by, Resource: asks && name == "telemetry"}
	}
	refused := func(name string, why Refusal) Place {
		return Place{Partition: Default, Type: name, Refused: why}
	}
	for name, test := range map[string]struct {
		pod  Pod
		want Place
	}{
		"asks for nothing":               {Pod{Namespace: "shop"}, Place{Partition: Default}},
		"by namespace":                   {Pod{Namespace: "kube-system"}, member(System, "", ByNamespace)},
		"by namespace of a type":         {Pod{Namespace: "monitoring"}, member("telemetry", "telemetry", ByNamespace)},
		"allowed by the configuration":   {Pod{Namespace: "operators", Origin: Origin{Ask: asks("telemetry")}}, member("telemetry", "telemetry", ByAllowedNamespace)},
		"of the partition's namespace":   {Pod{Namespace: "monitoring", Origin: Origin{Ask: asks("telemetry")}}, Place{Partition: "telemetry", Type: "telemetry", By: ByNamespace, Resource: true}},
		"before its namespace":           {Pod{Namespace: "kube-system", Origin: Origin{Ask: asks("telemetry")}}, member("telemetry", "telemetry", ByAllowedNamespace)},
		"not allowed by either":          {Pod{Namespace: "shop", Origin: Origin{Ask: asks("telemetry")}}, refused("telemetry", NotAllowed)},
		"allowed by the API server":      {Pod{Namespace: "shop", Origin: Origin{Ask: asks("management")}}, member(System, "management", ByNamespaceAnnotation)},
		"static":                         {Pod{Namespace: "shop", Origin: Origin{Static: true, Ask: asks("telemetry")}}, member("telemetry", "telemetry", ByStatic)},
		"guaranteed":                     {Pod{Namespace: "operators", Guaranteed: true, Origin: Origin{Ask: asks("telemetry")}}, refused("telemetry", IsGuaranteed)},
		"guaranteed and static":          {Pod{Namespace: "shop", Guaranteed: true, Origin: Origin{Static: true, Ask: asks("telemetry")}}, refused("telemetry", IsGuaranteed)},
		"guaranteed, by namespace":       {Pod{Namespace: "monitoring", Guaranteed: true}, member("telemetry", "telemetry", ByNamespace)},
		"a type that is not there":       {Pod{Namespace: "operators", Origin: Origin{Ask: asks("web")}}, refused("web", UnknownType)},
		"two types":                      {Pod{Namespace: "operators", Origin: Origin{Ask: Ask{Flaw: FlawTwoTypes}}}, refused("", TwoTypes)},
		"a bad annotation":               {Pod{Namespace: "operators", Origin: Origin{Ask: Ask{Flaw: FlawBadAnnotation}}}, refused("", BadAnnotation)},
		"a bad annotation of a member":   {Pod{Namespace: "kube-system", Origin: Origin{Ask: Ask{Flaw: FlawBadAnnotation}}}, Place{Partition: System, By: ByNamespace, Refused: BadAnnotation}},
		"refused, and stays by its name": {Pod{Namespace: "monitoring", Origin: Origin{Ask: asks("web")}}, Place{Partition: "telemetry", Type: "telemetry", By: ByNamespace, Refused: UnknownType}},
	} {
		if got := rules.Place(test.pod); got != test.want || rules.Partition(test.pod) != test.want.Partition {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
	if got := (Rules{}).Place(Pod{Namespace: "shop", Origin: Origin{Static: true, Ask: asks("telemetry")}}); got != (Place{Partition: Default}) {
		t.Errorf("without a type: %+v; want that annotations mean nothing", got)
	}
}

// TestWorkloadEqual: each field is followed, and so makes a difference.
func TestWorkloadEqual(t *testing.T) {
	t.Parallel()
	w := Workload{Type: "a", Partition: "a", Allowed: []string{"one"}, ByNamespace: true, Advertise: true, CPUs: 1}
	for i := range reflect.TypeFor[Workload]().NumField() {
		other := w
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		if field := reflect.TypeFor[Workload]().Field(i).Name; w.Equal(other) || other.Equal(w) {
			t.Errorf("%s makes no difference", field)
		}
	}
}

// TestMayAsk: a pod that asks is not refused in the namespaces that are listed, and in no other.
func TestMayAsk(t *testing.T) {
	t.Parallel()
	var rules Rules
	rules.Add(System, "kube-system")
	rules.Add("telemetry", "monitoring", "logging")
	for _, test := range []struct {
		Workload
		want []string
	}{
		{Workload{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators", "monitoring"}}, []string{"logging", "monitoring", "operators"}},
		{Workload{Type: "management", Partition: System}, []string{"kube-system"}},
		{Workload{Type: "batch", Partition: "batch"}, nil},
	} {
		got := rules.MayAsk(test.Workload)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q; want %q", test.Type, got, test.want)
		}
		for _, namespace := range []string{"kube-system", "monitoring", "logging", "operators", "shop"} {
			pod := Pod{Namespace: namespace, Origin: Origin{Ask: Ask{Type: test.Type}}}
			place := rules.With([]Workload{test.Workload}).Place(pod)
			if may := slices.Contains(test.want, namespace); may != (place.Refused == "") {
				t.Errorf("%s in %s: %+v", test.Type, namespace, place)
			}
		}
	}
}

// TestOriginOf: a pod is static by the annotation that the kubelet writes itself.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	for source, static := range map[string]bool{"file": true, "http": true, "api": false, "": false} {
		annotations := map[string]string{
			"kubernetes.io/config.source": source, "target.workload.openshift.io/a": `{"effect":"PreferredDuringScheduling"}`,
		}
		want := Origin{Static: static, Ask: Ask{Type: "a"}}
		if got := OriginOf(annotations); got != want {
			t.Errorf("%q: %+v; want %+v", source, got, want)
		}
	}
}
