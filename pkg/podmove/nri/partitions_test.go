package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestPartitions: both plugins place each member in its partition, and leave the others alone.
func TestPartitions(t *testing.T) {
	t.Parallel()
	const burstable = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	policy := podmove.Policy{Partitions: []decision.Partition{
		{Name: partition.System, Namespaces: []string{"kube-system"}},
		{Name: "app-team", Namespaces: []string{"shop", "cart"}},
		{Name: "batch", Namespaces: []string{"jobs"}, Off: true},
	}}
	var announced []string
	p := &Plugin{
		Wake: func() {}, Announce: func(s podmove.Announcement) { announced = append(announced, s.Namespace) }, Connection: func(bool) {},
	}
	p.SetRules(policy.Rules())
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	first := &Prelaunched{
		Config: func() (podmove.Policy, error) { return policy, nil }, Placed: func() {},
		NotPlaced: func(err error) { t.Error(err) },
	}
	for _, test := range []struct {
		namespace string
		to        partition.Name
		want      string
	}{
		{"kube-system", partition.System, placedSlice},
		{"shop", "app-team", "kubepods-app_team-burstable-pod11111111_2222_3333_4444_555555555555.slice"},
		{"cart", "app-team", "kubepods-app_team-burstable-pod11111111_2222_3333_4444_555555555555.slice"},
		{"jobs", partition.Default, ""},
		{"default", partition.Default, ""},
	} {
		labels := map[string]string{"io.kubernetes.pod.namespace": "kube-system"} // the author of a pod can write these
		pod := &api.PodSandbox{Id: "of " + test.namespace, Uid: uidA, Namespace: test.namespace, Labels: labels, Annotations: labels, Linux: &api.LinuxPodSandbox{CgroupParent: burstable}}
		c := &api.Container{Id: test.namespace, Linux: &api.LinuxContainer{CgroupsPath: burstable + ":cri-containerd:one"}}
		want := ""
		if test.want != "" {
			want = test.want + ":cri-containerd:one"
		}
		for name, create := range map[string]func() (*api.ContainerAdjustment, []*api.ContainerUpdate, error){
			"plugin": func() (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return p.CreateContainer(t.Context(), pod, c)
			},
			"pre-launched": func() (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
				return first.CreateContainer(t.Context(), pod, c)
			},
		} {
			adjust, _, err := create()
			if got := adjust.GetLinux().GetCgroupsPath(); got != want || err != nil {
				t.Errorf("%s of %s: %q, %v; want %q", name, test.namespace, got, err, want)
			}
		}
		if err := p.RunPodSandbox(t.Context(), pod); err != nil {
			t.Error(err)
		}
		answers := p.Answers(func(string) bool { return true })
		if answer, ok := answers[test.namespace]; ok != (test.want != "") || ok && answer.To != test.to {
			t.Errorf("%s: answered %+v, want an answer for %s", test.namespace, answers, test.to)
		}
	}
	if len(announced) != 3 {
		t.Errorf("announced %q, want the members", announced)
	}
}
