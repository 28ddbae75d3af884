package node

// The names of the flags of run.
const (
	FlagRuntime    = "runtime-endpoint"
	FlagNRI        = "nri-socket"
	FlagValidate   = "nri-validate"
	FlagPods       = "pods-api-socket"
	FlagListen     = "listen"
	FlagWebConfig  = "web.config.file" // the name that Prometheus' exporters use
	FlagTextfile   = "textfile"
	FlagMove       = "move"
	FlagEviction   = "eviction"
	FlagProtected  = "eviction-protect"
	FlagCooldown   = "eviction-cooldown"
	FlagKubeconfig = "kubeconfig"
	FlagEvents     = "events"
	FlagNodeStatus = "node-status"
	FlagTick       = "tick"
	FlagPerPod     = "per-pod-metrics"
	FlagDebug      = "debug"
)

// Flag describes a flag of run. None has a secret.
type Flag struct {
	Name string
	// Usage is the line of --help, with the name of the value in backquotes.
	Usage string
	// Text has the sentences of the manual page and of units/node-partition.default, with paths, flags
	// and words of a configuration in backquotes. "make generate" writes them there, and adds the
	// default.
	Text string
	// Section is a section of the manual page.
	Section string
}

// Flags describes the flags of run, in the order of the documents.
var Flags = []Flag{
	{
		Name:  FlagRuntime,
		Usage: "`SOCKET` of the container runtime (default: the kubelet's, or the first that answers)",
		Text: "The container runtime, as a path or as unix:///path. The default is the kubelet's: its option " +
			"`--container-runtime-endpoint`, of its unit while it does not run, or `containerRuntimeEndpoint` of its " +
			"configuration. Without either, it is the first that answers of `/run/containerd/containerd.sock`, " +
			"`/run/crio/crio.sock`, `/run/k3s/containerd/containerd.sock` and `/run/cri-dockerd.sock`.",
	},
	{
		Name:  FlagNRI,
		Usage: "`SOCKET` at which the runtime serves NRI",
		Text:  "The socket at which the runtime serves NRI.",
	},
	{
		Name:  FlagValidate,
		Usage: "have the runtime refuse a container that requires the monitor and would start outside",
		Text: "Have the runtime ask once more, before it creates a container. It refuses the container of a pod that requires the " +
			"monitor and would start outside of its partition. It also refuses the first container of any pod about which it asks a " +
			"monitor that has ended or hangs. It needs containerd 2.2 or CRI-O 1.34.",
	},
	{
		Name:  FlagPods,
		Usage: "`SOCKET` of the kubelet's Pods API",
		Text:  "The socket at which the kubelet serves its Pods API.",
	},
	{
		Name:  FlagListen,
		Usage: "`ADDRESS` for metrics and health",
		Text: "The address for metrics and health, at which `status` and `check` query the service. An empty address switches " +
			"them off.",
	},
	{
		Name:  FlagWebConfig,
		Usage: "`FILE` with TLS certificates and passwords for --" + FlagListen,
		Text: "A web configuration file of Prometheus' exporters, with TLS certificates, client certificates and passwords for " +
			"`--listen`. It is read again for each connection. While it is not valid, nothing is served.",
	},
	{
		Name:  FlagTextfile,
		Usage: "`FOLDER` of node_exporter's textfile collector to write metrics to",
		Text: "Write the metrics to `node_partition.prom` in this folder, each 15 seconds, for the textfile collector of " +
			"node_exporter. Then `--listen=` saves the port.",
	},
	{
		Name:    FlagMove,
		Usage:   "`MODE` of moving running pods: auto, restart, live or never",
		Text:    "How running pods are moved: `auto`, `restart`, `live` or `never`.",
		Section: "MOVING PODS",
	},
	{
		Name:  FlagEviction,
		Usage: "`MODE` of eviction: on, off, or dry-run, which only reports",
		Text: "With `on`, the monitor evicts pods of the partition before the kernel kills at its limit. With `dry-run`, it only " +
			"reports the pods that it would evict. With `off`, it leaves them to the kernel.",
		Section: "EVICTION",
	},
	{
		Name:  FlagProtected,
		Usage: "`PODS` that are never evicted: none, kubelet, or a list of static, node-critical, cluster-critical",
		Text: "Pods that are never evicted: a list of `static`, `node-critical` (the priority of system-node-critical or more) " +
			"and `cluster-critical` (the priority of system-cluster-critical or more). `kubelet` means all three, as in the kubelet. " +
			"With `none`, no pod is protected.",
	},
	{
		Name:  FlagCooldown,
		Usage: "`DURATION` after an eviction in which the pods of the same controller are restarted and not evicted",
		Text: "After a pod of a controller was evicted, its other pods are restarted for this time when it is their turn, and " +
			"not evicted.",
	},
	{
		Name:  FlagKubeconfig,
		Usage: "kubeconfig `FILE` to report evictions to the API server with; auto is the kubelet's, with none pods are restarted instead",
		Text: "The kubeconfig with which evictions are reported to the API server. With `auto`, it is the kubelet's own. With " +
			"`none`, pods are restarted instead.",
	},
	{
		Name:  FlagEvents,
		Usage: "`MODE`, on or off: Events about the partition on the node, with the kubeconfig of --" + FlagKubeconfig,
		Text: "With `on`, the monitor records Events at the API server, with the kubeconfig of `--kubeconfig`: on the " +
			"node when the kernel kills at the partition's limit, when no pod can be evicted and when a configuration is " +
			"refused. With `off`, it records none.",
		Section: "EVENTS",
	},
	{
		Name:  FlagNodeStatus,
		Usage: "keep labels with the version and the section, and the condition SystemPartitionReady, of the node, with the same kubeconfig",
		Text: "Keep the condition `SystemPartitionReady` of the node, and its labels `node-partition.io/version` and " +
			"`node-partition.io/section`, with the same kubeconfig. Without it the monitor removes what it has written of these.",
		Section: "NODE STATUS",
	},
	{
		Name:  FlagTick,
		Usage: "`DURATION` between two reconciles without an event",
		Text:  "The time between two reconciles without an event, at least 1s. While nothing happens, it is five minutes or more.",
	},
	{
		Name:  FlagPerPod,
		Usage: "serve series for each pod too",
		Text:  "Serve series for each pod of the partition, too.",
	},
	{
		Name:  FlagDebug,
		Usage: "log more",
		Text:  "Log more.",
	},
}

// FlagUsage returns the line of --help for a flag of run.
func FlagUsage(name string) string {
	for _, f := range Flags {
		if f.Name == name {
			return f.Usage
		}
	}
	return ""
}
