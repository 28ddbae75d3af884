package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/installer/sandbox"
)

// TestChart: each container of the Jobs in the chart has options with which its stage begins.
func TestChart(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../deploy/chart/charttest/testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	variables := strings.NewReplacer("$(NODE_PARTITION_NODE)", "node-1", "$(NODE_PARTITION_ROLL)", "0a1b2c3d4e")
	for _, path := range paths {
		for _, c := range containersIn(t, path) {
			w, _, err := parse(strings.Split(variables.Replace(strings.Join(c.Args[1:], "\n")), "\n"))
			if err == nil {
				err = w.Check(sandbox.Stage(c.Args[0]))
			}
			if err != nil || c.Args[0] != c.Name {
				t.Errorf("%s: container %s, %q: %v", path, c.Name, c.Args, err)
			}
		}
	}
}

// containersIn returns the containers of the Jobs of a node that a file of manifests has.
func containersIn(t *testing.T, path string) []v1.Container {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []v1.Container
	jobs := 0
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var m v1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &m); err != nil || m.Kind != "ConfigMap" {
			continue
		}
		for _, name := range []string{"job.yaml", "uninstall.yaml"} {
			if m.Data[name] == "" {
				continue
			}
			var job batchv1.Job
			if err := yaml.UnmarshalStrict([]byte(m.Data[name]), &job); err != nil {
				t.Fatalf("%s: %s: %v", path, name, err)
			}
			pod := job.Spec.Template.Spec
			all = append(append(all, pod.InitContainers...), pod.Containers...)
			jobs++
		}
	}
	if jobs != 2 {
		t.Fatalf("%s has %d Jobs of a node, want 2", path, jobs)
	}
	return all
}
