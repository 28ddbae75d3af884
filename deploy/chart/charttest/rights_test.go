package charttest

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// granted returns the rights of rules as "SCOPE VERB RESOURCE", with the name of an object if only
// one is meant.
func granted(scope string, rules []rbacv1.PolicyRule) []string {
	all := make([]string, 0, len(rules))
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					right := scope + " " + verb + " " + resource
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

// TestRights: the dispatcher has the rights of rights.txt and no others. The pods on the nodes have
// none.
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
	scopes := map[string]string{"node-partition": "release", "kube-system": "lock"}
	if len(all.clusterRoles) != 1 {
		t.Fatalf("%d roles for the whole cluster", len(all.clusterRoles))
	}
	got := granted("cluster", all.clusterRoles[0].Rules)
	var bound []string
	for _, r := range all.roles {
		got = append(got, granted(scopes[r.Namespace], r.Rules)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the roles have %q\nrights.txt has %q", got, want)
	}
	bind := func(namespace string, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
		for _, s := range subjects {
			bound = append(bound, strings.Join([]string{namespace, role.Kind, role.Name, s.Kind, s.Namespace, s.Name}, " "))
		}
	}
	for _, b := range all.clusterBindings {
		bind("", b.RoleRef, b.Subjects)
	}
	for _, b := range all.bindings {
		bind(b.Namespace, b.RoleRef, b.Subjects)
	}
	slices.Sort(bound)
	const account = " ServiceAccount node-partition node-partition-dispatcher"
	if want := []string{
		" ClusterRole node-partition-dispatcher" + account, "kube-system Role node-partition-lock" + account,
		"node-partition Role node-partition-dispatcher" + account,
	}; !slices.Equal(bound, want) {
		t.Errorf("bound: %q, want %q", bound, want)
	}
	if mount := all.serviceAccounts["node-partition-node"].AutomountServiceAccountToken; mount == nil || *mount {
		t.Error("pods of node-partition-node have a token")
	}
}
