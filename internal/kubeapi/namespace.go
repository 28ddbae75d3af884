package kubeapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespace is a namespace as the API server has it.
type Namespace struct {
	// UID differs from the UID of a namespace of the same name that was deleted before.
	UID         string
	Annotations map[string]string
}

// Namespace reads a namespace from the cache of the API server, which costs etcd nothing and may be
// a moment old. The error is ErrGone if the API server says that there is none, and ErrForbidden
// without the right to get namespaces, which a kubelet's user does not have by default.
func (c *Client) Namespace(ctx context.Context, name string) (Namespace, error) {
	var object metav1.PartialObjectMetadata
	request := c.rest.Get().Resource("namespaces").Name(name).Param("resourceVersion", "0")
	if err := c.get(ctx, request, &object); err != nil {
		return Namespace{}, c.failed("get namespaces", "namespaces", name, err)
	}
	return Namespace{UID: string(object.UID), Annotations: object.Annotations}, nil
}
