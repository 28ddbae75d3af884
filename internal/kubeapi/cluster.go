package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// pageSize bounds the nodes in one answer.
const pageSize = 500

// nodePage has the part of a list of nodes that is read here.
type nodePage struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Status struct {
			Allocatable map[string]resource.Quantity `json:"allocatable"`
		} `json:"status"`
	} `json:"items"`
}

// NodesWithout returns, for each of these resources that a node of the cluster lacks, the names of
// the nodes. A node has a resource if it can allocate some of it. The user needs the right to list
// nodes, which a kubelet's does not have.
func (c *Client) NodesWithout(ctx context.Context, resources []string) (map[string][]string, error) {
	lacking := map[string][]string{}
	for from := ""; ; {
		request := c.rest.Get().Resource("nodes").Param("limit", fmt.Sprint(pageSize)).SetHeader("Accept", "application/json")
		if from != "" {
			request.Param("continue", from)
		}
		var page nodePage
		if err := c.read(ctx, "list nodes", "list nodes", request, &page); err != nil {
			return nil, err
		}
		for _, node := range page.Items {
			for _, name := range resources {
				if q := node.Status.Allocatable[name]; q.Sign() <= 0 {
					lacking[name] = append(lacking[name], node.Metadata.Name)
				}
			}
		}
		if from = page.Metadata.Continue; from == "" {
			return lacking, nil
		}
	}
}

// ServedVersion returns the first of these versions of an API group in which the API server serves
// a resource, by its plural; empty if it serves none of them.
func (c *Client) ServedVersion(ctx context.Context, group, plural string, versions ...string) (string, error) {
	for _, version := range versions {
		var list metav1.APIResourceList
		request := c.rest.Get().AbsPath("/apis", group, version).SetHeader("Accept", "application/json")
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
	result, err := c.do(ctx, request)
	if err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w: %w; the user of %s needs the right to %s", ErrForbidden, err, c.kubeconfig, right)
		} else if _, kind := c.explain(err); kind != nil {
			err = fmt.Errorf("%w: %w", kind, err)
		}
		return fmt.Errorf("API server %s: %s: %w", c.server, what, err)
	}
	answer, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		return fmt.Errorf("API server %s: %s: %w", c.server, what, err)
	}
	return nil
}
