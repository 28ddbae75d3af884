package kubeapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// without returns which of these resources a node can allocate none of.
func without(node *v1.Node, resources []string) []string {
	var lacking []string
	for _, name := range resources {
		//guard: a node with none of the resource lacks it
		if q := node.Status.Allocatable[v1.ResourceName(name)]; q.Sign() <= 0 {
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
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		request := c.rest.Get().Resource("nodes").Param("limit", strconv.FormatInt(o.Limit, 10))
		if o.Continue != "" {
			request.Param("continue", o.Continue)
		}
		if selector != "" {
			request.Param("labelSelector", selector)
		}
		nodes := &v1.NodeList{}
		return nodes, c.read(ctx, "list nodes", "list nodes", request, nodes)
	})
	lack := Lack{All: map[string][]string{}}
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if node, ok := o.(*v1.Node); ok {
			lack.Nodes++
			for _, name := range without(node, resources) {
				lack.All[name] = append(lack.All[name], node.Name)
			}
		}
		return nil
	})
	if err != nil {
		return Lack{}, err
	}
	return lack, nil
}

// NodeWithout returns which of these resources one node lacks, as NodesWithout does for all. A
// kubelet's user may get its own node.
func (c *Client) NodeWithout(ctx context.Context, node string, resources []string) ([]string, error) {
	object, err := c.getNode(ctx, node)
	if err != nil {
		return nil, err
	}
	return without(object, resources), nil
}

func (c *Client) getNode(ctx context.Context, name string) (*v1.Node, error) {
	node := &v1.Node{}
	return node, c.read(ctx, "get nodes/"+name, "get nodes", c.rest.Get().Resource("nodes").Name(name), node)
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
