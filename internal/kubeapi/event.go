package kubeapi

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
)

// Event is a warning about a pod, for kubectl describe.
type Event struct {
	UID, Namespace, Name string
	// Node is the name of the node of the event.
	Node string
	// Reason is one word for programs, ReasonEvicted for an eviction.
	Reason string
	// Message and Annotations of an eviction come from the function Message.
	Message     string
	Annotations map[string]string
	// Now is the time of the event, the present if it is zero.
	Now time.Time
}

// Event creates an event. Unlike client-go's recorder it returns after the API server has stored
// it, or with the error, and does not aggregate similar events: there is one for each eviction.
func (c *Client) Event(ctx context.Context, e Event) error {
	if e.Now.IsZero() {
		e.Now = time.Now()
	}
	_, err := c.do(ctx, c.rest.Post().Namespace(e.Namespace).Resource("events").Body(newEvent(e)))
	if apierrors.IsAlreadyExists(err) {
		// An earlier run of the program has created it: its name is the pod's with the time of the
		// eviction.
		return nil
	}
	return c.failed("create events about", e.Namespace, e.Name, err)
}

// newEvent returns an event as the kubelet's recorder creates it (recorderImpl.makeEvent,
// k8s.io/client-go/tools/record v0.37.0), but without the pod's version, which has no meaning here.
func newEvent(e Event) *v1.Event {
	now := metav1.NewTime(e.Now)
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(e.Name, e.Now.UnixNano()), Namespace: e.Namespace, Annotations: e.Annotations,
		},
		InvolvedObject: v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: e.Namespace, Name: e.Name, UID: types.UID(e.UID),
		},
		Type: v1.EventTypeWarning, Reason: e.Reason, Message: e.Message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              v1.EventSource{Component: Component, Host: e.Node},
		ReportingController: Component, ReportingInstance: e.Node,
	}
}
