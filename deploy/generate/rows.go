package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const (
	// of selects what is of a partition.
	of = `NODE, partition=~"$partition"`
	// whole selects the slice of a partition, which includes its others.
	whole = of + `, slice=~"kubepods-\\w+.slice"`
	// match is for operations on two metrics of a partition.
	match = "on (cluster, job, instance, partition)"
)

// rows returns the rows of nodes, in the order of an operator's questions.
func rows() []row {
	return []row{
		isItOn(), howFull(), whoUsesIt(), pressure(), evictions(), placements(), misplaced(), workloads(), weights(),
		budget(), monitor(),
	}
}

func isItOn() row {
	up := []state{{"0", "down", "red"}, {"1", "up", "green"}}
	return row{"Is it on", []panel{
		{
			title:       "Monitor",
			description: "Whether Prometheus reaches partition-monitor.",
			kind:        numbers, unit: units.NoUnit, states: up,
			queries: []query{{`up{NODE, job="node-partition"}`, "{{instance}}"}},
		},
		{
			title:       "Partition",
			description: "1 where the slice of the partition is active. A node without it has no value.",
			kind:        numbers, unit: units.NoUnit, states: []state{{"0", "absent", "red"}, {"1", "active", "green"}},
			queries: []query{{`count by (cluster, job, instance, partition) (nodepartition_memory_usage_bytes{` + whole + `})`, "{{instance}} {{partition}}"}},
		},
		{
			title:       "Limit in force",
			description: "The limit that the kernel enforces, the one that evictions keep the partition below with memoryBurst, the one of the configuration, and the one that recommend gives. A node without a limit has no value of the first three.",
			unit:        units.BytesIEC,
			queries: []query{
				{`nodepartition_memory_limit_bytes{` + whole + `}`, "{{instance}} {{partition}} in force"},
				{`nodepartition_memory_limit_effective_bytes{` + of + `}`, "{{instance}} {{partition}} guarded"},
				{`nodepartition_configured_memory_limit_bytes{` + of + `}`, "{{instance}} {{partition}} configured"},
				{`nodepartition_memory_recommended_bytes{` + of + `}`, "{{instance}} {{partition}} recommended"},
			},
		},
		{
			title:       "Connections",
			description: "1 while the monitor is connected to systemd, the runtime, NRI and the kubelet's Pods API.",
			unit:        units.Short,
			queries:     []query{{`nodepartition_source_connected{NODE}`, "{{instance}} {{source}}"}},
		},
		{
			title:       "Problems of the configuration",
			description: "1 while the configuration is refused, in the kubelet's own file, or waits until the partition uses less.",
			unit:        units.Short,
			queries: []query{
				{`nodepartition_configuration_problem{NODE}`, "{{instance}} {{problem}}"},
				{`nodepartition_memory_limit_lowering{` + of + `}`, "{{instance}} {{partition}} lowering"},
			},
		},
		{
			title:       "Age of what the monitor knows",
			description: "Time since the last reconcile of all pods, and since the last reading of each partition's memory.",
			unit:        units.Seconds,
			queries: []query{
				{`time() - nodepartition_last_reconcile_timestamp_seconds{NODE}`, "{{instance}} reconcile"},
				{`time() - nodepartition_eviction_last_poll_timestamp_seconds{` + of + `}`, "{{instance}} {{partition}} memory"},
			},
		},
	}}
}

func howFull() row {
	const (
		available = `nodepartition_memory_available_bytes{` + of + `}`
		nearest   = `max without (threshold) (nodepartition_eviction_threshold_bytes{` + of + `})`
		limit     = `kubelet_partition_memory_limit_bytes{` + of + `}`
	)
	return row{"How full", []panel{
		{
			title:       "Memory",
			description: "Memory of the partition with and without inactive page cache, and its limit. The kernel reclaims page cache: usage at the limit alone is not a problem. Size the limit by what eviction counts, the maximum of five minutes.",
			unit:        units.BytesIEC,
			queries: []query{
				{`nodepartition_memory_usage_bytes{` + whole + `}`, "{{instance}} {{partition}} usage"},
				{`nodepartition_memory_working_set_bytes{` + whole + `}`, "{{instance}} {{partition}} working set"},
				{`nodepartition_memory_used_peak_bytes{` + of + `}`, "{{instance}} {{partition}} as eviction counts it"},
				{limit, "{{instance}} {{partition}} limit"},
			},
		},
		{
			title:       "Available memory and thresholds",
			description: "Memory that the partition may still use. A pod is evicted below a threshold.",
			unit:        units.BytesIEC,
			queries: []query{
				{available, "{{instance}} {{partition}} available"},
				{`nodepartition_eviction_threshold_bytes{` + of + `}`, "{{instance}} {{partition}} {{threshold}} threshold"},
			},
		},
		{
			title:       "Margin over time",
			description: "Available memory above the nearest threshold, hard or soft, as a part of the limit. Pods are evicted below 0.",
			unit:        units.PercentUnit,
			queries: []query{{
				`(` + available + ` - ` + match + ` ` + nearest + `) / ` + match + ` ` + limit, "{{instance}} {{partition}}",
			}},
		},
		{
			title:       "Available memory in an hour",
			description: "The trend of the last half hour, continued for one hour. Below 0 the memory does not last that long.",
			unit:        units.BytesIEC,
			queries:     []query{{`predict_linear(nodepartition_memory_available_bytes{` + of + `}[30m], 3600)`, "{{instance}} {{partition}}"}},
		},
		{
			title:       "Partitions",
			description: "Memory of all partitions under the names of KEP-5894. The limit of default is for all together.",
			unit:        units.BytesIEC,
			queries: []query{
				{`kubelet_partition_memory_usage_bytes{NODE}`, "{{instance}} {{partition}} usage"},
				{`kubelet_partition_memory_limit_bytes{NODE}`, "{{instance}} {{partition}} limit"},
			},
		},
		{
			title:       "Swap",
			description: "Swap space that the partition uses. It does not count against the limit of memory.",
			unit:        units.BytesIEC,
			queries:     []query{{`nodepartition_memory_swap_bytes{` + whole + `}`, "{{instance}} {{partition}}"}},
		},
	}}
}

func whoUsesIt() row {
	const perPod = " Pods need the option --per-pod-metrics of the monitor."
	return row{"Who uses it", []panel{
		{
			title:       "Memory by pod",
			description: "The ten pods of the partition with the largest working sets." + perPod,
			unit:        units.BytesIEC,
			queries:     []query{{`topk(10, nodepartition_pod_memory_working_set_bytes{` + of + `})`, "{{instance}} {{namespace}}/{{pod}}"}},
		},
		{
			title:       "CPU by pod",
			description: "The ten pods of the partition that use most CPU time." + perPod,
			unit:        units.Short,
			queries:     []query{{`topk(10, rate(nodepartition_pod_cpu_seconds_total{` + of + `}[$__rate_interval]))`, "{{instance}} {{namespace}}/{{pod}}"}},
		},
		{
			title:       "Pods",
			description: "Pods that run containers, by partition.",
			unit:        units.Short,
			queries:     []query{{`kubelet_partition_pods{NODE}`, "{{instance}} {{partition}}"}},
		},
		{
			title:       "Memory by class",
			description: "Working set by QoS class. The slice of the partition includes the others, and the Guaranteed pods.",
			unit:        units.BytesIEC,
			queries:     []query{{`nodepartition_memory_working_set_bytes{` + of + `}`, "{{instance}} {{slice}}"}},
		},
		{
			title:       "CPU by class",
			description: "CPUs in use by QoS class. The slice of the partition includes the others, and the Guaranteed pods.",
			unit:        units.Short,
			queries: []query{{
				`rate(nodepartition_cpu_seconds_total{` + of + `}[$__rate_interval])`, "{{instance}} {{slice}}",
			}},
		},
		{
			title:       "Processes",
			description: "Processes and threads in the partition.",
			unit:        units.Short,
			queries:     []query{{`nodepartition_pids{` + whole + `}`, "{{instance}} {{partition}}"}},
		},
	}}
}

func pressure() row {
	waits := func(resource string) []query {
		return []query{{
			`rate(nodepartition_pressure_seconds_total{` + whole + `, resource="` + resource + `"}[$__rate_interval])`,
			"{{instance}} {{partition}} {{kind}}",
		}}
	}
	const text = "Part of the time in which some or all (full) processes of the partition waited for "
	return row{"Pressure", []panel{
		{title: "Memory pressure", description: text + "memory.", unit: units.PercentUnit, queries: waits("memory")},
		{title: "CPU pressure", description: text + "a CPU.", unit: units.PercentUnit, queries: waits("cpu")},
		{title: "I/O pressure", description: text + "a disk.", unit: units.PercentUnit, queries: waits("io")},
		{
			title:       "At the limit",
			description: "Times that the partition was about to exceed its limit, and times that reclaim did not help.",
			unit:        units.Short,
			queries: []query{
				{`increase(nodepartition_memory_limit_hits_total{` + whole + `}[$__rate_interval])`, "{{instance}} {{partition}} hits"},
				{`increase(nodepartition_memory_limit_ooms_total{` + whole + `}[$__rate_interval])`, "{{instance}} {{partition}} out of memory"},
			},
		},
	}}
}
