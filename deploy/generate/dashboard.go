package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// row is a row of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is a panel that shows time series, or the present values if states is set.
type panel struct {
	title, description string
	// unit is one of Grafana's (package units).
	unit    string
	queries []query
	// states maps values to texts.
	states []state
	// stacked adds the series up.
	stacked bool
}

// query is a query of a panel. Selectors in expr begin with NODE, which stands for the variables of
// the dashboard.
type query struct{ expr, legend string }

type state struct{ value, text, color string }

// selector replaces NODE.
const selector = `cluster=~"$cluster", job=~"$job", instance=~"$instance"`

// datasource is the data source that the reader of the dashboard has chosen.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// dashboardJSON returns the dashboard.
func dashboardJSON() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder("Node System Partition").
		Uid("node-partition").
		Description("The partitions of nodes, by partition-monitor. docs/dashboards.md explains each row.").
		Tags([]string{"kubernetes", "node-partition"}).
		Readonly().
		Timezone("browser").
		Refresh("30s").
		Time("now-3h", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("cluster", "Cluster", `label_values(nodepartition_info, cluster)`, ".*")).
		WithVariable(variable("job", "Job", `label_values(nodepartition_info{cluster=~"$cluster"}, job)`, ".+")).
		WithVariable(variable(
			"instance", "Node",
			`label_values(nodepartition_info{cluster=~"$cluster", job=~"$job"}, instance)`, ".+",
		)).
		WithVariable(variable(
			"partition", "Partition",
			`label_values(nodepartition_eviction_no_candidates_total{`+selector+`}, partition)`, ".+",
		))
	id := uint32(0) // links to a panel contain its number
	for _, r := range rows() {
		id++
		builder.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			builder.WithPanel(p.builder(id))
		}
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(built)
	return text.Bytes(), err
}

// variable is a variable of the dashboard that has the values of a label. A cluster without a label
// has an empty one, which all matches too.
func variable(name, label, values, all string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(datasource()).
		Query(dashboard.StringOrMap{String: &values}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(all).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

const (
	// perRow is the number of panels beside each other, in the 24 columns of Grafana's grid.
	perRow = 3
	height = 8
)

func (p panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	if p.states != nil {
		mapping := dashboard.NewValueMap()
		for i, s := range p.states {
			mapping.Options[s.value] = dashboard.ValueMappingResult{
				Text: cog.ToPtr(s.text), Color: cog.ToPtr(s.color), Index: cog.ToPtr(int32(i)),
			}
		}
		builder := stat.NewPanelBuilder().Id(id).
			Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
			Height(height).Span(24 / perRow).
			Mappings([]dashboard.ValueMapping{{ValueMap: mapping}})
		for i, q := range p.queries {
			builder.WithTarget(q.target(i))
		}
		return builder
	}
	stacking := common.NewStackingConfigBuilder().Mode(common.StackingModeNone)
	fill := 0.0
	if p.stacked {
		stacking.Mode(common.StackingModeNormal)
		fill = 30
	}
	builder := timeseries.NewPanelBuilder().Id(id).
		Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
		Height(height).Span(24 / perRow).
		AxisSoftMin(0).FillOpacity(fill).Stacking(stacking).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom))
	for i, q := range p.queries {
		builder.WithTarget(q.target(i))
	}
	return builder
}

// target returns the query with the name that Grafana gives to it: A, B, and so on.
func (q query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Expr(strings.ReplaceAll(q.expr, "NODE", selector)).
		LegendFormat(q.legend).
		RefId(string(rune('A' + i))).
		Datasource(datasource()).
		Range()
}
