package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// builder returns what builds the panel with that number.
func (p panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case numbers:
		return p.numbers(id)
	case list:
		return p.list(id)
	case heat:
		return p.heat(id)
	case series:
		return p.series(id)
	}
	panic("a panel of no known kind: " + p.title)
}

func (p panel) series(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.size()
	stacking := common.NewStackingConfigBuilder().Mode(common.StackingModeNone)
	fill := 0.0
	if p.stacked {
		stacking.Mode(common.StackingModeNormal)
		fill = 30
	}
	builder := timeseries.NewPanelBuilder().Id(id).
		Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
		Height(height).Span(width).Links(p.links()).
		AxisSoftMin(0).FillOpacity(fill).Stacking(stacking).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom))
	for i, q := range p.queries {
		builder.WithTarget(q.target(i).Range())
	}
	return builder
}

func (p panel) numbers(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.size()
	builder := stat.NewPanelBuilder().Id(id).
		Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
		Height(height).Span(width).Links(p.links())
	if p.states != nil {
		mapping := dashboard.NewValueMap()
		for i, s := range p.states {
			mapping.Options[s.value] = dashboard.ValueMappingResult{
				Text: cog.ToPtr(s.text), Color: cog.ToPtr(s.color), Index: cog.ToPtr(int32(i)),
			}
		}
		builder.Mappings([]dashboard.ValueMapping{{ValueMap: mapping}})
	} else {
		steps := []dashboard.Threshold{{Color: "text"}}
		if p.orangeFrom != nil {
			steps = append(steps, dashboard.Threshold{Value: p.orangeFrom, Color: "orange"})
		}
		builder.Decimals(0).NoValue("none").
			Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps))
	}
	for i, q := range p.queries {
		builder.WithTarget(q.target(i).Range())
	}
	return builder
}

func (p panel) list(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.size()
	builder := table.NewPanelBuilder().Id(id).
		Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
		Height(height).Span(width).Links(p.links()).NoValue("none").
		OverrideByName("instance", []dashboard.DynamicConfigValue{{
			Id: "links", Value: []any{map[string]any{"title": "The rows of this node", "url": rowsOfNode}},
		}})
	for _, name := range append([]string{"Time"}, p.hidden...) {
		builder.OverrideByName(name, []dashboard.DynamicConfigValue{{Id: "custom.hidden", Value: true}})
	}
	for i, q := range p.queries {
		builder.WithTarget(q.target(i).Instant().Format(prometheus.PromQueryFormatTable))
	}
	return builder
}

func (p panel) heat(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.size()
	builder := heatmap.NewPanelBuilder().Id(id).
		Title(p.title).Description(p.description).Unit(p.unit).Datasource(datasource()).
		Height(height).Span(width).Links(p.links()).
		Calculate(false).
		Color(heatmap.NewHeatmapColorOptionsBuilder().
			Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Fill("dark-orange").
			Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle)).
		CellValues(heatmap.NewCellValuesBuilder().Decimals(0)).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit))
	for i, q := range p.queries {
		builder.WithTarget(q.target(i).Range().Format(prometheus.PromQueryFormatHeatmap))
	}
	return builder
}

// target returns the query with the name that Grafana gives to it: A, B, and so on.
func (q query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Expr(selected(q.expr)).
		LegendFormat(q.legend).
		RefId(string(rune('A' + i))).
		Datasource(datasource())
}

// address is the project's: packages, the chart, alerts and the dashboard have it by make generate.
// Nothing is published yet, and the name is one that nobody can have (RFC 2606).
const address = "https://node-partition.example"

// docsURL returns the address at which the folder docs is served: alerts lead there, and the links
// of the dashboard until somebody sets its variable docs. make generate DOCS_URL= replaces it.
func docsURL() string {
	return cmp.Or(os.Getenv("DOCS_URL"), address+"/docs")
}

// The links of the dashboard. Grafana puts in the variables.
const (
	runbooks = "${docs:raw}/runbooks.md"
	// selection keeps what is selected, but for nodes.
	selection = "/d/" + uid + "?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&${partition:queryparam}" +
		"&${docs:queryparam}"
	allNodes = selection + "&var-instance=All"
	// rowsOfNode is for a row of a table with the labels of a node and, as in, with its cluster.
	rowsOfNode = "/d/" + uid + "?${datasource:queryparam}&var-cluster=${__data.fields.in:percentencode}" +
		"&var-job=${__data.fields.job:percentencode}&var-instance=${__data.fields.instance:percentencode}" +
		"&${partition:queryparam}&${docs:queryparam}&${__url_time_range}"
)

// links returns the link to the runbook of the panel.
func (p panel) links() []cog.Builder[dashboard.DashboardLink] {
	if p.runbook == "" {
		return nil
	}
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder("What to do").
			Type(dashboard.DashboardLinkTypeLink).Url(fmt.Sprintf("%s#%s", runbooks, p.runbook)).TargetBlank(true),
	}
}

// annotated is the dashboard with annotations that have titles, which Grafana's library leaves out.
type annotated struct {
	dashboard.Dashboard
	Annotations annotationList `json:"annotations"`
}

type annotationList struct {
	List []annotation `json:"list"`
}

// annotation marks the times at which a query has a series with a value other than 0. Title and
// Text may have labels, as legends.
type annotation struct {
	dashboard.AnnotationQuery
	Title string `json:"titleFormat"`
	Text  string `json:"textFormat"`
	// Step is the shortest time between two values. Grafana joins marks of neighbouring values.
	Step string `json:"step"`
}

// newAnnotation returns an annotation for a query as in panels.
func newAnnotation(name, color, expr, title, text string) annotation {
	query := dashboard.NewAnnotationQuery()
	query.Name, query.IconColor, query.Expr = name, color, cog.ToPtr(selected(expr))
	query.Datasource = cog.ToPtr(datasource())
	query.BuiltIn, query.Placement = nil, nil
	return annotation{*query, title, text, "60s"}
}
