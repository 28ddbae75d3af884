package kubeapi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Namespace is a namespace as the API server has it.
type Namespace struct {
	// UID differs from the UID of a namespace of the same name that was deleted before.
	UID         string
	Annotations map[string]string
}

// Namespace reads a namespace from the cache of the API server, which costs etcd nothing and may be
// a moment old. The error is ErrGone if the API server says that there is none, and ErrForbidden
// without the right to get namespaces, which a kubelet's user does not have by default. A 404 of
// another server, such as a load balancer, is ErrUnreachable.
func (c *Client) Namespace(ctx context.Context, name string) (Namespace, error) {
	result, err := c.do(ctx, c.rest.Get().Resource("namespaces").Name(name).Param("resourceVersion", "0"))
	object := &v1.Namespace{}
	if err == nil {
		err = result.Into(object)
	}
	//guard: a 404 of another server says nothing of a namespace
	if fromAnother(err) {
		return Namespace{}, c.about("get namespaces", "namespaces", name, fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	if err != nil {
		return Namespace{}, c.failed("get namespaces", "namespaces", name, err)
	}
	return Namespace{UID: string(object.UID), Annotations: object.Annotations}, nil
}
