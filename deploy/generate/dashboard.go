package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// dashboard has the fields of Grafana's JSON that this program and its tests read.
type dashboard struct {
	UID        string  `json:"uid"`
	Editable   bool    `json:"editable"`
	Panels     []panel `json:"panels"`
	Links      []link  `json:"links"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Name  string `json:"name"`
			Expr  string `json:"expr"`
			Title string `json:"titleFormat"`
			Text  string `json:"textFormat"`
		} `json:"list"`
	} `json:"annotations"`
}

// panel is a panel, or a row.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
		Overrides []struct {
			Properties []struct {
				ID    string          `json:"id"`
				Value json.RawMessage `json:"value"`
			} `json:"properties"`
		} `json:"overrides"`
	} `json:"fieldConfig"`
	Links     []link `json:"links"`
	Collapsed bool   `json:"collapsed"`
	// Panels holds the panels of a folded row. Those of an open row follow it.
	Panels  []panel `json:"panels"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

type link struct {
	URL string `json:"url"`
}

// variable is a variable of the dashboard. Its query is a text, or, for a data source, an object.
type variable struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Query json.RawMessage `json:"query"`
}

var labelValues = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// series returns the selector of the series whose label has the values of the variable, and whether
// it has such a query.
func (v variable) series() (string, bool) {
	var query string
	if json.Unmarshal(v.Query, &query) != nil {
		return "", false
	}
	match := labelValues.FindStringSubmatch(query)
	if match == nil {
		return "", false
	}
	return match[1], true
}

// readDashboard reads the dashboard below dir.
func readDashboard(dir string) (dashboard, error) {
	var d dashboard
	data, err := os.ReadFile(filepath.Join(dir, dashboardFile))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("%s: %w", dashboardFile, err)
	}
	for _, v := range d.Templating.List {
		if _, ok := v.series(); !ok && v.Type == "query" {
			return d, fmt.Errorf("%s: variable %s: %s; want the text label_values(SERIES, LABEL), as in the others: "+
				"Grafana exports an object after an edit", dashboardFile, v.Name, v.Query)
		}
	}
	return d, nil
}
