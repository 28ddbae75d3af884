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
	// Unknown is the first setting PARTITION_MEMORY* or PARTITION_SWAP* that is none of these.
	Unknown string
}

// Keys returns the names of the settings of the partition.
func (PartitionSettings) Keys() []string {
	return []string{PartitionMemoryMinKey, PartitionMemoryLowKey, SwapMaxKey}
}

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

	servicesPrefix        = "SERVICES_"
	partitionMemoryPrefix = "PARTITION_MEMORY"
	partitionSwapPrefix   = "PARTITION_SWAP"
)

// prefixes lists the beginnings of the settings that are read here. Errors in the lines of other
// settings are not ours to report.
var prefixes = []string{"KUBELET_CONFIG", servicesPrefix, partitionMemoryPrefix, partitionSwapPrefix}

// settings holds the content of SettingsPath. Empty paths mean the well-known ones.
type settings struct {
	// ConfigFile is KUBELET_CONFIG, the main configuration file.
	ConfigFile string
	// ConfigDir is KUBELET_CONFIG_DIR, the drop-in directory.
	ConfigDir string
	Services  ServiceSettings
	Partition PartitionSettings
}

// readSettings reads SettingsPath. A missing file means empty settings.
func readSettings(root hostfs.FS) (settings, error) {
	data, err := root.ReadFile(SettingsPath, maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{}, nil
	}
	if err != nil {
		return settings{}, err
	}
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
		return settings{}, fmt.Errorf("%s: %w; want lines of KEY=value", SettingsPath, err)
	}
	s := settings{
		ConfigFile: env["KUBELET_CONFIG"], ConfigDir: env["KUBELET_CONFIG_DIR"],
		Services: ServiceSettings{
			Slice: env[SliceKey], CPUs: env[CPUsKey], OOMScoreAdjust: env[OOMScoreAdjustKey], Delegate: env[DelegateKey],
			MemoryMin: env[ServicesMemoryMinKey], MemoryLow: env[ServicesMemoryLowKey], CPUWeight: env[CPUWeightKey],
		},
		Partition: PartitionSettings{
			MemoryMin: env[PartitionMemoryMinKey], MemoryLow: env[PartitionMemoryLowKey], SwapMax: env[SwapMaxKey],
		},
	}
	keys := slices.Sorted(maps.Keys(env))
	s.Services.Unknown = unknown(keys, s.Services.Keys(), servicesPrefix)
	s.Partition.Unknown = unknown(keys, s.Partition.Keys(), partitionMemoryPrefix, partitionSwapPrefix)
	if len(s.ConfigDir) > 1 {
		s.ConfigDir = strings.TrimSuffix(s.ConfigDir, "/")
	}
	for _, setting := range []struct{ key, value string }{
		{"KUBELET_CONFIG", s.ConfigFile},
		{"KUBELET_CONFIG_DIR", s.ConfigDir},
	} {
		if setting.value == "" {
			continue
		}
		if !unitpath.IsPlain(setting.value) || path.Clean(setting.value) != setting.value {
			return settings{}, fmt.Errorf("%s: %s: %s is not a path that a unit can contain; want an absolute path without "+
				"\"..\", of letters, digits and /._@:+,=~-", SettingsPath, setting.key, oneline.Quote(setting.value))
		}
	}
	return s, nil
}

// unknown returns the first of keys that begins with one of the prefixes and is not in known. It
// returns "" if there is none.
func unknown(keys, known []string, prefixes ...string) string {
	for _, key := range keys {
		ours := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if ours && !slices.Contains(known, key) {
			return key
		}
	}
	return ""
}
