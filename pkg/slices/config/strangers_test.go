package config

import (
	"fmt"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
)

const strangersHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// TestStrangers: a field beside the sections gets a warning, and one of a section its place.
func TestStrangers(t *testing.T) {
	t.Parallel()
	const own = "belongs in the kubelet's own configuration, ignoring it here"
	for field, want := range map[string]string{
		"maxPods":          "maxPods " + own,
		"cgroupDriver":     "cgroupDriver " + own,
		"evictionHard":     "evictionHard belongs in a section, indented below it, or in the kubelet's own configuration, ignoring it here",
		"memoryLimit":      `unknown field "memoryLimit", ignoring; is systemPartition.memoryLimit meant? Indent it below its section`,
		"memorylimits":     `unknown field "memorylimits", ignoring; known here are apiVersion, kind, systemPartition, workloadPartitions`,
		"advertise":        `unknown field "advertise", ignoring; is workloadPartitions.NAME.advertise meant? Indent it below its section`,
		"cgroupDrivr":      `unknown field "cgroupDrivr", ignoring; known here are apiVersion, kind, systemPartition, workloadPartitions`,
		"systemPartitions": `unknown field "systemPartitions", ignoring; known are systemPartition and workloadPartitions`,
		"other\x1b":        `unknown field "other\x1b", ignoring; known here are apiVersion, kind, systemPartition, workloadPartitions`,
	} {
		k, err := kubeletconfig.LoadDocument("node-partition.yaml", fmt.Appendf(nil, "%ssystemPartition: {namespaces: [a]}\n%q: 1\n", strangersHead, field))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Validate(k, Size{})
		if err != nil || len(c.Warnings) != 1 || c.Warnings[0] != "node-partition.yaml: "+want {
			t.Errorf("%q: %v, %q; want %s", field, err, c.Warnings, want)
		}
	}
}

// TestManyStrangers: a file with many fields of others gets a few warnings.
func TestManyStrangers(t *testing.T) {
	t.Parallel()
	var fields strings.Builder
	for i := range 50 {
		fmt.Fprintf(&fields, "other%02d: 1\n", i)
	}
	k, err := kubeletconfig.LoadDocument("node-partition.yaml", []byte(strangersHead+"systemPartition: {}\n"+fields.String()))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Validate(k, Size{})
	if err != nil || len(c.Warnings) != 11 || !strings.HasSuffix(c.Warnings[10], "40 more unknown fields, ignoring") {
		t.Errorf("%v, %q", err, c.Warnings)
	}
}
