package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/go-envparse"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/unitpath"
)

// SettingsPath holds the settings that partition-generator and partition-monitor share, as
// KEY=value.
const SettingsPath = "/etc/default/node-partition"

// maxSettingsBytes bounds SettingsPath. Three short lines are expected.
const maxSettingsBytes = 64 << 10

// ServiceSettings holds the settings for the services of the kubelet and of the container runtime.
// Empty fields mean that the services stay as they are.
type ServiceSettings struct {
	// Slice is SERVICES_SLICE, the slice to run them in.
	Slice string
	// CPUs is SERVICES_CPUS, the CPUs to run them on.
	CPUs string
	// OOMScoreAdjust is SERVICES_OOM_SCORE_ADJUST.
	OOMScoreAdjust string
	// Delegate is SERVICES_DELEGATE.
	Delegate string
	// MemoryMin is SERVICES_MEMORY_MIN and MemoryLow SERVICES_MEMORY_LOW, the protected memory of that
	// slice.
	MemoryMin, MemoryLow string
	// CPUWeight is SERVICES_CPU_WEIGHT, the weight of that slice.
	CPUWeight string
	// Unknown is the first setting SERVICES_* that is none of these.
	Unknown string
}

// Keys returns the names of the settings for services.
func (ServiceSettings) Keys() []string {
	return []string{
		SliceKey, CPUsKey, OOMScoreAdjustKey, DelegateKey, ServicesMemoryMinKey, ServicesMemoryLowKey, CPUWeightKey,
	}
}

// PartitionSettings holds the settings of the partition that its section has no field for. Empty
// fields change nothing.
type PartitionSettings struct {
	// MemoryMin is PARTITION_MEMORY_MIN and MemoryLow PARTITION_MEMORY_LOW, its protected memory.
	MemoryMin, MemoryLow string
	// SwapMax is PARTITION_SWAP_MAX, the swap space that it may use.
	SwapMax string
	// Watch is PARTITION_WATCH, whether a change of OverridePath is applied when it comes.
	Watch string
	// Unknown is the first setting PARTITION_MEMORY*, PARTITION_SWAP* or PARTITION_WATCH* that is none
	// of these.
	Unknown string
}

// Keys returns the names of the settings of the partition.
func (PartitionSettings) Keys() []string {
	return []string{PartitionMemoryMinKey, PartitionMemoryLowKey, SwapMaxKey, WatchKey}
}

// WatchOff is the value of WatchKey that switches watching off.
const WatchOff = "no"

// Watches reports whether a change of OverridePath is applied when it comes.
func (s PartitionSettings) Watches() bool { return s.Watch != WatchOff }

// HostSettings holds the settings for what is neither a pod nor a service of the kubelet. Empty
// fields change nothing.
type HostSettings struct {
	// CPUs is SYSTEM_CPUS, the CPUs of system.slice, user.slice and init.scope.
	CPUs string `json:",omitempty"`
	// IRQCPUs is IRQ_CPUS, the CPUs that interrupts of devices are kept off.
	IRQCPUs string `json:",omitempty"`
	// Unknown is the first setting SYSTEM_* or IRQ_* that is none of these.
	Unknown string `json:",omitempty"`
}

// Keys returns the names of the settings.
func (HostSettings) Keys() []string { return []string{SystemCPUsKey, IRQCPUsKey} }

// The settings for services and of the partition.
const (
	SliceKey             = "SERVICES_SLICE"
	CPUsKey              = "SERVICES_CPUS"
	OOMScoreAdjustKey    = "SERVICES_OOM_SCORE_ADJUST"
	DelegateKey          = "SERVICES_DELEGATE"
	ServicesMemoryMinKey = "SERVICES_MEMORY_MIN"
	ServicesMemoryLowKey = "SERVICES_MEMORY_LOW"
	CPUWeightKey         = "SERVICES_CPU_WEIGHT"

	PartitionMemoryMinKey = "PARTITION_MEMORY_MIN"
	PartitionMemoryLowKey = "PARTITION_MEMORY_LOW"
	SwapMaxKey            = "PARTITION_SWAP_MAX"
	// WatchKey is the setting for those who want an edit to be applied by a reload alone.
	WatchKey = "PARTITION_WATCH"

	// SystemCPUsKey is the setting for what is neither a pod nor a service of the kubelet.
	SystemCPUsKey = "SYSTEM_CPUS"
	// IRQCPUsKey is the setting for interrupts of devices.
	IRQCPUsKey = "IRQ_CPUS"

	systemPrefix          = "SYSTEM_"
	irqPrefix             = "IRQ_"
	servicesPrefix        = "SERVICES_"
	partitionMemoryPrefix = "PARTITION_MEMORY"
	partitionSwapPrefix   = "PARTITION_SWAP"
	partitionWatchPrefix  = WatchKey
)

// settings holds the content of SettingsPath. Empty paths mean the well-known ones.
type settings struct {
	// ConfigFile is KUBELET_CONFIG, the main configuration file.
	ConfigFile string
	// ConfigDir is KUBELET_CONFIG_DIR, the drop-in directory.
	ConfigDir string
	// Pinning is WORKLOAD_PINNING, the path of OpenShift's pinning file, or pinningNone.
	Pinning   string
	Services  ServiceSettings
	Partition PartitionSettings
	Host      HostSettings
}

// readSettings reads SettingsPath. A missing file means empty settings. With an error it returns
// the settings that are valid: a typo in a line for services must not hide the kubelet's
// configuration.
func readSettings(root hostfs.FS) (settings, error) {
	data, err := root.ReadFile(SettingsPath, maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{}, nil
	}
	if err != nil {
		return settings{}, err
	}
	var s settings
	var pinningErr error
	s.Pinning, pinningErr = parsePinningPath(data)
	err = errors.Join(s.parsePaths(data), pinningErr, s.Services.parse(data), s.Partition.parse(data), s.Host.parse(data))
	return s, err
}

// parseLines parses the lines whose keys begin with one of the prefixes. Errors in lines of other
// settings are not ours to report.
func parseLines(data []byte, prefixes ...string) (map[string]string, error) {
	var ours bytes.Buffer
	for line := range bytes.Lines(data) {
		l := string(bytes.TrimSpace(line))
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(l, prefix) }) {
			ours.Write(line)
		} else {
			ours.WriteByte('\n') // lines keep their numbers
		}
	}
	env, err := envparse.Parse(&ours)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want lines of KEY=value", SettingsPath, err)
	}
	return env, nil
}

func (s *settings) parsePaths(data []byte) error {
	const file, dir = "KUBELET_CONFIG", "KUBELET_CONFIG_DIR"
	env, err := parseLines(data, file)
	if err != nil {
		return err
	}
	for _, key := range []string{file, dir} {
		value := env[key]
		if key == dir && len(value) > 1 {
			value = strings.TrimSuffix(value, "/")
			env[key] = value
		}
		if value != "" && (!unitpath.IsPlain(value) || path.Clean(value) != value) {
			return fmt.Errorf("%s: %s: %s is not a path that a unit can contain; want an absolute path without "+
				"\"..\", of letters, digits and /._@:+,=~-", SettingsPath, key, oneline.Quote(value))
		}
	}
	s.ConfigFile, s.ConfigDir = env[file], env[dir]
	return nil
}

func (s *ServiceSettings) parse(data []byte) error {
	env, err := parseLines(data, servicesPrefix)
	if err != nil {
		return err
	}
	*s = ServiceSettings{
		Slice: env[SliceKey], CPUs: env[CPUsKey], OOMScoreAdjust: env[OOMScoreAdjustKey], Delegate: env[DelegateKey],
		MemoryMin: env[ServicesMemoryMinKey], MemoryLow: env[ServicesMemoryLowKey], CPUWeight: env[CPUWeightKey],
	}
	s.Unknown = unknown(env, s.Keys())
	return nil
}

func (s *PartitionSettings) parse(data []byte) error {
	env, err := parseLines(data, partitionMemoryPrefix, partitionSwapPrefix, partitionWatchPrefix)
	if err != nil {
		return err
	}
	*s = PartitionSettings{
		MemoryMin: env[PartitionMemoryMinKey], MemoryLow: env[PartitionMemoryLowKey], SwapMax: env[SwapMaxKey],
		Watch: env[WatchKey],
	}
	s.Unknown = unknown(env, s.Keys())
	return nil
}

func (s *HostSettings) parse(data []byte) error {
	env, err := parseLines(data, systemPrefix, irqPrefix)
	if err != nil {
		return err
	}
	*s = HostSettings{CPUs: env[SystemCPUsKey], IRQCPUs: env[IRQCPUsKey]}
	s.Unknown = unknown(env, s.Keys())
	return nil
}

// unknown returns the first key of env that is not in known. It returns "" if there is none.
func unknown(env map[string]string, known []string) string {
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if !slices.Contains(known, key) {
			return key
		}
	}
	return ""
}
