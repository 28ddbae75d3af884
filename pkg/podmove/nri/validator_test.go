package nri

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// TestValidate: a validator refuses what requires it and would start outside, and nothing else.
func TestValidate(t *testing.T) {
	t.Parallel()
	const requires = "required-plugins.noderesource.dev"
	const placed, foreign = placedSlice + ":cri-containerd:one", "kubepods-system-podffffffff.slice:cri-containerd:one"
	for name, test := range map[string]struct {
		namespace   string
		annotations map[string]string
		set         string
		refused     bool
	}{
		"placed":                          {"kube-system", map[string]string{requires: `["node-partition"]`}, placed, false},
		"not placed":                      {"kube-system", map[string]string{requires: `["node-partition"]`}, "", true},
		"in another pod's slice":          {"kube-system", map[string]string{requires: `["node-partition"]`}, foreign, true},
		"not placed, does not require us": {"kube-system", map[string]string{requires: `["other"]`}, "", false},
		"not placed, no annotation":       {"kube-system", nil, "", false},
		"another container requires us":   {"kube-system", map[string]string{requires + "/container.other": `["node-partition"]`}, "", false},
		"requires one of a similar name":  {"kube-system", map[string]string{requires: `["node-partition-metrics"]`}, "", false},
		"not a member":                    {"default", map[string]string{requires: `["node-partition"]`}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			question := request()
			question.Pod.Namespace, question.Pod.Annotations = test.namespace, test.annotations
			adjust := &api.ContainerAdjustment{}
			if test.set != "" {
				adjust.SetLinuxCgroupsPath(test.set)
			}
			p, told := newPlugin(), 0
			p.Refused = func(f podmove.Placement) {
				if told++; f.Method != podmove.Creation || f.To != partition.System || f.Err == nil || f.Took <= 0 || f.Container.ID != question.Container.Id {
					t.Errorf("%+v is not about the container", f)
				}
			}
			err := validator{&connection{Plugin: p}}.ValidateContainerAdjustment(t.Context(), &api.ValidateContainerAdjustmentRequest{
				Pod: question.Pod, Container: question.Container, Adjust: adjust,
			})
			if (err != nil) != test.refused || (told == 1) != test.refused {
				t.Errorf("%v, told %d times; want it refused: %t", err, told, test.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "pod kube-system/a: container main") {
				t.Errorf("%v: does not name the container", err)
			}
		})
	}
}

// TestValidateHangs: the runtime does not create the container about which it asks a validator that
// hangs. Without validation it starts the container outside. It creates the next one without us.
func TestValidateHangs(t *testing.T) {
	adaptation.SetPluginRequestTimeout(100 * time.Millisecond)
	t.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
	for _, validate := range []bool{false, true} {
		socket := filepath.Join(t.TempDir(), "nri.sock")
		p := newPlugin()
		if validate {
			p.Refused = func(podmove.Placement) {}
		}
		up := connect(t, socket, p)
		runtime := startRuntime(t, socket, t.TempDir())
		<-up
		if got := create(t, runtime, request()); got != placedSlice {
			t.Errorf("validates: %t: placed at %q, want %s", validate, got, placedSlice)
		}
		p.mu.Lock() // it hangs
		answer, err := runtime.CreateContainer(t.Context(), request())
		if (err != nil) != validate || sliceOf(answer) != "" {
			t.Errorf("validates: %t, and hangs: %v, %v", validate, answer, err)
		}
		if answer, err := runtime.CreateContainer(t.Context(), request()); err != nil || sliceOf(answer) != "" {
			t.Errorf("validates: %t, and is gone: %v, %v", validate, answer, err)
		}
		p.mu.Unlock()
		runtime.Stop()
	}
}
