package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// inCluster adds the label in to nodes in a list, for the link to the rows of the node: its
// cluster, or the name of all if it has none.
func inCluster(expr string) string {
	return `label_replace(label_replace(` + expr + `, "in", "All", "", ""), "in", "$1", "cluster", "(.+)")`
}

// fleet returns the first row, which is about all nodes of the clusters. Its queries read what the
// rules record for each cluster, or list nodes at one time.
func fleet() row {
	const (
		numberWidth, numberHeight = columns / 6, 4
		thirdWidth, halfWidth     = columns / 3, columns / 2
		graphHeight, listHeight   = 7, 9

		versions = `cluster_job_version:nodepartition_info:count{FLEET}`
		sections = `cluster_job_hash:nodepartition_section_info:count{FLEET}`
		hourly   = `cluster_job_partition:nodepartition_evictions:increase1h{FLEET, partition=~"$partition"}`
		rollouts = `cluster_job_nodepartition_state:nodepartition_rollout_nodes:max{FLEET}`
		firing   = `ALERTS{FLEET, alertname=~"NodePartition.+", alertstate="firing"}`
	)
	number := func(title, description, expr, runbook string, orangeFrom *float64) panel {
		return panel{
			title: title, description: description, kind: numbers, unit: units.Short, queries: []query{{expr, ""}},
			orangeFrom: orangeFrom, runbook: runbook, width: numberWidth, height: numberHeight,
		}
	}
	anyNode := cog.ToPtr(1.0)
	return row{"The fleet", []panel{
		number("Installed", "Nodes whose monitor Prometheus reaches.", `sum(`+versions+`)`, "", nil),
		number("Active", "Nodes with a partition: its slice is active.", `sum(cluster_job:nodepartition_active:count{FLEET})`, "", nil),
		number("Not reached", "Nodes whose monitor Prometheus does not reach.",
			`sum(cluster_job:nodepartition_down:count{FLEET})`, "nodepartitionmonitordown", anyNode),
		number("In a trial", "Nodes whose section is on trial, and goes back by itself unless it is kept.",
			`sum(cluster_job:nodepartition_trial:sum{FLEET})`, "", nil),
		number("Refused", "Nodes whose configuration is not valid. The last good one of this boot is in force there.",
			`sum(cluster_job_problem:nodepartition_configuration_problem:sum{FLEET, problem="refused"})`,
			"nodepartitionconfigurationrefused", anyNode),
		number("Evictions in an hour", "Pods that were evicted in the last hour, on all nodes.", `sum(`+hourly+`)`, "nodepartitioneviction", nil),
		{
			title: "Versions", description: "Nodes by the version of the monitor.", unit: units.Short, stacked: true,
			queries: []query{{`sum by (version) (` + versions + `)`, "{{version}}"}},
			width:   thirdWidth, height: graphHeight,
		},
		{
			title: "Sections", description: "Nodes by the section that is followed: the first digits of sha256sum of its file.",
			unit: units.Short, stacked: true,
			queries: []query{{`sum by (hash) (` + sections + `)`, "{{hash}}"}},
			width:   thirdWidth, height: graphHeight,
		},
		{
			title: "Evictions an hour", description: "Pods that were evicted in the hour before, by cluster and partition.",
			unit: units.Short, runbook: "nodepartitionevictionsrepeat",
			queries: []query{{`sum by (cluster, partition) (` + hourly + `)`, "{{cluster}} {{partition}}"}},
			width:   thirdWidth, height: graphHeight,
		},
		{
			title:       "Margins",
			description: "Partitions by their margin: available memory above the nearest threshold, as a part of the limit. Pods are evicted below 0. Partitions without a limit have none.",
			kind:        heat, unit: units.PercentUnit, runbook: "nodepartitionlowmargin",
			queries: []query{{
				`sum by (le) (cluster_job_partition_le:nodepartition_eviction_margin:count{FLEET, partition=~"$partition"})`, "{{le}}",
			}},
			width: halfWidth, height: listHeight,
		},
		{
			title: "Worst ten margins", description: "The ten partitions with the least margin now. A node is a link to its rows.",
			kind: list, unit: units.PercentUnit, hidden: []string{"in", "__name__"}, runbook: "nodepartitionlowmargin",
			queries: []query{{
				inCluster(`bottomk(10, instance_partition:nodepartition_eviction_margin:ratio{FLEET, partition=~"$partition"})`), "",
			}},
			width: halfWidth, height: listHeight,
		},
		{
			title:       "Nodes to look at",
			description: "Nodes that are not reached, refuse their configuration, are in a trial, or have another version or section than most of their cluster: up to twenty of each. A node is a link to its rows.",
			kind:        list, unit: units.Short, hidden: []string{"in", "Value", "__name__"},
			queries: []query{{inCluster(`instance_why:nodepartition_noticed:topk{FLEET}`), ""}},
			width:   halfWidth, height: listHeight,
		},
		{
			title: "Alerts", description: "Alerts that fire now, and of how many nodes and partitions. The section of the runbooks has the name of the alert.",
			kind: list, unit: units.Short, runbook: "the-fleet",
			queries: []query{{`count by (cluster, alertname, severity) (` + firing + `)`, ""}},
			width:   halfWidth, height: listHeight,
		},
		{
			title:       "Limits by shape of node",
			description: "The memoryLimit that the node which needs most recommends, and the smallest that is configured, by instance type and partition.",
			unit:        units.BytesIEC,
			queries: []query{
				{
					`max by (instance_type, partition) (cluster_job_instance_type_partition:nodepartition_memory_recommended_bytes:max{FLEET, partition=~"$partition"})`,
					"{{instance_type}} {{partition}} recommended",
				},
				{
					`min by (instance_type, partition) (cluster_job_instance_type_partition:nodepartition_configured_memory_limit_bytes:min{FLEET, partition=~"$partition"})`,
					"{{instance_type}} {{partition}} configured",
				},
			},
			width: columns, height: graphHeight,
		},
		{
			title: "Rollouts", description: "Nodes of all NodePartitions by state, as their controller counts them.",
			unit: units.Short, runbook: "nodepartitiondegraded",
			queries: []query{{`sum by (cluster, state) (` + rollouts + `)`, "{{cluster}} {{state}}"}},
			width:   halfWidth, height: listHeight,
		},
		{
			title: "NodePartitions", description: "The conditions that are true. A NodePartition that is Available, and not Degraded, needs nobody.",
			kind: list, unit: units.Short, hidden: []string{"Value"}, runbook: "nodepartitiondegraded",
			queries: []query{{`max by (cluster, nodepartition, condition) (nodepartition_rollout_condition{FLEET}) == 1`, ""}},
			width:   halfWidth, height: listHeight,
		},
	}}
}

// annotations marks on all panels when a rollout changed nodes, and when pods were evicted.
func annotations() []annotation {
	return []annotation{
		newAnnotation("New version", "blue", `cluster_job_version:nodepartition_changed:count{FLEET}`,
			"Nodes have changed to version {{version}}", "{{cluster}}"),
		newAnnotation("New section", "purple", `cluster_job_hash:nodepartition_changed:count{FLEET}`,
			"Nodes have changed to section {{hash}}", "{{cluster}}"),
		newAnnotation("Evictions", "red", `instance_partition:nodepartition_evictions:increase5m{NODE, partition=~"$partition"}`,
			"Pods of partition {{partition}} were evicted", "{{cluster}} {{instance}}"),
	}
}
