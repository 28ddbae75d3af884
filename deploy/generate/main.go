// Command generate writes the rules for the Prometheus operator, and the scrape configurations for
// many nodes, into the folder that its argument names:
//
//	go run . ..
//
// The dashboard and the rules of Prometheus are written by hand, but for the address of the
// runbooks. The descriptions of the packages and of the chart get the project's address.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// write writes the generated files into a folder like deploy, which has the rules.
func write(dir string) error {
	files, err := generated(dir)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated returns the content of the generated files by their names below dir.
func generated(dir string) (map[string][]byte, error) {
	resource, err := prometheusRule(dir)
	if err != nil {
		return nil, err
	}
	list, err := keptSeries(dir)
	if err != nil {
		return nil, err
	}
	files, err := fleetScrapes(dir, list)
	if err != nil {
		return nil, err
	}
	others, err := addressedFiles(dir)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, others)
	files[resourceFile] = resource
	return files, nil
}

// The files, below the folder deploy.
const (
	dashboardFile = "grafana/node-partition.json"
	alertsFile    = "prometheus/alerts.yaml"
	recordingFile = "prometheus/recording.yaml"
	resourceFile  = "prometheus/prometheusrule.yaml"
	packagesFile  = "package/nfpm.yaml"
	chartFile     = "../rollout/chart/Chart.yaml"
)
