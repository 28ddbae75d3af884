package kubeapi

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
)

// AboutPod returns what an event about a pod refers to, without the pod's version, which has no
// meaning here.
func AboutPod(p Pod) v1.ObjectReference {
	return v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID),
	}
}

// AboutNode returns what an event about a node refers to. The kubelet gives the name as the UID,
// and kubectl describe node searches for both (nodeRef, cmd/kubelet/app/server.go, v1.37.0).
func AboutNode(name string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// NewEvent returns a warning, for kubectl describe, as the kubelet's recorder creates it
// (recorderImpl.makeEvent, k8s.io/client-go/tools/record v0.37.0). host is the name of the node,
// and reason one word for programs. The name of the event in the API server follows from its time.
func NewEvent(about v1.ObjectReference, host, reason, message string, now time.Time) *v1.Event {
	at := metav1.NewTime(now)
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      util.GenerateEventName(about.Name, now.UnixNano()),
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
		},
		InvolvedObject: about,
		Type:           v1.EventTypeWarning, Reason: reason, Message: message,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              v1.EventSource{Component: Component, Host: host},
		ReportingController: Component, ReportingInstance: host,
	}
}

// Event creates an event. Unlike client-go's recorder it returns after the API server has stored
// it, or with the error, and does not aggregate similar events: there is one for each eviction.
func (c *Client) Event(ctx context.Context, e *v1.Event) error {
	_, err := c.write(ctx, c.postEvent(e))
	if apierrors.IsAlreadyExists(err) {
		// An earlier run of the program has created it, or an attempt whose answer was lost: its name is
		// the pod's with the time of the eviction.
		if e.Count > 1 {
			return c.RepeatEvent(ctx, e)
		}
		return nil
	}
	return c.eventFailed("create", e, err)
}

// RepeatEvent writes the count and the last time of an event that Event has created. It returns
// ErrGone if there is no such event: the API server keeps events for an hour (--event-ttl).
func (c *Client) RepeatEvent(ctx context.Context, e *v1.Event) error {
	_, err := c.write(ctx, c.patchEvent(e))
	return c.eventFailed("patch", e, err)
}

func (c *Client) eventFailed(verb string, e *v1.Event, err error) error {
	return c.failed(verb+" events about", cmp.Or(e.InvolvedObject.Namespace, "node"), e.InvolvedObject.Name, err)
}

func (c *Client) postEvent(e *v1.Event) *rest.Request {
	return c.rest.Post().Namespace(e.Namespace).Resource("events").Body(e)
}

// patchEvent returns the patch that client-go's recorder sends (eventObserve,
// k8s.io/client-go/tools/record v0.37.0).
func (c *Client) patchEvent(e *v1.Event) *rest.Request {
	return c.merge(map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp}).
		Namespace(e.Namespace).Resource("events").Name(e.Name)
}
