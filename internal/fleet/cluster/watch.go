package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"nodepartition/internal/fleet"
	"nodepartition/internal/kubewatch"
)

// pageSize bounds the objects in one answer.
const pageSize = 500

// Followed is a kind of object whose changes are followed. It knows which objects there are.
type Followed struct {
	c        *Client
	resource resource
	labels   string
	new      func() object
	known    map[string]fleet.Change // the last one of each object, by UID
	// version is the one to go on from; empty before the first list.
	version string
}

// Nodes follows all nodes.
func (c *Client) Nodes() *Followed {
	return c.follow(nodes, "", func() object { return &nodeObject{} })
}

// Jobs follows the Jobs of all rolls.
func (c *Client) Jobs() *Followed {
	return c.follow(jobs, fleet.RollLabel, func() object { return &jobObject{} })
}

// Pods follows the pods of all Jobs.
func (c *Client) Pods() *Followed {
	return c.follow(pods, fleet.RollLabel, func() object { return &podObject{} })
}

func (c *Client) follow(r resource, labels string, constructor func() object) *Followed {
	return &Followed{c: c, resource: r, labels: labels, new: constructor, known: map[string]fleet.Change{}}
}

// String returns the name of the resource.
func (f *Followed) String() string { return string(f.resource) }

// List calls seen with each object, and with the end of each that was known and has gone.
// Watch goes on from it.
func (f *Followed) List(ctx context.Context, seen func(fleet.Change)) error {
	present := map[string]bool{}
	version, from := "", ""
	for {
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		request := f.request().Param("limit", strconv.Itoa(pageSize))
		if from != "" {
			request.Param("continue", from)
		}
		err := f.c.do(ctx, "list "+string(f.resource), "", request, &page)
		//guard: a list whose version is forgotten in the middle begins again
		if errors.Is(err, errExpired) && from != "" {
			// The API server keeps the version of a list for some minutes.
			version, from = "", ""
			clear(present)
			continue
		}
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			o := f.new()
			if err := json.Unmarshal(item, o); err != nil {
				return f.c.failed("list "+string(f.resource), "", err)
			}
			present[o.meta().UID] = true
			f.saw(o, seen)
		}
		if version == "" {
			// All pages are of one version. The later ones may have been read at another time.
			version = page.Metadata.ResourceVersion
		}
		next := page.Metadata.Continue
		if next == "" {
			break
		}
		if next == from {
			return fmt.Errorf("API server %s: list %s: a page has the continue token that it was asked for with: is a proxy in between that "+
				"keeps answers?", f.c.server, f.resource)
		}
		from = next
	}
	for uid, change := range f.known {
		if !present[uid] {
			f.gone(uid, change, seen)
		}
	}
	f.version = version
	return nil
}

func (f *Followed) request() *rest.Request {
	request := f.c.rest.Get().AbsPath(f.c.path(f.resource))
	if f.labels != "" {
		request.Param("labelSelector", f.labels)
	}
	return request
}

func (f *Followed) saw(o object, seen func(fleet.Change)) {
	change := o.change()
	f.known[o.meta().UID] = change
	seen(change)
}

func (f *Followed) gone(uid string, change fleet.Change, seen func(fleet.Change)) {
	delete(f.known, uid)
	change.Gone = true
	seen(change)
}

// Watch calls seen with each change after the last List or Watch. It returns nil when the API
// server ends the watch, which it does after some minutes. It also does so after it has listed the
// objects again, because the last version is too old to go on from.
func (f *Followed) Watch(ctx context.Context, seen func(fleet.Change)) error {
	err := f.watch(ctx, seen)
	//guard: a watch whose version is too old begins with a list
	if errors.Is(err, errExpired) {
		return f.List(ctx, seen)
	}
	return err
}

func (f *Followed) watch(ctx context.Context, seen func(fleet.Change)) error {
	what := "watch " + string(f.resource)
	f.c.count(what)
	request := f.request().
		SetHeader("Accept", "application/json").
		Param("allowWatchBookmarks", "true").
		Param("resourceVersion", f.version)
	err := kubewatch.Follow(ctx, request, f.c.open, func(event kubewatch.Event) error {
		o := f.new()
		if err := json.Unmarshal(event.Object, o); err != nil {
			return err
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			f.saw(o, seen)
		case watch.Deleted:
			f.gone(o.meta().UID, o.change(), seen)
		}
		f.version = o.meta().ResourceVersion
		return nil
	})
	return f.c.failed(what, "", err)
}

// open begins to read an answer that goes on. It waits for its beginning for as long as for any
// other answer.
func (c *Client) open(ctx context.Context, request *rest.Request) (io.ReadCloser, error) {
	return kubewatch.Open(ctx, request, RequestTimeout, &c.left)
}

// PodOf returns the pod of a Job, nil if there is none.
func (c *Client) PodOf(ctx context.Context, j *fleet.Job) (*fleet.Pod, error) {
	var list struct {
		Items []podObject `json:"items"`
	}
	request := c.rest.Get().AbsPath(c.path(pods)).Param("labelSelector", j.PodSelector())
	if err := c.do(ctx, "list pods", "of "+j.Name, request, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if pod := list.Items[i].pod(); pod.JobUID == j.UID {
			return pod, nil
		}
	}
	return nil, nil
}

// Job returns the Job of a name, nil if there is none that a roll has made. It needs only the right
// to list.
func (c *Client) Job(ctx context.Context, name string) (*fleet.Job, error) {
	var list struct {
		Items []jobObject `json:"items"`
	}
	request := c.rest.Get().AbsPath(c.path(jobs)).
		Param("labelSelector", fleet.RollLabel).
		Param("fieldSelector", "metadata.name="+name)
	if err := c.do(ctx, "list jobs", c.place.Namespace+"/"+name, request, &list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return list.Items[0].job(), nil
}
