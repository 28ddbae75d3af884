package kubeletargs

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		want Limits
	}{
		{"--v=2", Limits{}},
		{"--pod-max-pids=100 --oom-score-adj -998 --cpu-cfs-quota-period=10ms", Limits{PodPidsLimit: 100, OOMScoreAdj: -998, CPUCFSQuotaPeriod: "10ms"}},
		{"--cpu-cfs-quota=true --system_cgroups /system.slice", Limits{CPUCFSQuota: true, SystemCgroups: "/system.slice"}},
		{"--cgroups-per-qos --cgroup-root /pods", Limits{CgroupsPerQOS: true, CgroupRoot: "/pods"}},
		{"--cpu-cfs-quota=false --pod-max-pids=many --oom-score-adj=low", Limits{}},
		{
			"--cpu-manager-policy-options=strict-cpu-reservation=true,full-pcpus-only=true --qos-reserved memory=50%",
			Limits{
				CPUManagerPolicyOptions: map[string]string{"strict-cpu-reservation": "true", "full-pcpus-only": "true"},
				QOSReserved:             map[string]string{"memory": "50%"},
			},
		},
	} {
		if got := parse(strings.Fields(test.args)); !reflect.DeepEqual(got.Limits, test.want) {
			t.Errorf("%q: %+v; want %+v", test.args, got.Limits, test.want)
		}
	}
	off := parse([]string{"--cpu-cfs-quota=false"})
	if unset := parse(nil); !off.Given("cpu-cfs-quota") || unset.Given("cpu-cfs-quota") {
		t.Error("a switch that is off counts as given, and one that is missing does not")
	}
}

// TestOtherTree: the root itself, in each spelling, and flags that are not given are no other tree.
func TestOtherTree(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                   "",
		"--cgroup-root=":                     "",
		"--cgroup-root=/":                    "",
		"--cgroups-per-qos":                  "",
		"--cgroups-per-qos=true":             "",
		"--cgroup-root=/k8s":                 "--cgroup-root=/k8s",
		"--cgroup_root k8s":                  "--cgroup-root=k8s",
		"--cgroup-root=/k8s --cgroup-root=/": "",
		"--cgroups-per-qos=false":            "--cgroups-per-qos=false",
	} {
		if flags := parse(strings.Fields(line)); flags.OtherTree() != want {
			t.Errorf("%q: %q; want %q", line, flags.OtherTree(), want)
		}
	}
}
