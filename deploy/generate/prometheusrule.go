package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var (
	// runbookURL matches the address in an annotation, up to the section.
	runbookURL = regexp.MustCompile(`(runbook_url: "?)\S*/runbooks\.md#`)
	// docsVariable matches the address in the dashboard, which its variable docs has.
	docsVariable = regexp.MustCompile(`("(?:query|text|value)": )"https?://[^"]*"`)
	// home matches the address in the description of the packages and of the chart.
	home = regexp.MustCompile(`(?m)^(home|homepage): .*$`)
)

// address is the project's: packages, the chart, alerts and the dashboard have it by make generate.
// Nothing is published yet, and the name is one that nobody can have (RFC 2606).
const address = "https://node-partition.example"

// docsURL returns the address at which the folder docs is served: alerts lead there, and the links
// of the dashboard until somebody sets its variable docs. make generate DOCS_URL= replaces it.
func docsURL() string {
	return cmp.Or(os.Getenv("DOCS_URL"), address+"/docs")
}

// addressed returns the dashboard, rules, a test of them or a description with the addresses of the
// project.
func addressed(data []byte) []byte {
	data = docsVariable.ReplaceAll(data, []byte(`${1}"`+docsURL()+`"`))
	data = runbookURL.ReplaceAll(data, []byte("${1}"+docsURL()+"/runbooks.md#"))
	return home.ReplaceAll(data, []byte("${1}: "+address))
}

// addressedFiles returns the dashboard and the alerts below dir, their tests, and the descriptions
// of the packages and of the chart, with the addresses of the project.
func addressedFiles(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	names, err := fs.Glob(os.DirFS(dir), "prometheus/tests/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, dashboardFile, alertsFile, packagesFile, chartFile) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files[name] = addressed(data)
	}
	return files, nil
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
