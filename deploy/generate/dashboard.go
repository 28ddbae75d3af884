package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// row is a row of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is a panel of the dashboard.
type panel struct {
	title, description string
	// kind selects the form in which the panel shows its queries.
	kind kind
	// unit is one of Grafana's (package units).
	unit    string
	queries []query
	// states maps values of a panel of numbers to texts.
	states []state
	// orangeFrom is the smallest number that is orange; nil for none.
	orangeFrom *float64
	// hidden lists the columns of a table that only its links need.
	hidden []string
	// stacked adds the series up.
	stacked bool
	// runbook is the section of docs/runbooks.md that the panel links to; empty for none.
	runbook string
	// width, of the 24 columns of Grafana's grid, and height; 0 in the rows of a node.
	width, height uint32
}

// kind selects the form in which a panel shows its queries.
type kind int

const (
	// series shows time series.
	series kind = iota
	// numbers shows the present values, or states if there are any.
	numbers
	// list shows the present series in a table. Its nodes are links to their rows.
	list
	// heat shows buckets as a heat map over time.
	heat
)

// query is a query of a panel. Selectors in expr begin with NODE, or in the row of the fleet with
// FLEET, which stand for the variables of the dashboard.
type query struct{ expr, legend string }

type state struct{ value, text, color string }

const (
	// fleetSelector replaces FLEET: all nodes of the clusters, whichever are selected.
	fleetSelector = `cluster=~"$cluster", job=~"$job"`
	// selector replaces NODE.
	selector = fleetSelector + `, instance=~"$instance"`
)

// selected replaces FLEET and NODE in a query.
func selected(expr string) string {
	return strings.NewReplacer("FLEET", fleetSelector, "NODE", selector).Replace(expr)
}

// uid is the part of the dashboard's address that does not change.
const uid = "node-partition"

// datasource is the data source that the reader of the dashboard has chosen.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// dashboardJSON returns the dashboard.
func dashboardJSON() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder("Node System Partition").
		Uid(uid).
		Description("The partitions of nodes, by partition-monitor. docs/dashboards.md explains each row.").
		Tags([]string{"kubernetes", "node-partition"}).
		Readonly().
		Timezone("browser").
		Refresh("30s").
		Time("now-3h", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("All nodes").
			Type(dashboard.DashboardLinkTypeLink).Icon("arrow-up").Url(allNodes).KeepTime(true)).
		Link(dashboard.NewDashboardLinkBuilder("Runbooks").
			Type(dashboard.DashboardLinkTypeLink).Icon("doc").Url(runbooks).TargetBlank(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, c := range choices {
		builder.WithVariable(c.variable())
	}
	builder.WithVariable(dashboard.NewTextBoxVariableBuilder("docs").
		Label("Documentation").Description("The address at which you serve the folder docs: links to runbooks begin with it.").
		DefaultValue(dashboard.StringOrMap{String: cog.ToPtr(docsURL())}).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: cog.ToPtr(docsURL())},
			Value: dashboard.StringOrArrayOfString{String: cog.ToPtr(docsURL())},
		}))
	id := uint32(0) // links to a panel contain its number
	next := func() uint32 { id++; return id }
	of := fleet()
	builder.WithRow(dashboard.NewRowBuilder(of.title).Id(next()))
	top := uint32(1)
	for _, p := range of.panels {
		builder.WithPanel(p.builder(next()))
	}
	top += of.height()
	for _, r := range rows() {
		// A folded row asks Prometheus for nothing.
		folded := dashboard.NewRowBuilder(r.title).Id(next()).GridPos(dashboard.GridPos{Y: top, H: 1, W: columns})
		for _, p := range r.panels {
			folded.WithPanel(p.builder(next()))
		}
		builder.WithRow(folded)
		top++
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	for i := range built.Links {
		built.Links[i].Placement = nil // above the panels, and not in a menu
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(annotated{built, annotationList{annotations()}})
	return text.Bytes(), err
}

// choice is a variable of the dashboard that has the values of a label of series. A cluster without
// a label has an empty one, which all matches too.
type choice struct{ label, title, series, all string }

var choices = []choice{
	{"cluster", "Cluster", `nodepartition_info`, ".*"},
	{"job", "Job", `nodepartition_info{cluster=~"$cluster"}`, ".+"},
	{"instance", "Node", `nodepartition_info{` + fleetSelector + `}`, ".+"},
	{"partition", "Partition", `nodepartition_eviction_no_candidates_total{` + selector + `}`, ".+"},
}

func (c choice) variable() *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(c.label).
		Label(c.title).
		Datasource(datasource()).
		Query(dashboard.StringOrMap{String: cog.ToPtr(fmt.Sprintf("label_values(%s, %s)", c.series, c.label))}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(c.all).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

const (
	// columns is the width of Grafana's grid.
	columns = 24
	// The size of a panel in a row of a node: three beside each other.
	nodeWidth, nodeHeight = columns / 3, 8
)

// size returns the size of a panel in Grafana's grid.
func (p panel) size() (width, height uint32) {
	if p.width == 0 {
		return nodeWidth, nodeHeight
	}
	return p.width, p.height
}

// height returns the height of a row's panels, which fill whole lines of equal height.
func (r row) height() uint32 {
	area := uint32(0)
	for _, p := range r.panels {
		width, height := p.size()
		area += width * height
	}
	return area / columns
}
