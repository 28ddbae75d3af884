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

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// SettingsPath holds the settings that partition-generator and partition-monitor share, as
// KEY=value.
const SettingsPath = "/etc/default/node-partition"

// maxSettingsBytes bounds SettingsPath. Three short lines are expected.
const maxSettingsBytes = 64 << 10

// The settings of SettingsPath but that of the monitor's options.
const (
	// fileKey is the kubelet's main configuration file, and dirKey its drop-in directory. Without them
	// the well-known places are read.
	fileKey = "KUBELET_CONFIG"
	dirKey  = "KUBELET_CONFIG_DIR"
	// pinningKey is the path of OpenShift's pinning file, or pinningNone.
	pinningKey  = "WORKLOAD_PINNING"
	pinningNone = "none"

	// SliceKey is the slice to run the services of the kubelet and of the container runtime in, and
	// CPUsKey their CPUs.
	SliceKey          = "SERVICES_SLICE"
	CPUsKey           = "SERVICES_CPUS"
	OOMScoreAdjustKey = "SERVICES_OOM_SCORE_ADJUST"
	DelegateKey       = "SERVICES_DELEGATE"
	// ServicesMemoryMinKey and ServicesMemoryLowKey are the protected memory of that slice, and
	// CPUWeightKey is its weight.
	ServicesMemoryMinKey = "SERVICES_MEMORY_MIN"
	ServicesMemoryLowKey = "SERVICES_MEMORY_LOW"
	CPUWeightKey         = "SERVICES_CPU_WEIGHT"

	// PartitionMemoryMinKey and PartitionMemoryLowKey are the protected memory of the system
	// partition, and SwapMaxKey is the swap space that it may use.
	PartitionMemoryMinKey = "PARTITION_MEMORY_MIN"
	PartitionMemoryLowKey = "PARTITION_MEMORY_LOW"
	SwapMaxKey            = "PARTITION_SWAP_MAX"
	// WatchKey is the setting for those who want an edit to be applied by a reload alone.
	WatchKey = "PARTITION_WATCH"
	// WatchOff is the value of WatchKey that switches watching off.
	WatchOff = "no"

	// SystemCPUsKey is the CPUs of system.slice, user.slice and init.scope.
	SystemCPUsKey = "SYSTEM_CPUS"

	// IRQPrefix begins settings for interrupts of devices, which are not ours.
	IRQPrefix = "IRQ_"
)

// SettingKeys lists the settings that change units, or how they come into force.
func SettingKeys() []string {
	return []string{
		SliceKey, CPUsKey, OOMScoreAdjustKey, DelegateKey, ServicesMemoryMinKey, ServicesMemoryLowKey, CPUWeightKey,
		PartitionMemoryMinKey, PartitionMemoryLowKey, SwapMaxKey, WatchKey, SystemCPUsKey,
	}
}

// KnownKeys lists the keys of SettingsPath: those of SettingKeys, and the paths.
func KnownKeys() []string { return append(SettingKeys(), fileKey, dirKey, pinningKey) }

// Settings holds the values of SettingsPath by their keys, also of keys that are not known and
// begin as one of ours. Only paths are validated.
type Settings map[string]string

// Watches reports whether a change of OverridePath is applied when it comes.
func (s Settings) Watches() bool { return s[WatchKey] != WatchOff }

// Unknown lists the keys that are not known, by name.
func (s Settings) Unknown() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(key string) bool {
		return slices.Contains(KnownKeys(), key)
	})
}

// readSettings reads SettingsPath. A missing file means no settings. With an error, which joins one
// for each line that is wrong, it returns the others: a typo in a line for services must not hide
// the kubelet's configuration.
func readSettings(root host.Root) (Settings, error) {
	data, err := root.ReadFile(SettingsPath, maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseSettings(data)
}

func parseSettings(data []byte) (Settings, error) {
	s, err := parseLines(data,
		fileKey, pinningKey, "SERVICES_", "PARTITION_MEMORY", "PARTITION_SWAP", WatchKey, "SYSTEM_", IRQPrefix)
	if dir := s[dirKey]; len(dir) > 1 {
		s[dirKey] = strings.TrimSuffix(dir, "/")
	}
	for _, of := range []struct{ key, or string }{{fileKey, ""}, {dirKey, ""}, {pinningKey, pinningNone}} {
		value, want := s[of.key], `an absolute path without "..", of letters, digits and /._@:+,=~-`
		if value == "" || value == of.or || partition.IsPlainPath(value) && path.Clean(value) == value {
			continue
		}
		if of.or != "" {
			want = of.or + ", or " + want
		}
		err = errors.Join(err, fmt.Errorf("%s: %s: %s is not a path that a unit can contain; want %s",
			SettingsPath, of.key, text.Quote(value), want))
		delete(s, of.key)
	}
	return s, err
}

// parseLines parses the lines whose keys begin with one of the prefixes. Errors in lines of other
// settings are not ours to report.
func parseLines(data []byte, prefixes ...string) (Settings, error) {
	s, number := Settings{}, 0
	var problems []error
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return bytes.HasPrefix(line, []byte(prefix)) }) {
			continue
		}
		one, err := envparse.Parse(bytes.NewReader(line))
		if parse := new(envparse.ParseError); errors.As(err, &parse) {
			problems = append(problems, fmt.Errorf("%s: error on line %d: %w; want lines of KEY=value", SettingsPath, number, parse.Err))
		}
		maps.Copy(s, one)
	}
	return s, errors.Join(problems...)
}
