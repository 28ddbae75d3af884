package nri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// Plugin answers the runtime over NRI. It makes each answer from the event and from memory. The
// runtime waits for the answer: after two seconds it ends the connection and starts the container
// where it was (plugin_request_timeout of containerd and CRI-O).
type Plugin struct {
	// Wake is called when a reconcile has something to do, Announce when a sandbox of a member
	// begins. They return at once.
	Wake     func()
	Announce func(podmove.Announcement)
	// Connection is called when the runtime has connected (true) or disconnected.
	Connection func(up bool)
	// Refused is called when a container is refused. With it the plugin is a validator.
	Refused func(podmove.Placement)

	mu      sync.Mutex
	rules   partition.Rules
	runtime string
	// announced is nil while there is no connection.
	announced map[string]announcement
	answered  map[string]podmove.Answer
	// connections counts how often the runtime has connected.
	connections int
	// refused is when the runtime began to refuse connections. It is zero while it takes them.
	refused time.Time
}

type announcement struct {
	podmove.Announcement
	at time.Time
}

// announcedFor bounds how long an announced pod counts as present although the runtime never lists
// it. It is a little longer than the kubelet waits for a sandbox (runtimeRequestTimeout, two
// minutes).
const announcedFor = 3 * time.Minute

// SetRules sets which pods belong to which partition from now on.
func (p *Plugin) SetRules(r partition.Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = r
}

// Configure is the first call of the runtime. It subscribes to the events for which Plugin has a
// method.
func (p *Plugin) Configure(_ context.Context, _, runtime, _ string) (api.EventMask, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runtime = runtime
	return 0, nil
}

// Synchronize is called after Configure with the running containers. From here on no container is
// created without a call.
func (p *Plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	p.connections++
	p.announced, p.answered = map[string]announcement{}, map[string]podmove.Answer{}
	p.mu.Unlock()
	p.Connection(true)
	p.Wake()
	return nil, nil
}

// disconnected drops the state that a disconnected plugin cannot keep up to date.
func (p *Plugin) disconnected() {
	p.mu.Lock()
	was := p.announced != nil
	p.announced = nil
	p.mu.Unlock()
	if was {
		p.Connection(false)
		p.Wake()
	}
}

// Connected reports whether the runtime calls us before it creates a container.
func (p *Plugin) Connected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.announced != nil
}

// Connections counts how often the runtime has connected. In between it may have been restarted, or
// have got another configuration or another plugin.
func (p *Plugin) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections
}

// dialed notes whether the runtime has taken a connection.
func (p *Plugin) dialed(taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case taken:
		p.refused = time.Time{}
	case p.refused.IsZero():
		p.refused = time.Now()
	}
}

// RefusedFor returns for how long the runtime has refused each connection. It is 0 if it has taken
// the last one, which it may not have answered.
func (p *Plugin) RefusedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused.IsZero() {
		return 0
	}
	return time.Since(p.refused)
}

// RunPodSandbox is called after a sandbox was created and before its first container.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	member := memberOf(pod)
	a := podmove.Announcement{
		Sandbox: cri.Sandbox{
			ID:        pod.GetId(),
			UID:       pod.GetUid(),
			Namespace: pod.GetNamespace(),
			Name:      pod.GetName(),
			Ready:     true,
			Origin:    member.Origin,
			Requested: admission.Annotated(pod.GetAnnotations(), member.Ask.Type),
		},
		QoS: v1.PodQOSClass(qosOf(pod)),
	}
	p.mu.Lock()
	a.Place = p.rules.Place(member)
	if p.announced != nil {
		p.announced[a.ID] = announcement{a, time.Now()}
	}
	p.mu.Unlock()
	p.announce(a)
	return nil
}

// announce announces a member, if the kubelet's slice tells its QoS class.
func (p *Plugin) announce(a podmove.Announcement) {
	if a.Place.Partition != partition.Default && a.QoS != "" {
		p.Announce(a)
	}
}

// RemovePodSandbox is called when the runtime removes a sandbox.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.mu.Lock()
	delete(p.announced, pod.GetId())
	p.mu.Unlock()
	p.Wake()
	return nil
}

// CreateContainer answers the runtime with the cgroup of a member's container in its partition.
func (p *Plugin) CreateContainer(
	_ context.Context,
	pod *api.PodSandbox,
	c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	begin := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.rules.Place(memberOf(pod))
	to := place.Partition
	if to == partition.Default {
		return nil, nil, nil
	}
	//guard: an answer after the sandbox announces it
	if a, ok := p.announced[pod.GetId()]; ok && a.Place != place {
		// The configuration has changed since.
		a.Place = place
		p.announced[pod.GetId()] = a
		p.announce(a.Announcement)
	}
	target, err := cgroupsPath(to, pod, c, p.runtime)
	if p.answered != nil {
		p.answered[c.GetId()] = podmove.Answer{Took: time.Since(begin), At: begin, To: to, Err: err}
	}
	if err != nil {
		// An error here would prevent the creation of the container. The next reconcile reports it.
		return nil, nil, nil
	}
	return adjustment(c, target), nil, nil
}

// adjustment returns the answer that gives a container a cgroup path. It is nil if the container
// has that path: the other of our plugins has answered before. A second answer with the same value
// would be a conflict, for which the runtime does not create the container (claimSimple,
// containerd/nri pkg/api/owners.go).
func adjustment(c *api.Container, target string) *api.ContainerAdjustment {
	if c.GetLinux().GetCgroupsPath() == target {
		return nil
	}
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCgroupsPath(target)
	return adjust
}

// UpdateContainer is called before a container gets other limits: the kubelet has changed the pod's
// limits, or is about to.
func (p *Plugin) UpdateContainer(
	context.Context,
	*api.PodSandbox,
	*api.Container,
	*api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	p.Wake()
	return nil, nil
}

// memberOf returns what decides about a pod's membership.
func memberOf(pod *api.PodSandbox) partition.Pod {
	return partition.Pod{
		//guard: a Guaranteed pod that asks is not placed at its creation
		Namespace: pod.GetNamespace(), Guaranteed: qosOf(pod) == partition.Guaranteed,
		Origin: partition.OriginOf(pod.GetAnnotations()),
	}
}

// qosOf returns the QoS class of a pod, empty if its cgroup is not a slice of the kubelet.
func qosOf(pod *api.PodSandbox) string {
	if _, qos, _, ok := partition.ParsePodSlice(path.Base(pod.GetLinux().GetCgroupParent())); ok {
		return qos
	}
	return ""
}

// errForeign means that a cgroup path is not one that the kubelet's systemd driver gives.
var errForeign = errors.New("is not a pod's slice of the kubelet's systemd cgroup driver")

// cgroupsPath returns the place of a container in the partition as SLICE:PREFIX:NAME, the form in
// which runtimes give a systemd cgroup to runc and crun (runc docs/systemd.md). If another plugin
// has placed the container there, that is its present path.
func cgroupsPath(target partition.Name, pod *api.PodSandbox, c *api.Container, runtime string) (string, error) {
	present := c.GetLinux().GetCgroupsPath()
	if isIn(target, present, pod) {
		return present, nil
	}
	slice, rest, systemd := strings.Cut(present, ":")
	if slice == "" {
		// The runtime has not set the path yet when it calls.
		slice, rest, systemd = pod.GetLinux().GetCgroupParent(), scopePrefix(runtime)+":"+c.GetId(), true
	}
	slice = path.Base(slice)
	name, qos, uid, ok := partition.ParsePodSlice(slice)
	//guard: a slice has the UID of the pod that is placed in it
	ours := uid == partition.EscapeUID(pod.GetUid())
	// A runtime that creates cgroups without systemd (SystemdCgroup = false) would create one with our
	// answer as its name.
	if !ok || !ours || !systemd || name != partition.Default {
		return "", fmt.Errorf(
			"pod %s/%s: container %s: cgroup %q %w",
			pod.GetNamespace(), pod.GetName(), c.GetName(), slice, errForeign,
		)
	}
	return partition.PodSlice(target, qos, pod.GetUid()) + ":" + rest, nil
}

// isIn reports whether a cgroup path of a container of pod is in a partition.
func isIn(target partition.Name, cgroupsPath string, pod *api.PodSandbox) bool {
	slice, _, systemd := strings.Cut(cgroupsPath, ":")
	name, _, uid, ok := partition.ParsePodSlice(path.Base(slice))
	return ok && systemd && name == target && uid == partition.EscapeUID(pod.GetUid())
}

// scopePrefix returns the prefix of a runtime's scopes: containerd's getCgroupsPath
// (internal/cri/server/helpers_linux.go), CRI-O's crioPrefix (internal/config/cgmgr).
func scopePrefix(runtime string) string {
	if runtime == "containerd" {
		return "cri-containerd"
	}
	return "crio"
}

// Announced implements podmove.Announced. It also forgets sandboxes that were announced more than
// announcedFor ago.
func (p *Plugin) Announced(listed func(id string) bool) []cri.Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []cri.Sandbox
	for id, a := range p.announced {
		if listed(id) || time.Since(a.at) > announcedFor {
			delete(p.announced, id)
			continue
		}
		list = append(list, a.Sandbox)
	}
	return list
}

// IsAnnounced reports whether a sandbox of a pod has begun that the runtime had not listed at the
// last reconcile. The UID may be escaped, as in the name of a slice whose pod is gone.
func (p *Plugin) IsAnnounced(uid string) bool {
	escaped := partition.EscapeUID(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.announced {
		if partition.EscapeUID(a.UID) == escaped {
			return true
		}
	}
	return false
}

// Answers returns the answers for the containers for which done returns true, and forgets them. It
// also forgets answers for containers that were not seen within announcedFor.
func (p *Plugin) Answers(done func(id string) bool) map[string]podmove.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[string]podmove.Answer{}
	for id, a := range p.answered {
		if done(id) {
			taken[id] = a
			delete(p.answered, id)
		} else if time.Since(a.At) > announcedFor {
			delete(p.answered, id)
		}
	}
	return taken
}
