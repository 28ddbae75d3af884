package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nodepartition/internal/admission"
	"nodepartition/internal/admission/policy"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
	"nodepartition/internal/workload"
)

// workloadResource checks that the Node has the resources of workload types, and so all nodes.
func (c *checks) workloadResource(ctx context.Context) []Finding {
	return resourceFindings(c.cluster(ctx))
}

// workloadRights checks that the monitor may send what workload types need.
func (c *checks) workloadRights(ctx context.Context) []Finding { return rightsFindings(c.cluster(ctx)) }

// workloadNamespaces checks the namespaces that may use workload types.
func (c *checks) workloadNamespaces(ctx context.Context) []Finding {
	f := c.cluster(ctx)
	if len(f.types) == 0 {
		return saying(OK, "no namespace may use a workload type")
	}
	found := namespaceFindings(f)
	client, err := c.runtime.Client(ctx)
	if err != nil {
		return found // reported by the check runtime
	}
	pods, err := client.Sandboxes(ctx)
	if err != nil {
		return append(found, saying(Warning, "%v", err)...)
	}
	silent := make([]askingPod, 0, len(pods))
	for i := range pods {
		if p := &pods[i]; p.Ready {
			silent = append(silent, askingPod{p.Namespace, p.Name, p.Origin})
		}
	}
	found = append(found, silentPods(f, c.desired.Members(nil), silent)...)
	if found == nil {
		return saying(OK, "nothing in the namespaces that may use workload types is in their way")
	}
	return found
}

// resourceFindings says which nodes lack the resource of a type.
func resourceFindings(f *clusterFacts) []Finding {
	resources := f.resources()
	switch {
	case len(resources) == 0:
		return append(saying(OK, "no workload type has a resource on the Node"), f.stale()...)
	case f.unasked != nil:
		return changing(Warning, "set a kubeconfig with --kubeconfig if the node belongs to a cluster",
			"%v: whether the Node has %s is not known", f.unasked, strings.Join(resources, ", "))
	case f.lacking == nil:
		return saying(Warning, "whether the Node has %s is not known: %v",
			strings.Join(resources, ", "), errors.Join(f.stopped, unreachable(f.mayPatch), unreachable(f.mayGet)))
	}
	var found []Finding
	here := slices.DeleteFunc(slices.Clone(resources), func(name string) bool {
		return !slices.Contains(f.lacking[name], f.node)
	})
	if len(here) > 0 {
		found = append(found, changing(
			Error, "systemctl status "+unitname.MonitorService+": the monitor writes it, and logs why it cannot",
			"%s: the Node %s has none of it: no pod that requests it is scheduled here", strings.Join(here, ", "), f.node,
		)...)
	}
	found = append(found, f.otherNodes(resources)...)
	found = append(found, f.stale()...)
	if found == nil {
		found = saying(OK, "%s has %s", f.holders(), strings.Join(resources, ", "))
	}
	if f.stopped != nil {
		found = append(found, saying(OK, "other nodes, LimitRanges and quotas are not checked: %v; "+
			"an administrator's --kubeconfig checks them", f.stopped)...)
	}
	return found
}

// holders names the nodes whose resources are known, for a finding that all of them have theirs.
func (f *clusterFacts) holders() string {
	if f.all {
		return "each Node of the cluster"
	}
	return "the Node " + f.node
}

// otherNodes says which other nodes lack a resource. A node that has it with an amount of zero has
// lost it. One that does not have it need not have the type, or has advertise: false, which this
// node cannot tell from a type that was forgotten: that is not a warning.
func (f *clusterFacts) otherNodes(resources []string) []Finding {
	others := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(f.lacking[name]), func(n string) bool { return n == f.node })
	}
	found := make([]Finding, 0, len(resources))
	for _, of := range together(resources, func(name string) []string {
		return slices.DeleteFunc(others(name), func(n string) bool { return !slices.Contains(f.zero[name], n) })
	}) {
		found = append(found, changing(
			Warning, "see partition-monitor check there: the monitor writes the amount again",
			"%s: is zero on %s: no pod that requests it is scheduled there", strings.Join(of.names, ", "), of.nodes,
		)...)
	}
	for _, of := range together(resources, func(name string) []string {
		return slices.DeleteFunc(others(name), func(n string) bool { return slices.Contains(f.zero[name], n) })
	}) {
		found = append(found, saying(
			OK, "%s: not advertised on %s, where there is no such type, or advertise: false: no pod that requests it is scheduled there",
			strings.Join(of.names, ", "), of.nodes,
		)...)
	}
	return found
}

// stale says where the policies of the cluster have less than this configuration. Other nodes may
// have more types, and more namespaces.
func (f *clusterFacts) stale() []Finding {
	if f.policy == nil {
		return nil
	}
	const apply = "apply the output of partition-monitor render admission again, with --config=FILE for each pool of nodes"
	var rendered []admission.Type
	if err := json.Unmarshal([]byte(f.policy.Annotations[policy.TypesKey]), &rendered); err != nil {
		return changing(Warning, apply, "the policy %s does not say for which types it was rendered", policy.Name)
	}
	var differ []string
	for i := range f.types {
		t := &f.types[i]
		differ = append(differ, t.differences(rendered)...)
	}
	var found []Finding
	if len(differ) > 0 {
		found = changing(Warning, apply, "the policy %s is not of this configuration: %s", policy.Name, strings.Join(differ, ", "))
	}
	if !f.policy.Denies {
		found = append(found, changing(
			Warning, "apply the output of partition-monitor render admission again, or remove the policies with render admission --remove",
			"the policy %s has no binding that denies: users may set the annotations and resources of workload types", policy.Name,
		)...)
	}
	return found
}

// differences returns where the rendered types give a type less than the configuration does.
func (t *workloadType) differences(rendered []admission.Type) []string {
	at := slices.IndexFunc(rendered, func(r admission.Type) bool { return r.Name == t.Type })
	if at == -1 {
		return []string{"it does not have the type " + t.Type}
	}
	r, list := rendered[at], []string(nil)
	for _, namespace := range t.mayAsk {
		if !slices.Contains(r.Namespaces, namespace) {
			list = append(list, fmt.Sprintf("it does not let pods of %s ask for %s", namespace, t.Type))
		}
	}
	if t.ByNamespace && !r.ByNamespace {
		list = append(list, "no annotation of a namespace allows "+t.Type+" there")
	}
	if t.Advertise && r.Unconverted {
		list = append(list, "it does not convert pods of "+t.Type)
	}
	return list
}

// group is a list of resources about which the same nodes are listed.
type group struct {
	nodes string
	names []string
}

// together returns one group for resources with the same nodes. A resource without any has none.
func together(resources []string, nodesOf func(name string) []string) []*group {
	var groups []*group
	by := map[string]*group{}
	for _, name := range resources {
		nodes := nodesOf(name)
		if len(nodes) == 0 {
			continue
		}
		key := listed("node", nodes)
		if by[key] == nil {
			by[key] = &group{nodes: key}
			groups = append(groups, by[key])
		}
		by[key].names = append(by[key].names, name)
	}
	return groups
}

// unreachable returns an error that says that the API server did not answer, and nil for another.
func unreachable(err error) error {
	if errors.Is(err, kubeapi.ErrUnreachable) {
		return err
	}
	return nil
}

// The rules of a ClusterRole that give the rights.
const (
	ruleNamespaces = `{apiGroups: [""], resources: [namespaces], verbs: [get]}`
	ruleStatus     = `{apiGroups: [""], resources: [nodes/status], verbs: [patch]}`
)

// rightsFindings says which rights the monitor lacks.
func rightsFindings(f *clusterFacts) []Finding {
	resources := f.resources()
	if len(resources) == 0 && !f.byNamespace() {
		return saying(OK, "no workload type needs a right at the API server")
	}
	if f.unasked != nil {
		return nil // reported by the check workload-resource
	}
	var found []Finding
	unwritten := "the monitor cannot keep " + strings.Join(resources, ", ") + " on the Node"
	for _, of := range []struct {
		err                error
		right, rule, means string
	}{
		{f.mayGet, "get namespaces", ruleNamespaces, "no annotation of a namespace gives its pods a workload type"},
		{f.mayPatch, "patch nodes/status", ruleStatus, unwritten},
	} {
		switch {
		case of.err == nil:
		case unreachable(of.err) != nil && len(resources) > 0:
			// reported by the check workload-resource
		case errors.Is(of.err, kubeapi.ErrForbidden):
			found = append(found, changing(
				Error, fmt.Sprintf("add %s to the rules of a ClusterRole of that user; partition-monitor render admission has "+
					"the one for kubelets", of.rule),
				"the user of %s may not %s at %s: %s", f.kubeconfig, of.right, f.server, of.means,
			)...)
		default:
			found = append(found, saying(Warning, "%v", of.err)...)
		}
	}
	if found == nil {
		found = saying(OK, "%s lets the monitor do what workload types need, with %s", f.server, f.kubeconfig)
	}
	return found
}

// refuses reports whether a field of a LimitRange refuses pods without CPU requests and limits
// (plugin/pkg/admission/limitranger, v1.37.0). Defaults do not: what they set is converted.
func refuses(field string) bool {
	_, name, _ := strings.Cut(field, " ")
	//guard: defaults of a LimitRange refuse no converted pod
	return slices.Contains([]string{"min", "max", "maxLimitRequestRatio"}, name)
}

// namespaceFindings says what refuses converted pods in the namespaces that may use a type.
func namespaceFindings(f *clusterFacts) []Finding {
	inUse := map[string]bool{}
	for i := range f.types {
		if t := &f.types[i]; t.Advertise {
			for _, namespace := range slices.Concat(f.allows(t), t.mayAsk) {
				inUse[namespace] = true
			}
		}
	}
	names := func(rules []kubeapi.CPURule, counts func(string) bool) []string {
		var list []string
		for _, r := range rules {
			fields := slices.DeleteFunc(slices.Clone(r.Fields), func(field string) bool { return !counts(field) })
			if inUse[r.Namespace] && len(fields) > 0 {
				list = append(list, fmt.Sprintf("%s/%s (%s)", r.Namespace, r.Name, strings.Join(fields, ", ")))
			}
		}
		return list
	}
	var found []Finding
	if list := names(f.limits, refuses); len(list) > 0 {
		found = append(found, changing(
			Warning, "remove cpu from these fields: a converted pod has neither a request nor a limit of CPU",
			"%s refuses every pod that is converted to a workload type", listed("LimitRange", list),
		)...)
	}
	if list := names(f.quotas, func(string) bool { return true }); len(list) > 0 {
		found = append(found, changing(
			Warning, "bound requests.TYPE.workload.openshift.io/cores in place of CPU",
			"%s refuses every pod that is converted to a workload type: it must specify CPU", listed("ResourceQuota", list),
		)...)
	}
	return found
}

// askingPod is a pod, with what its annotations ask for.
type askingPod struct {
	namespace, name string
	membership.Origin
}

// silentPods says which pods of this node may ask for a type and do not. Members by namespace need
// not ask.
func silentPods(f *clusterFacts, members membership.Rules, pods []askingPod) []Finding {
	may := map[string]bool{}
	for i := range f.types {
		for _, namespace := range f.allows(&f.types[i]) {
			may[namespace] = true
		}
	}
	var silent []string
	for _, p := range pods {
		place := members.Place(membership.Pod{Namespace: p.namespace, Origin: p.Origin})
		//guard: a member by namespace need not ask for a type
		if may[p.namespace] && p.Ask == (workload.Ask{}) && place.By == "" {
			silent = append(silent, p.namespace+"/"+p.name)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	slices.Sort(silent)
	return changing(
		Warning, "annotate them with target.workload.openshift.io/TYPE and start them again, or list the namespace in namespaces",
		"%s may use a workload type by its namespace, asks for none, and runs outside of the partition", listed("pod", silent),
	)
}

// maxNames bounds the names in a finding.
const maxNames = 10

// listed returns names with what they are the names of: "the node a", "2 nodes: a, b".
func listed(what string, names []string) string {
	if len(names) == 1 {
		return "the " + what + " " + names[0]
	}
	return fmt.Sprintf("each of %d %ss: %s", len(names), what, first(names))
}

// first returns the first maxNames names.
func first(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:maxNames], ", ") + ", ..."
}
