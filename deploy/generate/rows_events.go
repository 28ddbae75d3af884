package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

func evictions() row {
	return row{"Evictions", []panel{
		{
			title:       "Evictions",
			description: "Evictions that have ended, by threshold and method. With --eviction=dry-run those that would have been made.",
			unit:        units.Short,
			queries:     []query{{`increase(systempartition_evictions_total{NODE}[$__rate_interval])`, "{{instance}} {{threshold}} {{method}} dry run: {{dry_run}}"}},
		},
		{
			title:       "Kills by the kernel",
			description: "Processes of the partition that the kernel killed: at the limit of the partition, or of a pod, a container or the node.",
			unit:        units.Short,
			queries:     []query{{`increase(systempartition_kernel_kills_total{NODE}[$__rate_interval])`, "{{instance}} {{limit}}"}},
		},
		{
			title:       "No candidate",
			description: "1 while a pod has to be evicted and all are protected.",
			unit:        units.Short,
			queries:     []query{{`systempartition_eviction_no_candidates{NODE}`, "{{instance}}"}},
		},
		{
			title:       "Failed steps",
			description: "Steps of evictions that failed. The journal has the reasons.",
			unit:        units.Short,
			queries:     []query{{`increase(systempartition_eviction_failures_total{NODE}[$__rate_interval])`, "{{instance}} {{step}}"}},
		},
		{
			title:       "Reaction",
			description: "Time from the reading below the threshold to SIGKILL, 99th percentile since the start of the monitor.",
			unit:        units.Seconds,
			queries:     []query{{`histogram_quantile(0.99, sum by (cluster, job, instance, le) (systempartition_eviction_reaction_seconds_bucket{NODE}))`, "{{instance}}"}},
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
				`sum by (cluster, job, instance, method, partition) (increase(systempartition_placements_total{NODE, result="success"}[$__rate_interval]))`,
				"{{instance}} {{method}} to {{partition}}",
			}},
		},
		{
			title:       "Failed placements",
			description: "Containers that could not be placed. The journal has the reasons.",
			unit:        units.Short,
			queries: []query{{
				`sum by (cluster, job, instance, method, partition) (increase(systempartition_placements_total{NODE, result="failure"}[$__rate_interval]))`,
				"{{instance}} {{method}} to {{partition}}",
			}},
		},
		{
			title:       "Duration",
			description: "95th percentile since the start of the monitor. At creation it is the time of the answer to the runtime.",
			unit:        units.Seconds,
			queries: []query{{
				`histogram_quantile(0.95, sum by (cluster, job, instance, method, le) (systempartition_placement_duration_seconds_bucket{NODE}))`,
				"{{instance}} {{method}}",
			}},
		},
	}}
}

func misplaced() row {
	return row{"Misplaced", []panel{
		{
			title:       "Misplaced pods",
			description: "Pods that are not where they belong, by the reason. docs/troubleshooting.md explains the reasons.",
			unit:        units.Short, stacked: true,
			queries: []query{{`systempartition_misplaced_pods{NODE}`, "{{instance}} {{reason}}"}},
		},
		{
			title:       "Memory outside",
			description: "Memory of the partition's pods that is charged to the default partition, because their processes were moved live.",
			unit:        units.BytesIEC,
			queries:     []query{{`systempartition_memory_outside_bytes{NODE}`, "{{instance}}"}},
		},
	}}
}

func weights() row {
	return row{"Weights", []panel{
		{
			title:       "CPU weights",
			description: "cpu.weight of the slices, 1 to 10000. It follows the requests of the pods in the slice.",
			unit:        units.Short,
			queries:     []query{{`systempartition_cpu_weight{NODE}`, "{{instance}} {{slice}}"}},
		},
		{
			title:       "Throttling",
			description: "Time that the slice's own CPU quota kept it from running, summed over CPUs.",
			unit:        units.PercentUnit,
			queries:     []query{{`rate(systempartition_cpu_throttled_seconds_total{NODE}[$__rate_interval])`, "{{instance}} {{slice}}"}},
		},
	}}
}

func budget() row {
	return row{"Budget", []panel{
		{
			title:       "Memory of the node",
			description: "The capacity of the node in parts: reserved, kept free by the kubelet, the partition's, and left for user pods.",
			unit:        units.BytesIEC, stacked: true,
			queries: []query{{
				`systempartition_budget_memory_bytes{NODE, part!~"capacity|allocatable"}`,
				"{{instance}} {{part}}",
			}},
		},
		{
			title:       "Reserved, and used by the host",
			description: "kubeReserved and systemReserved together, and the working sets of the services and users of the node.",
			unit:        units.BytesIEC,
			queries: []query{
				{`sum by (cluster, job, instance) (systempartition_budget_memory_bytes{NODE, part=~"kube-reserved|system-reserved"})`, "{{instance}} reserved"},
				{`systempartition_host_memory_working_set_bytes{NODE}`, "{{instance}} {{slice}}"},
			},
		},
		{
			title:       "Node Allocatable",
			description: "What the scheduler promises to pods, and what is left of it beside the partition.",
			unit:        units.BytesIEC,
			queries:     []query{{`systempartition_budget_memory_bytes{NODE, part=~"capacity|allocatable|left"}`, "{{instance}} {{part}}"}},
		},
	}}
}

func monitor() row {
	return row{"The monitor", []panel{
		{
			title:       "Passes",
			description: "Passes over all pods, and passes with a step that failed.",
			unit:        units.Short,
			queries: []query{
				{`increase(systempartition_reconcile_duration_seconds_count{NODE}[$__rate_interval])`, "{{instance}} passes"},
				{`increase(systempartition_reconcile_failures_total{NODE}[$__rate_interval])`, "{{instance}} failed"},
			},
		},
		{
			title:       "Trouble",
			description: "Connections that came back, cgroups that a scrape could not read, and attempts to serve metrics that failed.",
			unit:        units.Short,
			queries: []query{
				{`sum by (cluster, job, instance) (increase(systempartition_source_reconnects_total{NODE}[$__rate_interval]))`, "{{instance}} reconnects"},
				{`increase(systempartition_cgroup_read_failures_total{NODE}[$__rate_interval])`, "{{instance}} unread cgroups"},
				{`increase(systempartition_listen_failures_total{NODE}[$__rate_interval])`, "{{instance}} not served"},
			},
		},
		{
			title:       "Cost",
			description: "Memory of the monitor's process.",
			unit:        units.BytesIEC,
			queries:     []query{{`process_resident_memory_bytes{NODE} and on (cluster, job, instance) systempartition_info{NODE}`, "{{instance}}"}},
		},
	}}
}
