package check

import (
	"context"
	"errors"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// clusterFacts holds what findings about workload types follow from: the configuration, and what
// the API server says. What is not known is nil.
type clusterFacts struct {
	types []workloadType
	// server, kubeconfig and node are empty if the API server was not asked.
	server, kubeconfig, node string
	// unasked says why the API server was not asked.
	unasked error
	// lacking lists the resources that this Node lacks, and unknown is the error of asking for them.
	lacking []string
	unknown error
	// mayPatch is the error of the request that the monitor depends on; nil for none.
	mayPatch error
	// policy is the policy of render admission; nil for none, and if it is not known. unguarded means
	// that there is none.
	policy    *kubeapi.Policy
	unguarded bool
}

// workloadType is a workload type of the configuration.
type workloadType struct {
	partition.Workload
	// mayAsk lists the namespaces whose pods may ask by the configuration.
	mayAsk []string
}

// workloadTypes returns the types of a configuration.
func workloadTypes(c *config.Config) []workloadType {
	types, rules := make([]workloadType, 0, len(c.Workloads)), c.Members()
	for _, w := range c.Workloads {
		types = append(types, workloadType{w, rules.MayAsk(w)})
	}
	return types
}

// resources returns the resources that the Node is to have.
func (f *clusterFacts) resources() []string {
	var names []string
	for _, t := range f.types {
		if t.Advertise {
			names = append(names, partition.WorkloadResource(t.Type))
		}
	}
	return names
}

// byNamespace lists the types that every pod gets that the API server lets ask.
func (f *clusterFacts) byNamespace() []string {
	var names []string
	for _, t := range f.types {
		if t.ByNamespace {
			names = append(names, t.Type)
		}
	}
	return names
}

// cluster asks the API server, once for all checks. It asks nothing that no type needs.
func (c *checks) cluster(ctx context.Context) *clusterFacts {
	if c.asked != nil {
		return c.asked
	}
	f := &clusterFacts{types: workloadTypes(c.desired.Config)}
	c.asked = f
	if len(f.types) == 0 {
		return f
	}
	client, path, err := c.apiServer()
	if err != nil {
		f.unasked = err
		return f
	}
	f.server, f.kubeconfig, f.node = client.Server(), path, nodeName(c.options.Node, client)
	if c.unreachable != nil {
		f.mayPatch, f.unknown = c.unreachable, c.unreachable
		return f
	}
	f.ask(ctx, client)
	return f
}

// apiServer returns a client of the API server and the path of its kubeconfig, or the reason why it
// is not asked.
func (c *checks) apiServer() (*kubeapi.Client, string, error) {
	if c.options.Eviction.Kubeconfig == node.KubeconfigNone {
		return nil, "", errors.New("the API server is not queried (--" + node.FlagKubeconfig + ")")
	}
	return node.OpenCluster(c.options.Node, c.options.Eviction.Kubeconfig)
}

// nodeName returns the name of the node in the cluster. An administrator's certificate does not
// have it, and the kubelet's does.
func nodeName(n host.Node, client *kubeapi.Client) string {
	if client.Node() == "" {
		if kubelets, _, err := node.OpenCluster(n, node.KubeconfigAuto); err == nil && kubelets.Node() != "" {
			return kubelets.Node()
		}
	}
	return node.NameInCluster(n, client)
}

// ask sends the requests. It ends at an API server that does not answer. A kubelet's user may send
// all but the one for the policy, whose absence is no finding.
func (f *clusterFacts) ask(ctx context.Context, client *kubeapi.Client) {
	resources := f.resources()
	if len(resources) > 0 {
		f.mayPatch = client.NodeRights(ctx, f.node, false)
	}
	if f.unknown = unreachable(f.mayPatch); f.unknown != nil {
		return
	}
	if len(resources) > 0 {
		if f.lacking, f.unknown = client.NodeWithout(ctx, f.node, resources); unreachable(f.unknown) != nil {
			return
		}
	}
	var err error
	f.policy, err = client.Policy(ctx, admission.PolicyName)
	f.unguarded = err == nil && f.policy == nil
}
