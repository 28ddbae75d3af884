package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is a page of a list, with the part T of its objects that is read.
type page[T any] struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []T             `json:"items"`
}

// maxPages bounds the pages of a list: half a million objects. A cluster has at most 10,000
// namespaces and 5000 nodes (kubernetes.io/docs/setup/best-practices/cluster-large).
const maxPages = 1000

// list calls each with the objects of a list of the whole cluster, page by page, or with those that
// a label selector selects. A server or a proxy that gives one page again and again is an error.
func list[T any](ctx context.Context, c *Client, plural, selector string, each func(*T)) error {
	from := ""
	for number := 1; ; number++ {
		request := c.rest.Get().Resource(plural).Param("limit", fmt.Sprint(pageSize))
		if from != "" {
			request.Param("continue", from)
		}
		if selector != "" {
			request.Param("labelSelector", selector)
		}
		var got page[T]
		if err := c.read(ctx, "list "+plural, "list "+plural, request, &got); err != nil {
			return err
		}
		for i := range got.Items {
			each(&got.Items[i])
		}
		next := got.Metadata.Continue
		switch {
		//guard: all pages of a list are read
		case next == "":
			return nil
		//guard: a list with one page again and again ends
		case next == from:
			return fmt.Errorf("API server %s: list %s: page %d repeats the continue token of its request, so that the list has no end; "+
				"is a proxy in between that keeps answers?", c.server, plural, number)
		case number == maxPages:
			return fmt.Errorf("API server %s: list %s: has more than %d pages of %d; does it begin again and again?",
				c.server, plural, maxPages, pageSize)
		}
		from = next
	}
}

// named is the part of an object that names it.
type named struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
}

// NodeWithout returns which of these resources one node lacks, as NodesWithout does for all. A
// kubelet's user may get its own node.
func (c *Client) NodeWithout(ctx context.Context, node string, resources []string) ([]string, error) {
	var object nodeAmounts
	request := c.rest.Get().Resource("nodes").Name(node)
	if err := c.read(ctx, "get nodes/"+node, "get nodes", request, &object); err != nil {
		return nil, err
	}
	return object.without(resources), nil
}

// Policy holds what is read of a ValidatingAdmissionPolicy.
type Policy struct {
	Annotations map[string]string
	// Denies means that a binding of the policy's name makes it deny requests. Without one it has no
	// effect.
	Denies bool
}

// Policy returns a ValidatingAdmissionPolicy by its name, nil if there is none.
func (c *Client) Policy(ctx context.Context, name string) (*Policy, error) {
	var policy struct {
		Metadata named `json:"metadata"`
	}
	var binding struct {
		Spec struct {
			ValidationActions []string `json:"validationActions"`
		} `json:"spec"`
	}
	for _, of := range []struct {
		plural string
		into   any
	}{{"validatingadmissionpolicies", &policy}, {"validatingadmissionpolicybindings", &binding}} {
		request := c.rest.Get().AbsPath("/apis/admissionregistration.k8s.io/v1", of.plural, name)
		err := c.read(ctx, "get "+of.plural+"/"+name, "get "+of.plural, request, of.into)
		switch absent := errors.Is(err, ErrGone); {
		case absent && of.into == &policy:
			return nil, nil
		case err != nil && !absent:
			return nil, err
		}
	}
	//guard: a policy whose binding does not deny guards nothing
	return &Policy{policy.Metadata.Annotations, slices.Contains(binding.Spec.ValidationActions, "Deny")}, nil
}
