package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
)

// workloadResource checks that the Node has the resources of workload types, and so all nodes.
func (c *checks) workloadResource(ctx context.Context) []state.Finding {
	return resourceFindings(c.cluster(ctx))
}

// workloadRights checks that the monitor may send what workload types need.
func (c *checks) workloadRights(ctx context.Context) []state.Finding {
	return rightsFindings(c.cluster(ctx))
}

// resourceFindings says which resources of types this Node lacks, and where the policies are stale.
func resourceFindings(f *clusterFacts) []state.Finding {
	resources := f.resources()
	switch {
	case len(resources) == 0:
		return append(saying(state.OK, "no workload type has a resource on the Node"), f.stale()...)
	case f.unasked != nil:
		return changing(state.Warning, "set a kubeconfig with --kubeconfig if the node belongs to a cluster",
			"%v: whether the Node has %s is not known", f.unasked, strings.Join(resources, ", "))
	case f.unknown != nil:
		return append(saying(state.Warning, "whether the Node has %s is not known: %v", strings.Join(resources, ", "), f.unknown), f.stale()...)
	}
	var found []state.Finding
	if len(f.lacking) > 0 {
		found = append(found, changing(
			state.Error, "systemctl status "+partition.MonitorService+": the monitor writes it, and logs why it cannot",
			"%s: the Node %s has none of it: no pod that requests it is scheduled here", strings.Join(f.lacking, ", "), f.node,
		)...)
	}
	found = append(found, f.stale()...)
	if found == nil {
		found = saying(state.OK, "the Node %s has %s", f.node, strings.Join(resources, ", "))
	}
	return found
}

// stale says where the policies of the cluster have less than this configuration. Other nodes may
// have more types, and more namespaces.
func (f *clusterFacts) stale() []state.Finding {
	//guard: a type that every pod may ask for is found
	if open := f.byNamespace(); f.unguarded && len(open) > 0 {
		return changing(
			state.Warning, "apply the output of partition-monitor render admission, or set namespaceAnnotation: false",
			"there is no policy %s: unless OpenShift's API server guards it, every pod gets %s that asks", admission.PolicyName, strings.Join(open, ", "),
		)
	}
	if f.policy == nil {
		return nil
	}
	const apply = "apply the output of partition-monitor render admission again, with --config=FILE for each pool of nodes"
	var rendered []admission.Type
	if err := json.Unmarshal([]byte(f.policy.Annotations[admission.TypesKey]), &rendered); err != nil {
		return changing(state.Warning, apply, "the policy %s does not say for which types it was rendered", admission.PolicyName)
	}
	var differ []string
	for i := range f.types {
		t := &f.types[i]
		differ = append(differ, t.differences(rendered)...)
	}
	var found []state.Finding
	if len(differ) > 0 {
		found = changing(state.Warning, apply, "the policy %s is not of this configuration: %s", admission.PolicyName, strings.Join(differ, ", "))
	}
	if !f.policy.Denies {
		found = append(found, changing(
			state.Warning, "apply the output of partition-monitor render admission again, or remove the policies with render admission --remove",
			"the policy %s has no binding that denies: users may set the annotations and resources of workload types", admission.PolicyName,
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

// unreachable returns an error that says that the API server did not answer, and nil for another.
func unreachable(err error) error {
	if errors.Is(err, kubeapi.ErrUnreachable) {
		return err
	}
	return nil
}

// ruleStatus is the rule of a ClusterRole that gives the right.
const ruleStatus = `{apiGroups: [""], resources: [nodes/status], verbs: [patch]}`

// rightsFindings says which right the monitor lacks.
func rightsFindings(f *clusterFacts) []state.Finding {
	resources := f.resources()
	switch {
	case len(resources) == 0:
		return saying(state.OK, "no workload type needs a right at the API server")
	case f.unasked != nil, unreachable(f.mayPatch) != nil:
		return nil // reported by the check workload-resource
	case errors.Is(f.mayPatch, kubeapi.ErrForbidden):
		return changing(
			state.Error, fmt.Sprintf("add %s to the rules of a ClusterRole of that user", ruleStatus),
			"the user of %s may not patch nodes/status at %s: the monitor cannot keep %s on the Node",
			f.kubeconfig, f.server, strings.Join(resources, ", "),
		)
	case f.mayPatch != nil:
		return saying(state.Warning, "%v", f.mayPatch)
	}
	return saying(state.OK, "%s lets the monitor do what workload types need, with %s", f.server, f.kubeconfig)
}

// maxNames bounds the names in a finding.
const maxNames = 10

// first returns the first maxNames names.
func first(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:maxNames], ", ") + ", ..."
}
