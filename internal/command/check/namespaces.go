package check

import (
	"context"
	"fmt"
	"slices"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// namespaces lists the namespaces of the configuration that no pod of this node has: a typing error
// is among them. Another one need not have pods on each node.
func (c *checks) namespaces(ctx context.Context) []state.Finding {
	listed := listedNamespaces(c.desired.Config)
	if len(listed) == 0 {
		return saying(state.OK, "the configuration lists no namespace")
	}
	if c.runtimeName == "" {
		return nil // reported by the check runtime
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := c.runtime.Client(ctx)
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	sandboxes, err := client.Sandboxes(ctx)
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	present := map[string]bool{}
	for i := range sandboxes {
		if sandboxes[i].Ready {
			present[sandboxes[i].Namespace] = true
		}
	}
	return append(absentNamespaces(listed, present), c.withoutPods(present)...)
}

// withoutPods warns of partitions whose namespaces all have no pod here. One that is misspelt
// beside others is only listed: a namespace need not have pods on each node.
func (c *checks) withoutPods(present map[string]bool) []state.Finding {
	var found []state.Finding
	for i := range c.desired.Partitions {
		p := &c.desired.Partitions[i]
		if len(p.Namespaces) > 0 && !slices.ContainsFunc(p.Namespaces, func(name string) bool { return present[name] }) {
			found = append(found, changing(
				state.Warning, "correct a name that is misspelt: kubectl get namespaces lists them",
				"no namespace of partition %s has a pod on this node", p.Name,
			)...)
		}
	}
	return found
}

// listedNamespace is a namespace in a field of the configuration.
type listedNamespace struct{ field, file, namespace string }

// listedNamespaces returns the namespaces that the sections list.
func listedNamespaces(c *config.Config) []listedNamespace {
	var listed []listedNamespace
	add := func(field string, namespaces []string) {
		for _, namespace := range namespaces {
			listed = append(listed, listedNamespace{field, c.Kubelet.SectionFileWith(field), namespace})
		}
	}
	for i := range c.Partitions {
		add(config.SectionPath(c.Partitions[i].Name)+".namespaces", c.Partitions[i].Namespaces)
	}
	for _, w := range c.Workloads {
		add(kubeletconfig.WorkloadsField+"."+w.Type+".allowedNamespaces", w.Allowed)
	}
	return listed
}

// absentNamespaces compares the namespaces of the configuration with those that pods have.
func absentNamespaces(listed []listedNamespace, present map[string]bool) []state.Finding {
	var absent []string
	for _, l := range listed {
		if entry := fmt.Sprintf("%s (%s in %s)", l.namespace, l.field, l.file); !present[l.namespace] {
			absent = append(absent, entry)
		}
	}
	if len(absent) > 0 {
		return saying(state.OK, "no pod of this node has these namespaces of the configuration: %s", first(absent))
	}
	return saying(state.OK, "each namespace of the configuration has pods on this node")
}
