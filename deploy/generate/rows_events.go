package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

func evictions() row {
	return row{"Evictions", []panel{
		{
			title:       "Evictions",
			description: "Evictions that have ended, by threshold and method. With --eviction=dry-run those that would have been made.",
			unit:        units.Short,
			queries:     []query{{`increase(nodepartition_evictions_total{` + of + `}[$__rate_interval])`, "{{instance}} {{partition}} {{threshold}} {{method}} dry run: {{dry_run}}"}},
		},
		{
			title:       "Kills by the kernel",
			description: "Processes of a partition that the kernel killed: at the limit of the partition, or of a pod, a container or the node.",
			unit:        units.Short,
			queries:     []query{{`increase(nodepartition_kernel_kills_total{` + of + `}[$__rate_interval])`, "{{instance}} {{partition}} {{limit}}"}},
		},
		{
			title:       "No candidate",
			description: "1 while a pod of the partition has to be evicted and all are protected.",
			unit:        units.Short,
			queries:     []query{{`nodepartition_eviction_without_candidate{` + of + `}`, "{{instance}} {{partition}}"}},
		},
		{
			title:       "Failed steps",
			description: "Steps of evictions that failed. The journal has the reasons.",
			unit:        units.Short,
			queries:     []query{{`increase(nodepartition_eviction_failures_total{` + of + `}[$__rate_interval])`, "{{instance}} {{partition}} {{step}}"}},
		},
		{
			title:       "Reaction",
			description: "Time from the reading below the threshold to SIGKILL, 99th percentile since the start of the monitor.",
			unit:        units.Seconds,
			queries:     []query{{`histogram_quantile(0.99, sum by (cluster, job, instance, partition, le) (nodepartition_eviction_reaction_seconds_bucket{` + of + `}))`, "{{instance}} {{partition}}"}},
		},
	}}
}

func placements() row {
	return row{"Placements", []panel{
		{
			title:       "Placements",
			description: "Containers that were placed in a partition, by method.",
			unit:        units.Short,
			queries: []query{{
				`sum by (cluster, job, instance, method, partition) (increase(nodepartition_placements_total{NODE, result="success"}[$__rate_interval]))`,
				"{{instance}} {{method}} to {{partition}}",
			}},
		},
		{
			title:       "Failed placements",
			description: "Containers that could not be placed. The journal has the reasons.",
			unit:        units.Short,
			queries: []query{{
				`sum by (cluster, job, instance, method, partition) (increase(nodepartition_placements_total{NODE, result="failure"}[$__rate_interval]))`,
				"{{instance}} {{method}} to {{partition}}",
			}},
		},
		{
			title:       "Duration",
			description: "95th percentile since the start of the monitor. At creation it is the time of the answer to the runtime.",
			unit:        units.Seconds,
			queries: []query{{
				`histogram_quantile(0.95, sum by (cluster, job, instance, method, le) (nodepartition_placement_duration_seconds_bucket{NODE}))`,
				"{{instance}} {{method}}",
			}},
		},
	}}
}

func misplaced() row {
	return row{"Misplaced", []panel{
		{
			title:       "Misplaced pods",
			description: "Pods that are not where they belong, by the reason. docs/troubleshooting/placement.md explains the reasons.",
			unit:        units.Short, stacked: true,
			queries: []query{{`nodepartition_misplaced_pods{` + of + `}`, "{{instance}} {{partition}} {{reason}}"}},
		},
		{
			title:       "Memory outside",
			description: "Memory of a partition's pods that is charged to the default partition, because their processes were moved live.",
			unit:        units.BytesIEC,
			queries:     []query{{`nodepartition_memory_outside_bytes{` + of + `}`, "{{instance}} {{partition}}"}},
		},
	}}
}

func workloads() row {
	return row{"Workload types", []panel{
		{
			title:       "Members by right",
			description: "Pods that are members by their workload type, by the right: their namespace, allowedNamespaces, the namespace's annotation, or a static pod. A node without types has no value.",
			unit:        units.Short, stacked: true,
			queries: []query{{`nodepartition_workload_pods{` + of + `}`, "{{instance}} {{partition}} {{type}} {{by}}"}},
		},
		{
			title:       "Refused pods",
			description: "Pods that ask for a workload type in vain. docs/workload-types.md explains the reasons.",
			unit:        units.Short, stacked: true,
			queries: []query{{`nodepartition_workload_refused_pods{NODE}`, "{{instance}} {{type}} {{reason}}"}},
		},
	}}
}

func weights() row {
	return row{"Weights", []panel{
		{
			title:       "CPU weights",
			description: "cpu.weight of the slices, 1 to 10000. It follows the requests of the pods in the slice.",
			unit:        units.Short,
			queries:     []query{{`nodepartition_cpu_weight{` + of + `}`, "{{instance}} {{slice}}"}},
		},
		{
			title:       "Throttling",
			description: "Time that the slice's own CPU quota kept it from running, summed over CPUs.",
			unit:        units.PercentUnit,
			queries:     []query{{`rate(nodepartition_cpu_throttled_seconds_total{` + of + `}[$__rate_interval])`, "{{instance}} {{slice}}"}},
		},
	}}
}

func budget() row {
	return row{"Budget", []panel{
		{
			title:       "Memory of the node",
			description: "The capacity of the node in parts: reserved, kept free by the kubelet, of the partitions together, and left for user pods.",
			unit:        units.BytesIEC, stacked: true,
			queries: []query{{
				`nodepartition_budget_memory_bytes{NODE, part!~"capacity|allocatable"}`,
				"{{instance}} {{part}}",
			}},
		},
		{
			title:       "Reserved, and used by the host",
			description: "kubeReserved and systemReserved together, and the working sets of the services and users of the node.",
			unit:        units.BytesIEC,
			queries: []query{
				{`sum by (cluster, job, instance) (nodepartition_budget_memory_bytes{NODE, part=~"kube-reserved|system-reserved"})`, "{{instance}} reserved"},
				{`nodepartition_host_memory_working_set_bytes{NODE}`, "{{instance}} {{slice}}"},
			},
		},
		{
			title:       "Node Allocatable",
			description: "What the scheduler promises to pods, and what the partitions leave of it.",
			unit:        units.BytesIEC,
			queries:     []query{{`nodepartition_budget_memory_bytes{NODE, part=~"capacity|allocatable|left"}`, "{{instance}} {{part}}"}},
		},
	}}
}

func monitor() row {
	return row{"The monitor", []panel{
		{
			title:       "Reconciles",
			description: "Reconciles of all pods, and those with a step that failed.",
			unit:        units.Short,
			queries: []query{
				{`increase(nodepartition_reconcile_duration_seconds_count{NODE}[$__rate_interval])`, "{{instance}} reconciles"},
				{`increase(nodepartition_reconcile_failures_total{NODE}[$__rate_interval])`, "{{instance}} failed"},
			},
		},
		{
			title:       "Trouble",
			description: "Connections that came back, cgroups that a scrape could not read, and attempts to serve metrics that failed.",
			unit:        units.Short,
			queries: []query{
				{`sum by (cluster, job, instance) (increase(nodepartition_source_reconnects_total{NODE}[$__rate_interval]))`, "{{instance}} reconnects"},
				{`increase(nodepartition_cgroup_read_failures_total{NODE}[$__rate_interval])`, "{{instance}} unread cgroups"},
				{`increase(nodepartition_listen_failures_total{NODE}[$__rate_interval])`, "{{instance}} not served"},
			},
		},
		{
			title:       "Cost",
			description: "Memory of the monitor's process.",
			unit:        units.BytesIEC,
			queries:     []query{{`process_resident_memory_bytes{NODE} and on (cluster, job, instance) nodepartition_info{NODE}`, "{{instance}}"}},
		},
	}}
}
