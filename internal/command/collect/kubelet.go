package collect

import (
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/node/options"
	"nodepartition/internal/unitname"
)

// maxConfig bounds a configuration file, as kubeletconfig does.
const maxConfig = 64 << 10

// fields lists the fields of a KubeletConfiguration that bear on the partition. Of all other fields
// only the names are kept.
var fields = set(`
	apiVersion kind systemPartition workloadPartitions cgroupDriver cgroupRoot cgroupsPerQOS kubeReserved
	systemReserved kubeReservedCgroup systemReservedCgroup enforceNodeAllocatable reservedSystemCPUs reservedMemory
	cpuManagerPolicy cpuManagerPolicyOptions memoryManagerPolicy topologyManagerPolicy topologyManagerScope
	evictionHard evictionSoft evictionSoftGracePeriod evictionMinimumReclaim evictionMaxPodGracePeriod
	evictionPressureTransitionPeriod featureGates failSwapOn memorySwap memoryThrottlingFactor memoryReservationPolicy
	podPidsLimit maxPods containerRuntimeEndpoint singleProcessOOMKill oomScoreAdj kubeletCgroups systemCgroups
	staticPodPath shutdownGracePeriod shutdownGracePeriodCriticalPods`)

// section lists the fields of the section of a partition.
var section = set(`
	namespaces memoryLimit memoryLimitMin memoryLimitMax memoryHigh cpuset exclusive evictionHard evictionSoft
	evictionSoftGracePeriod evictionMinimumReclaim evictionMaxPodGracePeriod partition allowedNamespaces
	namespaceAnnotation advertise`)

// flags lists the flags of a kubelet that bear on the partition.
var flags = set(`
	config config-dir cgroup-driver cgroup-root cgroups-per-qos reserved-cpus kube-reserved system-reserved
	kube-reserved-cgroup system-reserved-cgroup enforce-node-allocatable eviction-hard eviction-soft feature-gates
	container-runtime-endpoint root-dir hostname-override cpu-manager-policy memory-manager-policy fail-swap-on
	runtime-cgroups kubelet-cgroups max-pods pod-max-pids kubeconfig bootstrap-kubeconfig v`)

// value is the shape of a value in these fields and flags: a quantity, a duration, a list of CPUs,
// a path, a name or a list of pairs of those.
var value = pattern(`^[A-Za-z0-9/][A-Za-z0-9.,:/%=_<-]{0,199}$`)

// fieldName is the shape of a name of a field or a feature gate, and of a key of settings.
var fieldName = pattern(`^[A-Za-z][A-Za-z_-]{0,63}$`)

// flagName is the shape of a name of a flag. A key that begins with a dash has capital letters.
var flagName = pattern(`^[a-z][a-z0-9_.-]{0,39}$`)

// key returns the name of a field or the key of a map, or leftOut.
func key(name string) string {
	if fieldName().MatchString(name) {
		return name
	}
	if _, ok := known(name); ok {
		return name
	}
	return leftOut
}

// kubeletFiles returns the files that may be the kubelet's configuration, redacted.
func kubeletFiles(root hostfs.FS) map[string]any {
	config, _ := kubeletconfig.Load(root) // the check reports the error
	files := map[string]any{}
	for _, looked := range config.Looked {
		if data, err := root.ReadFile(looked.Path, maxConfig); err == nil {
			files[looked.Path] = document(data)
		}
	}
	return files
}

// document returns a KubeletConfiguration with the values of the fields that bear on the partition.
// Of a document that is something else, it returns its size alone: with kubeadm a kubeconfig is at
// one of the paths.
func document(data []byte) any {
	var whole map[string]any
	if err := yaml.Unmarshal(data, &whole); err != nil {
		return map[string]any{"not YAML or JSON, bytes": len(data)}
	}
	if whole["kind"] != "KubeletConfiguration" {
		return map[string]any{"not a KubeletConfiguration, bytes": len(data)}
	}
	return object(whole, fields)
}

// object returns the fields of an object that are allowed, and leftOut for the others.
func object(whole map[string]any, allowed map[string]bool) map[string]any {
	out := map[string]any{}
	for name, v := range whole {
		switch {
		case name == kubeletconfig.SectionField && allowed[name]:
			if inner, ok := v.(map[string]any); ok {
				out[name] = object(inner, section)
				continue
			}
			out[name] = leftOut
		case name == kubeletconfig.WorkloadsField && allowed[name]:
			out[name] = workloads(v)
		case allowed[name]:
			out[name] = leaf(v)
		default:
			out[key(name)] = leftOut
		}
	}
	return out
}

// workloads returns the sections of partitions by their names.
func workloads(v any) any {
	inner, ok := v.(map[string]any)
	if !ok {
		return leftOut
	}
	out := map[string]any{}
	for name, of := range inner {
		fields, ok := of.(map[string]any)
		switch {
		case unitname.PartitionName(name).Check() != nil:
			out[leftOut] = leftOut
		case ok:
			out[name] = object(fields, section)
		default:
			out[name] = leftOut
		}
	}
	return out
}

// leaf returns a value if its strings have the shape of one.
func leaf(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" || plain(v) {
			return v
		}
		return leftOut
	case []any:
		out := make([]any, 0, len(v))
		for _, element := range v {
			out = append(out, leaf(element))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, element := range v {
			out[key(name)] = leaf(element)
		}
		return out
	}
	return v // a number, a boolean, nothing
}

// plain reports whether a string has the shape of a value, and each of its parts the shape of a
// harmless word.
func plain(v string) bool {
	if !value().MatchString(strings.TrimPrefix(v, "unix://")) {
		return false
	}
	for part := range strings.FieldsFuncSeq(strings.TrimPrefix(v, "unix://"), func(r rune) bool { return strings.ContainsRune(",=<:", r) }) {
		if _, ok := known(part); !ok {
			return false
		}
	}
	return true
}

// kubeletFlags returns the flags of the running kubelet.
func kubeletFlags(root hostfs.FS) any {
	kubelet, err := kubeletargs.Running(root)
	if err != nil {
		return map[string]string{"error": text(err.Error())}
	}
	return commandLine(kubelet.Args[1:], flags)
}

// commandLine returns flags with their values, if these flags are allowed, and the names of the
// others. An argument that is not a flag may be the value of the flag before it, and is treated so.
func commandLine(args []string, allowed map[string]bool) []string {
	out := []string{}
	named := ""
	for _, arg := range args {
		name, v, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case strings.HasPrefix(arg, "-") && flagName().MatchString(name):
			named = ""
			switch {
			case !has:
				out = append(out, "--"+name)
				named = name
			case allowed[name]:
				out = append(out, "--"+name+"="+flagValue(v))
			default:
				out = append(out, "--"+name+"="+leftOut)
			}
		case named != "" && allowed[named]:
			out = append(out, flagValue(arg))
			named = ""
		default:
			out = append(out, leftOut)
			named = ""
		}
	}
	return out
}

func flagValue(v string) string {
	if v == "" || plain(v) {
		return v
	}
	return leftOut
}

// ourFlags lists the flags of partition-monitor run. None has a secret.
var ourFlags = set(strings.Join(options.Names(), " "))

// settingNames lists the settings in /etc/default/node-partition.
var settingNames = append([]string{
	"KUBELET_CONFIG", "KUBELET_CONFIG_DIR", "WORKLOAD_PINNING", kubeletconfig.SystemCPUsKey,
}, kubeletconfig.ServiceSettings{}.Keys()...)

// settings returns the settings of both programs.
func settings(root hostfs.FS) map[string]any {
	out := map[string]any{}
	data, err := root.ReadFile(kubeletconfig.SettingsPath, maxConfig)
	if err != nil {
		return map[string]any{"error": text(err.Error())}
	}
	for line := range strings.Lines(string(data)) {
		key, v, ok := strings.Cut(strings.TrimSpace(line), "=")
		v = strings.Trim(v, `"'`)
		switch {
		case !ok || strings.HasPrefix(key, "#") || !fieldName().MatchString(key):
		case slices.Contains(settingNames, key):
			out[key] = flagValue(v)
		case key == "PARTITION_MONITOR_ARGS":
			out[key] = commandLine(strings.Fields(v), ourFlags)
		default:
			out[key] = leftOut
		}
	}
	return out
}

// secrets returns secrets that the node's files hold. They are removed from everything once more.
func secrets(root hostfs.FS, kubeconfigs []string) []string {
	var found []string
	for _, path := range kubeconfigs {
		data, err := root.ReadFile(path, 1<<20)
		var config struct {
			Users []struct {
				User map[string]any `json:"user"`
			} `json:"users"`
		}
		if err != nil || yaml.Unmarshal(data, &config) != nil {
			continue
		}
		for _, user := range config.Users {
			found = append(found, strs(user.User)...)
		}
	}
	config, _ := kubeletconfig.Load(root)
	for _, looked := range config.Looked {
		var whole struct {
			Header map[string]any `json:"staticPodURLHeader"`
			URL    string         `json:"staticPodURL"`
		}
		if data, err := root.ReadFile(looked.Path, maxConfig); err == nil && yaml.Unmarshal(data, &whole) == nil {
			found = append(append(found, strs(whole.Header)...), whole.URL)
		}
	}
	return slices.DeleteFunc(found, func(s string) bool {
		return len(s) < 8 || strings.HasPrefix(s, "/") // the path of a certificate
	})
}

// strs returns the strings in a value.
func strs(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, element := range v {
			all = append(all, strs(element)...)
		}
		return all
	case map[string]any:
		var all []string
		for _, element := range v {
			all = append(all, strs(element)...)
		}
		return all
	}
	return nil
}

// encode returns v as JSON.
func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// sanitize returns a JSON document whose strings have gone through text. Names of fields are ours.
func sanitize(data []byte) ([]byte, error) {
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	return encode(clean(whole))
}

func clean(v any) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = clean(v[name])
		}
	}
	return v
}
