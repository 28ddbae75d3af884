package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
)

// planned validates a section, given as JSON, on a node of 4 GiB and four CPUs, of which the last
// is offline.
func planned(t *testing.T, section string, kubelet kubeletconfig.Kubelet) (*Partition, []string, error) {
	t.Helper()
	config := &kubeletconfig.Merged{Kubelet: kubelet, System: kubeletconfig.Section{JSON: json.RawMessage(section), File: "/c"}}
	all, err := decodeSections(config)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		controllers: []string{"cpuset", "memory"}, present: cpuset.New(0, 1, 2, 3),
		Size: Size{MemoryBytes: 4 << 30, CPUs: cpuset.New(0, 1, 2)},
	}
	warnings, err := newRequirements(config, n)
	list, more, sectionErr := newPartitions(config, all, all.names(), n)
	return &list[0], append(warnings, more...), errors.Join(err, sectionErr)
}

// TestNewPartition: every field is read, in the unit that it has in Partition.
func TestNewPartition(t *testing.T) {
	got, warnings, err := planned(t, `{"memoryLimit": "1Gi", "memoryHigh": "90%", "cpuset": "0-1", "namespaces": ["a", "b"],
		"evictionHard": {"memory.available": "64Mi"}, "evictionSoft": {"memory.available": "20%"},
		"evictionSoftGracePeriod": {"memory.available": "1m30s"}, "evictionMaxPodGracePeriod": 30,
		"evictionMinimumReclaim": {"memory.available": "16Mi"}}`, kubeletconfig.Kubelet{})
	want := &Partition{
		Name: partition.First, MemoryHigh: 966367616, CPUs: cpuset.New(0, 1), NodeCPUs: cpuset.New(0, 1, 2, 3), Namespaces: []string{"a", "b"},
		Thresholds: thresholds.Thresholds{
			Limit: 1 << 30, Hard: 64 << 20, Soft: 214748368, SoftGrace: 90 * time.Second, MaxPodGrace: 30 * time.Second, MinimumReclaim: 16 << 20,
		},
		amounts: got.amounts,
	}
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %q, %v; want %+v", got, warnings, err, want)
	}
}

// TestNewPartitionEdges tries each rule at its edge: the last value that is allowed, or that gets
// no warning, and the first that is not or does.
func TestNewPartitionEdges(t *testing.T) {
	with := func(fields string) string { return `{"memoryLimit": "1Gi", "namespaces": ["a"]` + fields + `}` }
	limit := func(bytes int) string { return fmt.Sprintf(`{"memoryLimit": %d, "namespaces": ["a"]}`, bytes) }
	unit := func(text string) string { return fmt.Sprintf(`{"memoryLimit": %q, "namespaces": ["a"]}`, text) }
	namespaces := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"n%d"`, i)
		}
		return `{"memoryLimit": "1Gi", "namespaces": [` + strings.Join(list, ",") + `]}`
	}
	unknown := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, "x%02d": 1`, i)
		}
		return with(b.String())
	}
	signal := func(field, value string) string { return fmt.Sprintf(`, %q: {"memory.available": %q}`, field, value) }
	bytes := strconv.Itoa
	soft := func(value string) string {
		return signal("evictionSoft", value) + signal("evictionSoftGracePeriod", "1m")
	}
	const mi, gi = 1 << 20, 1 << 30
	none := kubeletconfig.Kubelet{}
	yes := true
	for name, test := range map[string]struct {
		section       string
		kubelet       kubeletconfig.Kubelet
		problem, warn string // a fragment of the one problem, or of the one warning
	}{
		"a limit just below the node's memory": {limit(4*gi - 1), none, "", ""},
		"a limit equal to the node's memory":   {limit(4 * gi), none, "is not below the node's memory", ""},
		"a limit that is not small":            {limit(64 * mi), none, "", ""},
		"a small limit":                        {unit("65535Ki"), none, "", `"65535Ki" is less than 64 MiB, system pods will hardly start`},
		"the least limit":                      {unit("1Mi"), none, "", "is less than 64 MiB"},
		"less than that":                       {unit("1023Ki"), none, "is 1047552 bytes; want a unit, and 1 MiB or more; is 1023Mi meant?", ""},
		"a fraction of a unit":                 {unit("0.5Ki"), none, "is 0.5Gi meant?", ""},
		"bytes of another program":             {unit("4GB"), none, `"4GB": is not a quantity; is 4Gi meant?`, ""},
		"binary ones":                          {unit("4GiB"), none, `"4GiB": is not a quantity; is 4Gi meant?`, ""},
		"no bytes":                             {unit("4xB"), none, `"4xB": is not a quantity; want a quantity such as`, ""},
		"a small limit without a unit":         {limit(64*mi - 1), none, "is 67108863 bytes; want a unit, and 1 MiB or more; is 67108863Ki meant?", ""},
		"more mebibytes without a unit":        {limit(65535), none, "is 65535Mi meant?", ""},
		"kibibytes without a unit":             {limit(65536), none, "is 65536Ki meant?", ""},
		"the maximum of namespaces":            {namespaces(1000), none, "", ""},
		"too many namespaces":                  {namespaces(1001), none, "has 1001 entries", ""},

		"memoryHigh just below the limit":  {with(`, "memoryHigh": 1073741823`), none, "", ""},
		"memoryHigh of zero":               {with(`, "memoryHigh": "0.00000001%"`), none, "is not above zero and below memoryLimit", ""},
		"memoryHigh where eviction begins": {with(signal("evictionHard", "64Mi") + `, "memoryHigh": "960Mi"`), none, "", ""},
		"memoryHigh before eviction begins": {
			with(signal("evictionHard", "64Mi") + `, "memoryHigh": 1006632959`), none, "", "slows the partition down before a pod is evicted",
		},
		"memoryHigh before soft eviction begins": {
			with(soft("128Mi") + `, "memoryHigh": "895Mi"`), none, "", "slows the partition down before a pod is evicted",
		},
		"memoryHigh without eviction": {with(signal("evictionHard", "0%") + `, "memoryHigh": "1Mi"`), none, "", ""},

		"a threshold just below the limit": {with(signal("evictionHard", bytes(gi-1))), none, "", ""},
		"soft just above hard":             {with(signal("evictionHard", "64Mi") + soft(bytes(64*mi+1))), none, "", ""},
		"soft equal to hard":               {with(signal("evictionHard", "64Mi") + soft("64Mi")), none, "", "is not above evictionHard"},
		"soft without hard":                {with(signal("evictionHard", "0%") + soft("1Mi")), none, "", ""},
		"soft that is off needs no period": {with(signal("evictionSoft", "100%")), none, "", ""},
		"an invalid soft threshold needs no period": {
			with(signal("evictionSoft", "x")), none, "evictionSoft[memory.available]: \"x\": is not a quantity", "",
		},
		"reclaim up to what eviction leaves": {
			with(signal("evictionHard", "64Mi") + signal("evictionMinimumReclaim", bytes(960*mi-1))), none, "", "",
		},
		"reclaim of all that eviction leaves": {
			with(signal("evictionHard", "64Mi") + signal("evictionMinimumReclaim", bytes(960*mi))), none, "eviction would not end", "",
		},
		"a grace period of zero": {with(soft("128Mi") + `, "evictionMaxPodGracePeriod": 0`), none, "", ""},
		"a null signal":          {with(`, "evictionHard": {"memory.available": null}`), none, "", ""},

		"thresholds of an invalid limit": {
			`{"memoryLimit": "x", "namespaces": ["a"], "memoryHigh": "1Mi"` + signal("evictionHard", "1Mi") + soft("2Mi") +
				signal("evictionMinimumReclaim", "1Mi") + `}`, none, "memoryLimit: \"x\": is not a quantity", "",
		},

		"one unknown field": {unknown(1), none, "", "unknown field \"x00\""},

		"the CPUs that are reserved":     {with(`, "cpuset": "0-1"`), kubeletconfig.Kubelet{ReservedSystemCPUs: "0-1", CPUManagerPolicy: "static"}, "", ""},
		"no CPUs":                        {with(`, "cpuset": ""`), none, "", ""},
		"no CPUs with the static policy": {with(`, "cpuset": ""`), kubeletconfig.Kubelet{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"}, "", "is missing: with cpuManagerPolicy static"},
		"no CPUs and none reserved":      {with(""), kubeletconfig.Kubelet{CPUManagerPolicy: "static"}, "", "is missing: with cpuManagerPolicy static"},
		"another driver":                 {with(""), kubeletconfig.Kubelet{CgroupDriver: "cgroupfs"}, "", "with another driver no pod comes into it"},
		"a field with other capitals":    {with(`, "cpuSet": "0"`), none, "", `unknown field "cpuSet", ignoring; known are `},
		"driver systemd":                 {with(""), kubeletconfig.Kubelet{CgroupDriver: "systemd"}, "", ""},
		"cgroupRoot of /":                {with(""), kubeletconfig.Kubelet{CgroupRoot: "/"}, "", ""},
		"cgroupsPerQOS on":               {with(""), kubeletconfig.Kubelet{CgroupsPerQOS: &yes}, "", ""},
	} {
		_, warnings, err := planned(t, test.section, test.kubelet)
		problems := 0
		if err != nil {
			problems = len(strings.Split(err.Error(), "\n"))
		}
		if !matches(err, test.problem) || problems > 1 {
			t.Errorf("%s: %v, want %q and no more", name, err, test.problem)
		}
		if joined := strings.Join(warnings, "\n"); !strings.Contains(joined, test.warn) || (test.warn == "") != (joined == "") || len(warnings) > 1 {
			t.Errorf("%s: it warns %q, want %q and no more", name, warnings, test.warn)
		}
	}
	for n, want := range map[int]int{10: 10, 11: 11, 12: 11} {
		_, warnings, err := planned(t, unknown(n), none)
		if err != nil || len(warnings) != want {
			t.Errorf("%d unknown fields: %d warnings, %v; want %d", n, len(warnings), err, want)
		}
		if more := fmt.Sprintf("%d more unknown fields", n-10); n > 10 && !strings.Contains(warnings[10], more) {
			t.Errorf("%d unknown fields: %q, want %q", n, warnings[10], more)
		}
	}
}

// TestAtWithoutLimit: recommend asks for the threshold of a section that only measures. It is never
// less than what the kernel's counts may be off by. An invalid threshold refuses no such section.
func TestAtWithoutLimit(t *testing.T) {
	const section = `{"namespaces": ["a"], "evictionHard": {"memory.available": "300Mi"}, "evictionSoft": {"memory.available": "much"}}`
	if p, _, err := planned(t, section, kubeletconfig.Kubelet{}); err != nil || p.At(1<<30).Hard != 300<<20 || p.Hard != 0 {
		t.Errorf("%+v, %v; want 300Mi of a limit", p, err)
	}
	p, _, err := planned(t, `{"namespaces": ["a"]}`, kubeletconfig.Kubelet{})
	if want := 3 * 2 * 64 * uint64(os.Getpagesize()); err != nil || p.amounts.least != want {
		t.Errorf("%d with three CPUs, %v; want %d", p.amounts.least, err, want)
	}
}

// TestNewPartitionMaxPodGracePeriod: a missing field means the pod's own grace period, and not none
// at all.
func TestNewPartitionMaxPodGracePeriod(t *testing.T) {
	const section = `{"memoryLimit": "1Gi", "namespaces": ["a"], "evictionSoft": {"memory.available": "20%"},
		"evictionSoftGracePeriod": {"memory.available": "1m"}`
	for fields, want := range map[string]string{
		"": "-1ns", `, "evictionMaxPodGracePeriod": null`: "-1ns", `, "evictionMaxPodGracePeriod": 0`: "0s", `, "evictionMaxPodGracePeriod": 7`: "7s",
	} {
		p, _, err := planned(t, section+fields+"}", kubeletconfig.Kubelet{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MaxPodGrace.String(); got != want {
			t.Errorf("%q: %s, want %s", fields, got, want)
		}
	}
}
