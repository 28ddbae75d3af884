package kubeapi

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
)

// Event is a warning about a pod or a node, for kubectl describe.
type Event struct {
	// UID, Namespace and Name are of the pod. A node has its name alone.
	UID, Namespace, Name string
	// Node is the name of the node of the event.
	Node string
	// AboutNode means that the event is about the node Name, and not about a pod.
	AboutNode bool
	// Reason is one word for programs, ReasonEvicted for an eviction.
	Reason string
	// Message and Annotations of an eviction come from the function Message.
	Message     string
	Annotations map[string]string
	// Now is the time of the event, the present if it is zero. The name of the event in the API server
	// follows from it.
	Now time.Time
	// Count is the number of occurrences since Now, 0 for one. Last is the time of the last, Now if it
	// is zero.
	Count int
	Last  time.Time
}

// Event creates an event. Unlike client-go's recorder it returns after the API server has stored
// it, or with the error, and does not aggregate similar events: there is one for each eviction.
func (c *Client) Event(ctx context.Context, e Event) error {
	if e.Now.IsZero() {
		e.Now = time.Now()
	}
	_, err := c.write(ctx, c.postEvent(e))
	if apierrors.IsAlreadyExists(err) {
		// An earlier run of the program has created it, or an attempt whose answer was lost: its name is
		// the pod's with the time of the eviction.
		if e.Count > 1 {
			return c.RepeatEvent(ctx, e)
		}
		return nil
	}
	return c.failed("create events about", e.of(), e.Name, err)
}

// RepeatEvent writes Count and Last of an event that Event has created with the same Now. It
// returns ErrGone if there is no such event: the API server keeps events for an hour
// (--event-ttl).
func (c *Client) RepeatEvent(ctx context.Context, e Event) error {
	_, err := c.write(ctx, c.patchEvent(e))
	return c.failed("patch events about", e.of(), e.Name, err)
}

func (c *Client) postEvent(e Event) *rest.Request {
	return c.rest.Post().Namespace(e.namespace()).Resource("events").Body(newEvent(e))
}

// patchEvent returns the patch that client-go's recorder sends (eventObserve,
// k8s.io/client-go/tools/record v0.37.0).
func (c *Client) patchEvent(e Event) *rest.Request {
	data, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": metav1.NewTime(e.Last)})
	if err != nil {
		panic(err) // it has a number and a time
	}
	return c.rest.Patch(types.StrategicMergePatchType).
		Namespace(e.namespace()).
		Resource("events").
		Name(e.id()).
		Body(data)
}

// namespace returns the namespace of the event: the pod's, or default, as for the kubelet's
// events about its node (makeEvent, k8s.io/client-go/tools/record v0.37.0).
func (e Event) namespace() string {
	if e.AboutNode {
		return metav1.NamespaceDefault
	}
	return e.Namespace
}

// of returns the first part of the name in errors.
func (e Event) of() string {
	if e.AboutNode {
		return "node"
	}
	return e.Namespace
}

// id returns the name of the event in the API server.
func (e Event) id() string { return util.GenerateEventName(e.Name, e.Now.UnixNano()) }

// newEvent returns an event as the kubelet's recorder creates it (recorderImpl.makeEvent,
// k8s.io/client-go/tools/record v0.37.0), but without the pod's version, which has no meaning here.
func newEvent(e Event) *v1.Event {
	about := v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: e.Namespace, Name: e.Name, UID: types.UID(e.UID),
	}
	if e.AboutNode {
		// The kubelet gives the name as the UID, and kubectl describe node searches for both
		// (nodeRef, cmd/kubelet/app/server.go, v1.37.0).
		about = v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Name, UID: types.UID(e.Name)}
	}
	last := metav1.NewTime(e.Last)
	if e.Last.IsZero() {
		last = metav1.NewTime(e.Now)
	}
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: e.id(), Namespace: e.namespace(), Annotations: e.Annotations},
		InvolvedObject: about,
		Type:           v1.EventTypeWarning, Reason: e.Reason, Message: e.Message,
		FirstTimestamp: metav1.NewTime(e.Now), LastTimestamp: last, Count: int32(max(e.Count, 1)),
		Source:              v1.EventSource{Component: Component, Host: e.Node},
		ReportingController: Component, ReportingInstance: e.Node,
	}
}
