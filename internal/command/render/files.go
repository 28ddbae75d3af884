package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/partition"
)

// The files of OpenShift's workload partitioning, by the enhancement.
const (
	pinningPath = "/etc/kubernetes/openshift-workload-pinning"
	crioPath    = "/etc/crio/crio.conf.d/01-workload-partitioning"
)

// Pinning returns the file that switches workload partitioning on in OpenShift's kubelet, which
// does not read its content. This project reads it, as a configuration.
func Pinning(all []Workload) (string, error) {
	type pool struct {
		CPUs string `json:"cpuset"`
	}
	pools := map[string]pool{}
	for _, w := range all {
		pools[w.Type] = pool{w.CPUs}
	}
	text, err := json.Marshal(pools)
	return string(text) + "\n", err
}

// CRIO returns CRI-O's table of workloads, as CRI-O parses it: cpushares is a number
// (pkg/config/workloads.go, CRI-O 1.34), where the enhancement has a string.
func CRIO(all []Workload) (string, error) {
	var b strings.Builder
	b.WriteString("# partition-monitor does not need this file. Without an admission policy any pod can use it.\n")
	for _, w := range all {
		fmt.Fprintf(&b, `[crio.runtime.workloads.%s]
activation_annotation = "%s"
annotation_prefix = "resources.workload.openshift.io"
resources = { "cpushares" = 0, "cpuset" = "%s" }
`, w.Type, partition.TargetPrefix+w.Type, w.CPUs)
	}
	return b.String(), nil
}

// file is a file of a machine.
type file struct {
	path, text string
}

func files(all []Workload) ([]file, error) {
	crio, err := CRIO(all)
	if err != nil {
		return nil, err
	}
	pinning, err := Pinning(all)
	return []file{{crioPath, crio}, {pinningPath, pinning}}, err
}

// MachineConfig returns both files as a manifest for OpenShift's Machine Config Operator, with
// Ignition 3.2, as the enhancement has it. role is the pool of machines.
func MachineConfig(all []Workload, role string) (string, error) {
	list, err := files(all)
	if err != nil {
		return "", err
	}
	var ofMachine []any
	for _, f := range list {
		ofMachine = append(ofMachine, map[string]any{
			"contents": map[string]any{
				"source": "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(f.text)),
			},
			"mode": 0o644, "overwrite": true, "path": f.path, "user": map[string]any{"name": "root"},
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1",
		"kind":       "MachineConfig",
		"metadata": map[string]any{
			"labels": map[string]any{"machineconfiguration.openshift.io/role": role},
			"name":   "02-" + role + "-workload-partitioning",
		},
		"spec": map[string]any{"config": map[string]any{
			"ignition": map[string]any{"version": "3.2.0"}, "storage": map[string]any{"files": ofMachine},
		}},
	})
	return string(text), err
}

// Butane returns both files for Butane, which turns them into Ignition 3.2 for Fedora CoreOS. Only
// root reads them.
func Butane(all []Workload) (string, error) {
	list, err := files(all)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.3.0\nstorage:\n  files:\n")
	for _, f := range list {
		fmt.Fprintf(&b, "    - path: %s\n      overwrite: true\n      mode: 0600\n      contents:\n        inline: |\n", f.path)
		for line := range strings.Lines(f.text) {
			b.WriteString("          " + line)
		}
	}
	return b.String(), nil
}
