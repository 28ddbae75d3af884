package render

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// AdmissionOptions holds the flags of render admission.
type AdmissionOptions struct {
	// Node has the configuration of the types.
	Node host.Node
	// Files lists files with the sections of other nodes, one for each pool; empty for Node.
	Files []string
	// Types lists types; empty for all of the configuration.
	Types []string
	// Kubeconfig is a file with the credentials of a user of the cluster who may list nodes; empty for
	// no question to the cluster.
	Kubeconfig string
	// Selector selects the Nodes by their labels that are to have the resources; empty for all.
	Selector string
	// APIVersion is the version of MutatingAdmissionPolicy; empty for the version that the cluster
	// serves, or the newest without a cluster.
	APIVersion string
	// ValidatingOnly leaves out the policies that change pods.
	ValidatingOnly bool
	// Required adds the annotation by which a runtime starts no member while the monitor is away.
	Required bool
	// Remove is for the names of all objects, to delete them. No configuration is read.
	Remove bool
}

// Admission returns the manifests for an API server, as YAML documents, and warnings about the
// cluster. With a kubeconfig, it returns an error while a node of the cluster lacks the resource of
// a type: no pod of the type would be scheduled there.
func Admission(ctx context.Context, o AdmissionOptions) (manifests string, warnings []string, err error) {
	c := admission.PolicyCluster{APIVersion: o.APIVersion, ValidatingOnly: o.ValidatingOnly, Required: o.Required}
	if !o.Remove {
		if err := configured(o, &c); err != nil {
			return "", nil, err
		}
	}
	if o.Kubeconfig != "" {
		if warnings, err = ask(ctx, o, &c); err != nil {
			return "", nil, err
		}
	}
	if c.APIVersion == "" {
		c.APIVersion = admission.PolicyV1
	}
	if o.Remove {
		manifests, err = admission.PolicyRemoval(c)
	} else {
		manifests, err = admission.Policies(c)
	}
	return manifests, warnings, err
}

// configured sets what the configuration says: the types, and the namespaces of members. Where
// there is no configuration, as on the machine of an administrator, the annotations of namespaces
// allow the named types.
func configured(o AdmissionOptions, c *admission.PolicyCluster) error {
	configs, err := configurations(o)
	if err != nil {
		return err
	}
	var all []Workload
	for _, of := range configs {
		all = append(all, ofConfig(of)...)
		for _, p := range of.Partitions {
			c.Members = append(c.Members, p.Namespaces...)
		}
	}
	c.Members = slices.Compact(slices.Sorted(slices.Values(c.Members)))
	all, err = selected(all, o.Types)
	switch {
	case !errors.Is(err, errNone):
		c.Types = merged(all)
	case len(o.Types) > 0:
		c.Types, err = named(o.Types)
	case o.Required && len(c.Members) > 0:
		err = nil
	}
	return err
}

// configurations returns that of the node, or those of the files, each of which has the sections of
// the nodes of a pool.
func configurations(o AdmissionOptions) ([]*config.Config, error) {
	if len(o.Files) == 0 {
		c, err := config.Load(string(o.Node.Root))
		return []*config.Config{c}, err
	}
	all := make([]*config.Config, 0, len(o.Files))
	for _, file := range o.Files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		alone, err := kubeletconfig.LoadDocument(file, data)
		if err != nil {
			return nil, err
		}
		c, err := config.Validate(alone, config.Size{})
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// merged returns the types of several pools, each name once. Its pods may ask where one pool allows
// it, and are converted if one pool has the resource.
func merged(all []Workload) []admission.Type {
	var types []admission.Type
	for _, w := range all {
		at := slices.IndexFunc(types, func(t admission.Type) bool { return t.Name == w.Type })
		if at == -1 {
			at = len(types)
			types = append(types, admission.Type{Name: w.Type, Unconverted: true})
		}
		t := &types[at]
		t.Namespaces = slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.Namespaces, w.MayAsk))))
		t.ByNamespace, t.Unconverted = t.ByNamespace || w.ByNamespace, t.Unconverted && !w.Advertise
	}
	return types
}

func named(names []string) ([]admission.Type, error) {
	var types []admission.Type
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		err := partition.Name(name).Check()
		if err != nil {
			return nil, fmt.Errorf("--type=%s: %w", name, err)
		}
		types = append(types, admission.Type{Name: name, ByNamespace: true})
	}
	return types, nil
}

const admissionGroup = "admissionregistration.k8s.io"

// ask completes c by what the cluster says. It returns why the cluster is not ready, and what in it
// does not go with a conversion.
func ask(ctx context.Context, o AdmissionOptions, c *admission.PolicyCluster) (warnings []string, err error) {
	client, err := kubeapi.New(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if o.ValidatingOnly {
		served, err := client.ServedVersion(ctx, admissionGroup, "validatingadmissionpolicies", admission.PolicyV1)
		if err == nil && served == "" {
			err = fmt.Errorf("API server %s: serves no ValidatingAdmissionPolicy v1: want Kubernetes 1.30 or later", client.Server())
		}
		return nil, err
	}
	served, err := client.ServedVersion(ctx, admissionGroup, "mutatingadmissionpolicies",
		admission.PolicyV1, admission.PolicyV1Beta1)
	switch {
	case err != nil:
		return nil, err
	case served == "":
		return nil, fmt.Errorf("API server %s: serves no MutatingAdmissionPolicy: want Kubernetes 1.36 or later, or 1.34 with "+
			"--feature-gates=MutatingAdmissionPolicy=true and --runtime-config=%s/%s=true, or take --validating-only",
			client.Server(), admissionGroup, admission.PolicyV1Beta1)
	case c.APIVersion == "":
		c.APIVersion = served
	}
	if o.Remove || len(c.Types) == 0 {
		return nil, nil
	}
	if err := ready(ctx, client, o, c.Types); err != nil {
		return nil, err
	}
	return harmed(ctx, client)
}

// harmed says which programs of the cluster do not go with pods whose CPU requests are converted.
func harmed(ctx context.Context, client *kubeapi.Client) (warnings []string, err error) {
	for _, of := range []struct{ group, plural, version, text string }{
		{"karpenter.sh", "nodepools", "v1", "a DaemonSet whose pods are converted keeps Karpenter from adding any node, " +
			"because no instance type has the resource: see docs/autoscalers.md"},
		{"autoscaling.k8s.io", "verticalpodautoscalers", "v1", "a VerticalPodAutoscaler with cpu in its controlledResources " +
			"evicts a converted pod again and again: see docs/workload-admission.md"},
	} {
		served, err := client.ServedVersion(ctx, of.group, of.plural, of.version)
		if err != nil {
			return nil, err
		}
		if served != "" {
			warnings = append(warnings,
				fmt.Sprintf("API server %s: serves %s of %s: %s", client.Server(), of.plural, of.group, of.text))
		}
	}
	return warnings, nil
}

// ready returns an error for each resource that a node lacks. Pools with different types lack some:
// there one node has to have it.
func ready(ctx context.Context, client *kubeapi.Client, o AdmissionOptions, types []admission.Type) error {
	var resources []string
	for _, of := range types {
		if !of.Unconverted {
			resources = append(resources, partition.WorkloadResource(of.Name))
		}
	}
	lack, err := client.NodesWithout(ctx, o.Selector, resources)
	if err == nil && lack.Nodes == 0 && o.Selector != "" {
		err = fmt.Errorf("API server %s: no Node has the labels of --selector=%s", client.Server(), o.Selector)
	}
	errs := []error{err}
	for _, name := range resources {
		nodes := lack.All[name]
		if len(nodes) > 0 && (len(o.Files) < 2 || len(nodes) == lack.Nodes) {
			errs = append(errs, fmt.Errorf("%s is missing on %s: no pod of the type would be scheduled there; "+
				"configure the type on every node, and wait until partition-monitor has set the resource", name, listed(nodes)))
		}
	}
	return errors.Join(errs...)
}

// maxNames bounds the nodes in a message.
const maxNames = 10

func listed(nodes []string) string {
	text := fmt.Sprintf("%d nodes: ", len(nodes))
	if len(nodes) == 1 {
		text = "the node "
	}
	rest := ""
	if len(nodes) > maxNames {
		nodes, rest = nodes[:maxNames], ", ..."
	}
	return text + strings.Join(nodes, ", ") + rest
}
