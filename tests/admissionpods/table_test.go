package admissionpods

import (
	"flag"
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the outcomes of the table of pods")

// TestTable: each pod of the table has the outcome that it has with the policy, on an API server.
func TestTable(t *testing.T) {
	t.Parallel()
	table, wanted := Load(t)
	got := map[string]Outcome{}
	for _, c := range table.Pods {
		if c.Server != "" {
			continue // it is refused by what is not here
		}
		got[c.Name] = NewServer(table, c.Namespace).Create(c.Pod())
	}
	if *update {
		data, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("expected.yaml", data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(got) < 40 || len(got) != len(wanted) {
		t.Errorf("%d outcomes; want %d, and 40 at least", len(got), len(wanted))
	}
	for name, o := range got {
		if o.String() != wanted[name].String() {
			t.Errorf("%s:\n%s\nwant\n%s", name, o, wanted[name])
		}
	}
}
