package nri

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/plugin"
	"github.com/containerd/nri/pkg/stub"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// validator is a Plugin that the runtime asks once more, when all plugins have answered about a
// container. If it has ended or does not answer, the runtime does not create the container. Without
// it a plugin that has ended or does not answer counts as having answered (containerd/nri#316).
type validator struct{ *connection }

// failing is for runtimes that ask no validator that has failed (containerd/nri 0.12.5). Earlier
// ones ignore it.
var failing = stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true})

// ValidateContainerAdjustment refuses a member that requires us, and whose container would start
// outside of its partition.
func (v validator) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	begin, pod, c := time.Now(), req.GetPod(), req.GetContainer()
	v.mu.Lock()
	to := v.rules.Place(memberOf(pod)).Partition
	v.mu.Unlock()
	if to == partition.Default || !requiresUs(pod, c) {
		return nil
	}
	place := req.GetAdjust().GetLinux().GetCgroupsPath()
	if place == "" {
		place = c.GetLinux().GetCgroupsPath()
	}
	if isIn(to, place, pod) {
		return nil
	}
	err := fmt.Errorf(
		"pod %s/%s: container %s would start in %q, outside of the partition %s, and requires %s",
		pod.GetNamespace(), pod.GetName(), c.GetName(), place, to, pluginName,
	)
	v.Refused(podmove.Placement{
		Method: podmove.Creation, To: to, Took: time.Since(begin), Err: err, Container: podmove.Container{ID: c.GetId()},
	})
	return err
}

// requiresUs reports whether a container has us in its list of required plugins. What is no list
// requires nobody: the runtime's default validator refuses it.
func requiresUs(pod *api.PodSandbox, c *api.Container) bool {
	text, _ := plugin.GetEffectiveAnnotation(pod, plugin.RequiredPluginsAnnotation, c.GetName())
	var required []string
	err := yaml.Unmarshal([]byte(text), &required)
	return err == nil && slices.Contains(required, pluginName)
}
