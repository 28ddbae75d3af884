package kubeapi

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nobody is the name of a pod that there is not.
const nobody = "node-partition-asks-for-its-rights"

// Rights returns what keeps us from telling of an eviction in a namespace, nil where nothing does. It asks with what an eviction does, for a
// pod that there is not and as a dry run: a SelfSubjectAccessReview says of a kubelet's user that it may not what it may for the pods of its node.
func (c *Client) Rights(ctx context.Context, namespace string) error {
	e := Eviction{UID: nobody, Namespace: namespace, Name: nobody, Now: time.Now()}
	if _, err := c.pod(ctx, e); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	var patch statusPatch
	patch.Metadata.UID = nobody
	_, err := c.do(ctx, c.patch(e, patch).Param("dryRun", metav1.DryRunAll))
	if err != nil && !apierrors.IsNotFound(err) {
		return c.failed("patch pods/status", namespace, nobody, err)
	}
	event := newEvent(Event{UID: nobody, Namespace: namespace, Name: nobody, Reason: ReasonEvicted, Now: e.Now})
	_, err = c.do(ctx, c.rest.Post().Namespace(namespace).Resource("events").Param("dryRun", metav1.DryRunAll).Body(event))
	return c.failed("create events about", namespace, nobody, err)
}
