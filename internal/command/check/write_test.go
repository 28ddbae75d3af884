package check

import (
	"bytes"
	"testing"
)

// TestWriteText: errors come first, what several checks say is said once, and a line counts all.
func TestWriteText(t *testing.T) {
	t.Parallel()
	found := []Finding{
		{Check: "trial", Grade: OK, Found: "none"},
		{Check: "runtime", Grade: Warning, Found: "not asked", Docs: "/a"},
		{Check: "nri", Grade: Warning, Found: "not asked", Docs: "/b"},
		{Check: "nri", Grade: Warning, Found: "not asked", Docs: "/b"},
		{Check: "slice", Grade: Error, Found: "gone", Change: "reload", Docs: "/c"},
		{Check: "swap", Grade: Ignored, Found: "on", Docs: "/d"},
		{Check: "floor", Grade: OK, Found: "none"},
		{Check: "events", Grade: Warning, Found: "not asked", Change: "ask", Docs: "/e"},
	}
	var text bytes.Buffer
	if err := WriteText(&text, found); err != nil {
		t.Fatal(err)
	}
	const want = `error   slice: gone
        change: reload
        see: /c
warning runtime, nri: not asked
warning events: not asked
        change: ask
        see: /e
ignored swap: on
        see: /d
ok      trial, floor: none
1 error, 4 warnings, 1 ignored, 2 ok
`
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", &text, want)
	}
	if found[0].Check != "trial" || found[1].Check != "runtime" {
		t.Errorf("the findings themselves have changed: %+v", found)
	}
}

// TestAbsentNamespaces: a namespace that no pod has and that is nearly another one is a typing
// error. One that has no pods here need not be.
func TestAbsentNamespaces(t *testing.T) {
	t.Parallel()
	present := map[string]bool{
		"kube-system": true, "monitoring": true, "monitorings": true, "web": true, "team-a": true, "shop1": true, "dev2": true,
		"production-eu-west": true, "openshift-sdn": true, "monitoring1": true, "tenantb": true,
	}
	listed := func(names ...string) (list []listedNamespace) {
		for _, name := range names {
			list = append(list, listedNamespace{"systemPartition.namespaces", "/f", name})
		}
		return list
	}
	for name, test := range map[string]struct {
		listed []listedNamespace
		want   [][]string
	}{
		"all":    {listed("kube-system", "web"), [][]string{{"ok each namespace of the configuration has pods"}}},
		"a typo": {listed("kube-systm"), [][]string{{"warning systemPartition.namespaces: no pod of this node has the namespace kube-systm; is kube-system meant?", "correct systemPartition.namespaces in /f"}}},
		"absent": {listed("kube-system", "logs", "backup", "logs"), [][]string{{"ok no pod of this node has these namespaces of the configuration: logs, backup"}}},
		"both":   {listed("wep", "kube-systems", "logs"), [][]string{{"warning ", "kube-systems; is kube-system meant?"}, {"ok ", ": wep, logs"}}},
		"a dash": {listed("kubesystem"), [][]string{{"warning ", "kubesystem; is kube-system meant?"}}},
		// Siblings, of which the others are on other nodes.
		"siblings": {listed("team-b", "shop2", "dev1", "production-us-west", "openshift-dns", "monitoring2", "telemetry-monitoring", "tenanta"), [][]string{
			{"ok no pod", ": team-b, shop2, dev1, production-us-west, openshift-dns, monitoring2, telemetry-monitoring, tenanta"},
		}},
		// One that is listed itself is not what another one means.
		"two names": {listed("kube-system", "kube-systems"), [][]string{{"ok no pod", ": kube-systems"}}},
	} {
		expectLines(t, name, absentNamespaces(test.listed, present), test.want)
	}
}
