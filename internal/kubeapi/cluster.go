package kubeapi

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// pageSize bounds the nodes in one answer.
const pageSize = 500

// nodeAmounts is the part of a node that is read here.
type nodeAmounts struct {
	Metadata named `json:"metadata"`
	Status   struct {
		Allocatable map[string]resource.Quantity `json:"allocatable"`
	} `json:"status"`
}

// without returns which of these resources the node can allocate none of.
func (n *nodeAmounts) without(resources []string) []string {
	var lacking []string
	for _, name := range resources {
		//guard: a node with none of the resource lacks it
		if q := n.Status.Allocatable[name]; q.Sign() <= 0 {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

// Lack holds the nodes that lack a resource, by the resource.
type Lack struct {
	// Nodes counts all nodes that were read.
	Nodes int
	All   map[string][]string
}

// NodesWithout returns the nodes of the cluster that lack these resources, of those that a label
// selector selects; an empty one selects all. A node has a resource if it can allocate some of it.
// The user needs the right to list nodes, which a kubelet's does not have.
func (c *Client) NodesWithout(ctx context.Context, selector string, resources []string) (Lack, error) {
	lack := Lack{All: map[string][]string{}}
	err := list(ctx, c, "nodes", selector, func(n *nodeAmounts) {
		lack.Nodes++
		for _, name := range n.without(resources) {
			lack.All[name] = append(lack.All[name], n.Metadata.Name)
		}
	})
	if err != nil {
		return Lack{}, err
	}
	return lack, nil
}

// ServedVersion returns the first of these versions of an API group in which the API server serves
// a resource, by its plural; empty if it serves none of them.
func (c *Client) ServedVersion(ctx context.Context, group, plural string, versions ...string) (string, error) {
	for _, version := range versions {
		var list metav1.APIResourceList
		request := c.rest.Get().AbsPath("/apis", group, version)
		err := c.read(ctx, "discover "+group+"/"+version, "read /apis", request, &list)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			return version, nil
		}
	}
	return "", nil
}

// read makes a request about the whole cluster and decodes its answer. right completes "the right
// to", for a user without it.
func (c *Client) read(ctx context.Context, what, right string, request *rest.Request, into any) error {
	err := c.get(ctx, request, into)
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: %w; the user of %s needs the right to %s", ErrForbidden, err, c.kubeconfig, right)
	} else if _, kind := c.explain(err); kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	return fmt.Errorf("API server %s: %s: %w", c.server, what, err)
}
