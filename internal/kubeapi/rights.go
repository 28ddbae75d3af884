package kubeapi

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noPod is the name and the UID of a pod that does not exist.
const noPod = "node-partition-asks-for-its-rights"

// Rights returns the error that prevents reporting an eviction in a namespace, nil if there is
// none. It makes the requests of an eviction, for a pod that does not exist and as a dry run. A
// SelfSubjectAccessReview would deny a kubelet's user the requests that it may make for the pods of
// its node.
func (c *Client) Rights(ctx context.Context, namespace string) error {
	nobody := Pod{UID: noPod, Namespace: namespace, Name: noPod}
	if _, err := c.pod(ctx, nobody); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	var patch statusPatch
	patch.Metadata.UID = noPod
	_, err := c.do(ctx, c.patch(nobody, patch).Param("dryRun", metav1.DryRunAll))
	if err != nil && !apierrors.IsNotFound(err) {
		return c.failed("patch pods/status", namespace, noPod, err)
	}
	event := NewEvent(AboutPod(nobody), "", ReasonEvicted, "", time.Now())
	_, err = c.do(ctx, c.postEvent(event).Param("dryRun", metav1.DryRunAll))
	return c.eventFailed("create", event, err)
}

// EventRights returns the error that prevents creating events about a node, and counting repeated
// ones, nil if there is none. It sends dry runs, for an event that does not exist.
func (c *Client) EventRights(ctx context.Context, node string) error {
	e := NewEvent(AboutNode(node), "", ReasonEvicted, "", time.Now())
	_, err := c.do(ctx, c.postEvent(e).Param("dryRun", metav1.DryRunAll))
	if err != nil {
		return c.eventFailed("create", e, err)
	}
	_, err = c.do(ctx, c.patchEvent(e).Param("dryRun", metav1.DryRunAll))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.eventFailed("patch", e, err)
}
