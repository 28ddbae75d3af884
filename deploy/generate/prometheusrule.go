package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// ruleFile is a file of rules of Prometheus.
type ruleFile struct {
	Groups []ruleGroup `json:"groups"`
}

type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// readRules reads the groups of all rules below dir.
func readRules(dir string) ([]ruleGroup, error) {
	var groups []ruleGroup
	for _, name := range []string{alertsFile, recordingFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		var file ruleFile
		if err := yaml.UnmarshalStrict(addressed(data), &file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, group := range file.Groups {
			// The operator's type has the groups in a map by name (its CustomResourceDefinition of 0.85.0).
			if slices.ContainsFunc(groups, func(g ruleGroup) bool { return g.Name == group.Name }) {
				return nil, fmt.Errorf("%s: the group %s is there twice; a PrometheusRule needs one name for each", name, group.Name)
			}
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// prometheusRule returns the rules as a resource of the Prometheus operator.
func prometheusRule(dir string) ([]byte, error) {
	groups, err := readRules(dir)
	if err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata":   map[string]any{"name": "node-partition"},
		"spec":       ruleFile{groups},
	})
	const head = "# Generated from alerts.yaml and recording.yaml by make generate.\n"
	return append([]byte(head), data...), err
}
