package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nodepartition/internal/admission"
	"nodepartition/internal/admission/policy"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/unitname"
	"nodepartition/internal/workload"
)

// AdmissionOptions holds the flags of render admission.
type AdmissionOptions struct {
	// Node has the configuration of the types.
	Node host.Node
	// Types lists types; empty for all of the configuration.
	Types []string
	// Kubeconfig is a file with the credentials of a user of the cluster who may list nodes; empty for
	// no question to the cluster.
	Kubeconfig string
	// APIVersion is the version of MutatingAdmissionPolicy; empty for the version that the cluster
	// serves, or the newest without a cluster.
	APIVersion string
	// ValidatingOnly leaves out the policies that change pods.
	ValidatingOnly bool
}

// Admission returns the manifests for an API server, as YAML documents. With a kubeconfig, it
// returns an error while a node of the cluster lacks the resource of a type: no pod of the type
// would be scheduled there.
func Admission(ctx context.Context, o AdmissionOptions) (string, error) {
	types, err := admissionTypes(o)
	if err != nil {
		return "", err
	}
	c := policy.Cluster{Types: types, APIVersion: o.APIVersion, ValidatingOnly: o.ValidatingOnly}
	if o.Kubeconfig != "" {
		if err := ask(ctx, o, &c); err != nil {
			return "", err
		}
	}
	if c.APIVersion == "" {
		c.APIVersion = policy.V1
	}
	return policy.Render(c)
}

// admissionTypes returns the types of the configuration whose resource is on the Node. Where there
// is no configuration, as on the machine of an administrator, the annotations of namespaces allow
// the named types.
func admissionTypes(o AdmissionOptions) ([]admission.Type, error) {
	all, err := Workloads(o.Node, o.Types)
	if errors.Is(err, errNone) && len(o.Types) > 0 {
		return named(o.Types)
	}
	var types []admission.Type
	for _, w := range all {
		switch {
		case w.Advertise:
			types = append(types, admission.Type{Name: w.Type, Namespaces: w.MayAsk, ByNamespace: w.ByNamespace})
		case len(o.Types) > 0:
			return nil, fmt.Errorf("--type=%s: advertise of the type is false, and the Node has no resource for its pods", w.Type)
		}
	}
	if err == nil && len(types) == 0 {
		err = errors.New("advertise is false for all workload types, and the Node has no resource for their pods")
	}
	return types, err
}

func named(names []string) ([]admission.Type, error) {
	var types []admission.Type
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		err := unitname.PartitionName(name).Check()
		if err != nil {
			return nil, fmt.Errorf("--type=%s: %w", name, err)
		}
		types = append(types, admission.Type{Name: name, ByNamespace: true})
	}
	return types, nil
}

const admissionGroup = "admissionregistration.k8s.io"

// ask completes c by what the cluster says, and returns why it is not ready.
func ask(ctx context.Context, o AdmissionOptions, c *policy.Cluster) error {
	client, err := kubeapi.New(o.Kubeconfig)
	if err != nil {
		return err
	}
	if o.ValidatingOnly {
		served, err := client.ServedVersion(ctx, admissionGroup, "validatingadmissionpolicies", policy.V1)
		if err == nil && served == "" {
			err = fmt.Errorf("API server %s: serves no ValidatingAdmissionPolicy v1: want Kubernetes 1.30 or later", client.Server())
		}
		return err
	}
	served, err := client.ServedVersion(ctx, admissionGroup, "mutatingadmissionpolicies", policy.V1, policy.V1Beta1)
	switch {
	case err != nil:
		return err
	case served == "":
		return fmt.Errorf("API server %s: serves no MutatingAdmissionPolicy: want Kubernetes 1.36 or later, or 1.34 with "+
			"--feature-gates=MutatingAdmissionPolicy=true and --runtime-config=%s/%s=true, or take --validating-only",
			client.Server(), admissionGroup, policy.V1Beta1)
	case c.APIVersion == "":
		c.APIVersion = served
	}
	return ready(ctx, client, c.Types)
}

// ready returns an error for each resource that a node of the cluster lacks.
func ready(ctx context.Context, client *kubeapi.Client, types []admission.Type) error {
	resources := make([]string, 0, len(types))
	for _, of := range types {
		resources = append(resources, workload.Resource(of.Name))
	}
	lack, err := client.NodesWithout(ctx, resources)
	errs := []error{err}
	for _, name := range resources {
		if nodes := lack.All[name]; len(nodes) > 0 {
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
