package charttest

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// granted returns the rights of rules as "VERB RESOURCE", with the name of an object if only one is
// meant.
func granted(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					right := verb + " " + resource
					if group != "" {
						right += "." + group
					}
					for _, name := range r.ResourceNames {
						all = append(all, right+" "+name)
					}
					if len(r.ResourceNames) == 0 {
						all = append(all, right)
					}
				}
			}
		}
	}
	return all
}

// TestRights: the dispatcher has the rights of rights.txt, in the namespace where the file says so,
// and no others. The pods on the nodes have none.
func TestRights(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("rights.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	all := decode(t, least)
	var got []string
	for _, r := range all.clusterRoles {
		got = append(got, granted(r.Rules)...)
	}
	for _, right := range got {
		if !strings.HasSuffix(right, " nodes") {
			t.Errorf("a right in the whole cluster: %s", right)
		}
	}
	for _, r := range all.roles {
		got = append(got, granted(r.Rules)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the roles have %q\nrights.txt has %q", got, want)
	}
	if len(all.bindings) != 1 || len(all.clusterBindings) != 1 {
		t.Fatal("more than one role is bound")
	}
	for _, subjects := range [][]rbacv1.Subject{all.bindings[0].Subjects, all.clusterBindings[0].Subjects} {
		if len(subjects) != 1 || subjects[0].Name != "node-partition-dispatcher" || subjects[0].Namespace != "node-partition" {
			t.Errorf("bound to %+v", subjects)
		}
	}
	if mount := all.serviceAccounts["node-partition-node"].AutomountServiceAccountToken; mount == nil || *mount {
		t.Error("pods of node-partition-node have a token")
	}
}
