package check

import (
	"context"
	"errors"
	"maps"
	"slices"

	"nodepartition/internal/admission/policy"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/membership"
	"nodepartition/internal/node"
	"nodepartition/internal/node/cluster"
	"nodepartition/internal/node/options"
	"nodepartition/internal/workload"
	"nodepartition/pkg/slices/config"
)

// clusterFacts holds what findings about workload types follow from: the configuration, and what
// the API server says. What is not known is nil.
type clusterFacts struct {
	types []workloadType
	// server, kubeconfig and node are empty if the API server was not asked.
	server, kubeconfig, node string
	// unasked says why the API server was not asked.
	unasked error
	// lacking holds the nodes that lack a resource, by the resource. zero holds the ones that have it
	// with an amount of zero.
	lacking, zero map[string][]string
	// all means that all nodes of the cluster were asked for, and not this one alone.
	all bool
	// mayGet and mayPatch are the errors of the requests that the monitor depends on; nil for none.
	mayGet, mayPatch error
	// stopped is the first error of a question about the cluster. Those after it were not asked: who
	// may list one of these may list the others.
	stopped error
	// annotated holds the types that annotations of namespaces allow, by the namespace.
	annotated map[string][]string
	// limits and quotas list what bounds CPU in namespaces.
	limits, quotas []kubeapi.CPURule
	// policy is the policy of render admission; nil for none, and if it is not known.
	policy *kubeapi.Policy
}

// workloadType is a workload type of the configuration.
type workloadType struct {
	membership.Workload
	// mayAsk lists the namespaces whose pods may ask by the configuration.
	mayAsk []string
}

// workloadTypes returns the types of a configuration.
func workloadTypes(c *config.Config) []workloadType {
	types, rules := make([]workloadType, 0, len(c.Workloads)), c.Members(nil)
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
			names = append(names, workload.Resource(t.Type))
		}
	}
	return names
}

// byNamespace reports whether annotations of namespaces count.
func (f *clusterFacts) byNamespace() bool {
	return slices.ContainsFunc(f.types, func(t workloadType) bool { return t.ByNamespace })
}

// allows returns the namespaces whose pods may ask for a type, as far as they are known.
func (f *clusterFacts) allows(t *workloadType) []string {
	list := slices.Clone(t.Allowed)
	if t.ByNamespace {
		for namespace, types := range f.annotated {
			if slices.Contains(types, t.Type) {
				list = append(list, namespace)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// cluster asks the API server, once for all checks. It asks nothing that no type needs.
func (c *checks) cluster(ctx context.Context) *clusterFacts {
	if c.asked != nil {
		return c.asked
	}
	f := &clusterFacts{types: workloadTypes(c.desired.Config)}
	c.asked = f
	if known, err := node.ReadNamespaces(c.options.Node); err == nil && f.byNamespace() {
		f.annotated = map[string][]string{}
		for namespace, says := range known.Known {
			f.annotated[namespace] = says.Types
		}
	}
	if len(f.types) == 0 {
		return f
	}
	client, path, err := c.apiServer()
	if err != nil {
		f.unasked = err
		return f
	}
	f.server, f.kubeconfig, f.node = client.Server(), path, nodeName(c.options.Node, client)
	f.ask(ctx, client)
	return f
}

// apiServer returns a client of the API server and the path of its kubeconfig, or the reason why it
// is not asked.
func (c *checks) apiServer() (*kubeapi.Client, string, error) {
	if c.options.Eviction.Kubeconfig == options.KubeconfigNone {
		return nil, "", errors.New("the API server is not asked (--" + options.FlagKubeconfig + ")")
	}
	return cluster.Open(c.options.Node, c.options.Eviction.Kubeconfig)
}

// nodeName returns the name of the node in the cluster. An administrator's certificate does not
// have it, and the kubelet's does.
func nodeName(n host.Node, client *kubeapi.Client) string {
	if client.Node() == "" {
		if kubelets, _, err := cluster.Open(n, options.KubeconfigAuto); err == nil && kubelets.Node() != "" {
			return kubelets.Node()
		}
	}
	return cluster.NodeName(n, client)
}

// ask sends the requests: first those that a kubelet's user may send, then about the cluster. It
// ends at an API server that does not answer.
func (f *clusterFacts) ask(ctx context.Context, client *kubeapi.Client) {
	resources := f.resources()
	if len(resources) > 0 {
		f.mayPatch = client.CoresRights(ctx, f.node)
	}
	if f.byNamespace() && !errors.Is(f.mayPatch, kubeapi.ErrUnreachable) {
		f.mayGet = rightTo(client.Namespace(ctx, f.aNamespace()))
	}
	if err := errors.Join(f.mayPatch, f.mayGet); errors.Is(err, kubeapi.ErrUnreachable) {
		return
	}
	if len(resources) == 0 {
		f.policy, f.stopped = client.Policy(ctx, policy.Name)
		return
	}
	lack, err := client.NodesWithout(ctx, "", resources)
	if f.stopped = err; err != nil {
		//guard: who may not list nodes is not asked for the rest of the cluster
		f.lacking = f.ownNode(ctx, client, resources)
		return
	}
	f.lacking, f.zero, f.all = lack.All, lack.Zero, true
	if f.byNamespace() {
		var all map[string]map[string]string
		if all, f.stopped = client.Annotations(ctx); f.stopped != nil {
			return
		}
		f.annotated = map[string][]string{}
		for namespace, annotations := range all {
			f.annotated[namespace] = workload.Allowed(annotations)
		}
	}
	if f.limits, f.stopped = client.LimitRanges(ctx); f.stopped != nil {
		return
	}
	if f.quotas, f.stopped = client.Quotas(ctx); f.stopped == nil {
		f.policy, f.stopped = client.Policy(ctx, policy.Name)
	}
}

// ownNode asks for the resources of this node, whose user may not list all.
func (f *clusterFacts) ownNode(ctx context.Context, client *kubeapi.Client, resources []string) map[string][]string {
	if errors.Is(f.stopped, kubeapi.ErrUnreachable) {
		return nil
	}
	without, err := client.NodeWithout(ctx, f.node, resources)
	if err != nil {
		f.stopped = errors.Join(f.stopped, err)
		return nil
	}
	lacking := map[string][]string{}
	for _, name := range without {
		lacking[name] = []string{f.node}
	}
	return lacking
}

// aNamespace returns a namespace to try the right to get namespaces with. It need not exist.
func (f *clusterFacts) aNamespace() string {
	for _, namespace := range slices.Sorted(maps.Keys(f.annotated)) {
		return namespace
	}
	return "default"
}

// rightTo returns the error of a request, nil if only its object does not exist.
func rightTo(_ kubeapi.Namespace, err error) error {
	if errors.Is(err, kubeapi.ErrGone) {
		return nil
	}
	return err
}
