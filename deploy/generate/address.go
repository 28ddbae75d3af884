package main

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

var (
	// runbookURL matches the address in an annotation, up to the section.
	runbookURL = regexp.MustCompile(`(runbook_url: "?)\S*/runbooks\.md#`)
	// docsVariable matches the address in the dashboard, which its variable docs has.
	docsVariable = regexp.MustCompile(`("(?:query|text|value)": )"https?://[^"]*"`)
	// home matches the address in the description of the packages and of the chart.
	home = regexp.MustCompile(`(?m)^(home|homepage): .*$`)
)

// address is the project's. make generate writes it into packages, the chart, alerts and the
// dashboard. Nothing is published yet: RFC 2606 reserves this name, so that nobody can register it.
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
