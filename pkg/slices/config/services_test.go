package config

import (
	"strings"
	"testing"

	"nodepartition/internal/kubeletconfig"
)

func TestNewServices(t *testing.T) {
	for _, test := range []struct {
		settings kubeletconfig.ServiceSettings
		wrong    string // a part of the error
	}{
		{kubeletconfig.ServiceSettings{Slice: "kubernetes.slice"}, ""},
		{kubeletconfig.ServiceSettings{Slice: "kube-services.slice"}, ""},
		{kubeletconfig.ServiceSettings{Slice: "kubernetes"}, "is not the name of a slice"},
		{kubeletconfig.ServiceSettings{Slice: "/kubernetes.slice"}, "is not the name of a slice"},
		{kubeletconfig.ServiceSettings{Slice: "a.slice/a-b.slice"}, "is not the name of a slice"},
		{kubeletconfig.ServiceSettings{Slice: "kubelet.service"}, "is not the name of a slice"},
		{kubeletconfig.ServiceSettings{Slice: "a b.slice"}, "letters, digits"},
		{kubeletconfig.ServiceSettings{Slice: "-.slice"}, "is the root of all cgroups"},
		{kubeletconfig.ServiceSettings{Slice: "kubepods.slice"}, "for pods"},
		{kubeletconfig.ServiceSettings{Slice: "kubepods-system.slice"}, "for pods"},
		{kubeletconfig.ServiceSettings{Slice: "system.slice"}, "for other services"},
		{kubeletconfig.ServiceSettings{Slice: "user-1.slice"}, "for other services or for users"},
		{kubeletconfig.ServiceSettings{CPUs: "partition"}, ""},
		{kubeletconfig.ServiceSettings{CPUs: "0-1"}, "want partition"},
		{kubeletconfig.ServiceSettings{OOMScoreAdjust: "-1000"}, ""},
		{kubeletconfig.ServiceSettings{OOMScoreAdjust: "0"}, ""},
		{kubeletconfig.ServiceSettings{OOMScoreAdjust: "-1001"}, "from -1000 to 0"},
		{kubeletconfig.ServiceSettings{OOMScoreAdjust: "1"}, "from -1000 to 0"},
		{kubeletconfig.ServiceSettings{OOMScoreAdjust: "low"}, "from -1000 to 0"},
		{kubeletconfig.ServiceSettings{Delegate: "yes"}, ""},
		{kubeletconfig.ServiceSettings{Delegate: "no"}, ""},
		{kubeletconfig.ServiceSettings{Delegate: "on"}, "neither yes nor no"},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", MemoryMin: "1Gi", MemoryLow: "2Gi", CPUWeight: "10000"}, ""},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", CPUWeight: "1"}, ""},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", CPUWeight: "10001"}, "from 1 to 10000"},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", CPUWeight: "0"}, "from 1 to 10000"},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", MemoryMin: "-1"}, "must not be negative"},
		{kubeletconfig.ServiceSettings{Slice: "a.slice", MemoryLow: "2 GB"}, "is not a quantity"},
		{kubeletconfig.ServiceSettings{MemoryMin: "1Gi"}, "want SERVICES_SLICE too"},
		{kubeletconfig.ServiceSettings{MemoryLow: "1Gi"}, "want SERVICES_SLICE too"},
		{kubeletconfig.ServiceSettings{CPUWeight: "1"}, "want SERVICES_SLICE too"},
		{kubeletconfig.ServiceSettings{Slice: "system-kube.slice"}, ""},
		{kubeletconfig.ServiceSettings{Slice: "system-kube.slice", CPUWeight: "1"}, "want a slice beside it"},
		{kubeletconfig.ServiceSettings{Slice: "system-kube.slice", MemoryMin: "1Gi"}, "want a slice beside it"},
		{kubeletconfig.ServiceSettings{Slice: "system-kube.slice", MemoryLow: "1Gi"}, "want a slice beside it"},
		{kubeletconfig.ServiceSettings{Slice: "systems-kube.slice", MemoryLow: "1Gi"}, ""},
	} {
		got, err := newServices(test.settings)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %v, want %q", test.settings, err, test.wrong)
		}
		if err == nil && got.Slice != test.settings.Slice {
			t.Errorf("%+v: the slice is %q", test.settings, got.Slice)
		}
		if changes := err == nil && test.settings.CPUs == "" && test.settings.Delegate != "no"; err == nil && got.IsZero() == changes {
			t.Errorf("%+v: %+v changes nothing: %t", test.settings, got, got.IsZero())
		}
	}
	_, err := newServices(kubeletconfig.ServiceSettings{Slice: "a", CPUs: "a", OOMScoreAdjust: "a", Delegate: "a"})
	if got := len(Problems(err)); got != 4 {
		t.Errorf("%d problems, want all 4: %v", got, err)
	}
}

// TestPlaceServicesWeight: the kubelet's weight wins in the slice of the services, and in one above
// it.
func TestPlaceServicesWeight(t *testing.T) {
	t.Parallel()
	for reserved, want := range map[string]bool{"kube.slice": true, "kube-services.slice": true, "kube-other.slice": false, "ku.slice": false} {
		c := Config{
			Kubelet:  &kubeletconfig.Merged{},
			Services: Services{Slice: "kube-services.slice", CPUWeight: 500},
			Reserved: Reserved{Slices: []ReservedSlice{{Name: reserved, For: "system-reserved", File: "/config"}}},
		}
		c.placeServices()
		if got := len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "SERVICES_CPU_WEIGHT: the kubelet gives "+reserved); got != want {
			t.Errorf("%s: %q, want a warning: %t", reserved, c.Warnings, want)
		}
	}
}
