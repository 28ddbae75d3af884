package config

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
)

// readSettings reads settings, "KEY=value KEY=value", of a node with a partition of that limit. It
// returns the partition, too.
func readSettings(t *testing.T, text string, limit uint64, reserved ...ReservedSlice) (*Config, *Partition, error) {
	t.Helper()
	c := &Config{
		Partitions: []Partition{{Name: partition.First, Thresholds: thresholds.Thresholds{Limit: limit}, CPUs: cpuset.New(1)}},
		Kubelet:    &kubeletconfig.Merged{Settings: kubeletconfig.Settings{}},
		Reserved:   Reserved{Slices: reserved},
	}
	for setting := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(setting, "=")
		c.Kubelet.Settings[key] = strings.ReplaceAll(value, "+", " ")
	}
	err := c.settings(host.Root(t.TempDir()), false)
	return c, &c.Partitions[0], err
}

// TestSettingsServices: the settings for services are validated.
func TestSettingsServices(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]string{
		"SERVICES_SLICE=kubernetes.slice":      "",
		"SERVICES_SLICE=kube-services.slice":   "",
		"SERVICES_SLICE=kubernetes":            "is not the name of a slice",
		"SERVICES_SLICE=/kubernetes.slice":     "is not the name of a slice",
		"SERVICES_SLICE=a.slice/a-b.slice":     "is not the name of a slice",
		"SERVICES_SLICE=kubelet.service":       "is not the name of a slice",
		"SERVICES_SLICE=a+b.slice":             "letters, digits",
		"SERVICES_SLICE=-.slice":               "is the root of all cgroups",
		"SERVICES_SLICE=kubepods.slice":        "for pods",
		"SERVICES_SLICE=kubepods-system.slice": "for pods",
		"SERVICES_SLICE=system.slice":          "for other services",
		"SERVICES_SLICE=user-1.slice":          "for other services or for users",
		"SERVICES_CPUS=partition":              "",
		"SERVICES_CPUS=0-1":                    "want partition",
		"SERVICES_OOM_SCORE_ADJUST=-1000":      "",
		"SERVICES_OOM_SCORE_ADJUST=0":          "",
		"SERVICES_OOM_SCORE_ADJUST=-1001":      "from -1000 to 0",
		"SERVICES_OOM_SCORE_ADJUST=1":          "from -1000 to 0",
		"SERVICES_OOM_SCORE_ADJUST=low":        "from -1000 to 0",
		"SERVICES_DELEGATE=yes":                "",
		"SERVICES_DELEGATE=no":                 "",
		"SERVICES_DELEGATE=on":                 "neither yes nor no",
		"SERVICES_SLICE=a.slice SERVICES_MEMORY_MIN=1Gi SERVICES_MEMORY_LOW=2Gi SERVICES_CPU_WEIGHT=10000": "",
		"SERVICES_SLICE=a.slice SERVICES_CPU_WEIGHT=1":                                                     "",
		"SERVICES_SLICE=a.slice SERVICES_CPU_WEIGHT=10001":                                                 "from 1 to 10000",
		"SERVICES_SLICE=a.slice SERVICES_CPU_WEIGHT=0":                                                     "from 1 to 10000",
		"SERVICES_SLICE=a.slice SERVICES_MEMORY_MIN=-1":                                                    "must not be negative",
		"SERVICES_SLICE=a.slice SERVICES_MEMORY_LOW=2+GB":                                                  "is not a quantity",
		"SERVICES_MEMORY_MIN=1Gi":                                                                          "want SERVICES_SLICE too",
		"SERVICES_MEMORY_LOW=1Gi":                                                                          "want SERVICES_SLICE too",
		"SERVICES_CPU_WEIGHT=1":                                                                            "want SERVICES_SLICE too",
		"SERVICES_SLICE=system-kube.slice":                                                                 "",
		"SERVICES_SLICE=system-kube.slice SERVICES_CPU_WEIGHT=1":                                           "want a slice outside of it",
		"SERVICES_SLICE=system-kube.slice SERVICES_MEMORY_MIN=1Gi":                                         "want a slice outside of it",
		"SERVICES_SLICE=system-kube.slice SERVICES_MEMORY_LOW=1Gi":                                         "want a slice outside of it",
		"SERVICES_SLICE=systems-kube.slice SERVICES_MEMORY_LOW=1Gi":                                        "",
		"PARTITION_WATCH=never":                                                                            "neither yes nor no",
		"SYSTEM_CPUS=0-1":                                                                                  "want partition",
	} {
		c, _, err := readSettings(t, text, 0)
		if !matches(err, wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
		if got, changes := c.Services, err == nil && text != "SERVICES_DELEGATE=no"; got.IsZero() == changes {
			t.Errorf("%s: %+v changes nothing: %t", text, got, got.IsZero())
		}
		if slice, _, _ := strings.Cut(strings.TrimPrefix(text, "SERVICES_SLICE="), " "); err == nil && slice != text && c.Services.Slice != slice {
			t.Errorf("%s: the slice is %q", text, c.Services.Slice)
		}
	}
	_, _, err := readSettings(t, "SERVICES_SLICE=a SERVICES_CPUS=a SERVICES_OOM_SCORE_ADJUST=a SERVICES_DELEGATE=a PARTITION_MEMORY_MIN=a "+
		"PARTITION_MEMORY_LOW=b PARTITION_SWAP_MAX=c", 0)
	if got := len(Problems(err)); got != 7 {
		t.Errorf("%d problems, want all 7: %v", got, err)
	}
}

// TestSettingsPartition: amounts in whole pages. 0 is a bound for swap, and protects nothing.
// Memory may be protected up to the limit, and any amount without one. A larger one is lowered to
// the limit in whole pages. memory.low has no effect up to memory.min.
func TestSettingsPartition(t *testing.T) {
	t.Parallel()
	type protection = cgroups.Protection
	for _, test := range []struct {
		settings string
		limit    uint64
		want     protection
		swap     int64  // -1 for none
		says     string // a part of the error, or of a warning
		warnings int
	}{
		{"", 0, protection{}, -1, "", 0},
		{"PARTITION_MEMORY_MIN=256Mi PARTITION_MEMORY_LOW=1Gi", 0, protection{Min: 256 << 20, Low: 1 << 30}, -1, "", 0},
		{"PARTITION_MEMORY_MIN=1048577 PARTITION_SWAP_MAX=0", 0, protection{Min: 1 << 20}, 0, "", 0},
		{"PARTITION_SWAP_MAX=1Gi", 0, protection{}, 1 << 30, "", 0},
		{"PARTITION_SWAP_MAX=9223372036854775807", 0, protection{}, -1, "", 0},
		{"PARTITION_SWAP_MAX=max", 0, protection{}, -1, "or 0 for no swap", 0},
		{"PARTITION_SWAP_MAX=-1", 0, protection{}, -1, "must not be negative", 0},
		{"PARTITION_MEMORY_MIN=25%", 0, protection{}, -1, "is not a quantity", 0},
		{"PARTITION_MEMORY_LOW=9223372036854775808", 0, protection{}, -1, "is beyond 2^63-1 bytes", 0},
		{"PARTITION_MEMORY_MIN=1Gi", 1 << 30, protection{Min: 1 << 30}, -1, "", 0},
		{"PARTITION_MEMORY_MIN=1073745920", 1 << 30, protection{Min: 1 << 30}, -1, "protecting that, 1073741824 bytes", 1},
		{"PARTITION_MEMORY_MIN=2Gi PARTITION_MEMORY_LOW=3Gi", 1<<30 + 5, protection{Min: 1 << 30, Low: 1 << 30}, -1, "protecting that, 1073741824 bytes", 3},
		{"PARTITION_MEMORY_MIN=64Mi PARTITION_MEMORY_LOW=32Mi", 0, protection{Min: 64 << 20, Low: 32 << 20}, -1, "not above the 67108864 bytes", 1},
		{"PARTITION_MEMORY_MIN=64Mi PARTITION_MEMORY_LOW=64Mi", 0, protection{Min: 64 << 20, Low: 64 << 20}, -1, "not above the 67108864 bytes", 1},
		{"PARTITION_MEMORY_MIN=64Mi PARTITION_MEMORY_LOW=65Mi", 0, protection{Min: 64 << 20, Low: 65 << 20}, -1, "", 0},
	} {
		c, p, err := readSettings(t, test.settings, test.limit)
		swap := int64(-1)
		if p.SwapMax != nil {
			swap = int64(*p.SwapMax)
		}
		if err == nil && (p.Protection != test.want || swap != test.swap) {
			t.Errorf("%s: %+v, swap %d; want %+v, %d", test.settings, p.Protection, swap, test.want, test.swap)
		}
		said := strings.Join(c.Warnings, "; ")
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, test.says) || len(c.Warnings) != test.warnings || (err == nil) != (test.warnings > 0 || test.says == "") {
			t.Errorf("%s: %q, %v; want %q", test.settings, c.Warnings, err, test.says)
		}
	}
}

// TestSettingsTiny: a unit that is missing gets a warning: less than a page protects nothing.
func TestSettingsTiny(t *testing.T) {
	t.Parallel()
	keys := []string{"PARTITION_MEMORY_MIN", "PARTITION_MEMORY_LOW", "PARTITION_SWAP_MAX", "SERVICES_MEMORY_MIN", "SERVICES_MEMORY_LOW"}
	for value, want := range map[string]bool{"": false, "0": false, "1Mi": false, "256Mi": false, "256": true, "1048575": true, "512k": true} {
		c, _, err := readSettings(t, "SERVICES_SLICE=a.slice "+strings.Join(keys, "="+value+" ")+"="+value, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			found := slices.ContainsFunc(c.Warnings, func(w string) bool {
				return strings.Contains(w, key+": ") && strings.Contains(w, "is a unit such as Mi missing?")
			})
			if found != want {
				t.Errorf("%s=%s: warned %t, want %t: %q", key, value, found, want, c.Warnings)
			}
		}
	}
}

// TestSettingsUnknown: each setting that is not known has a warning with those of its kind.
func TestSettingsUnknown(t *testing.T) {
	t.Parallel()
	c, _, err := readSettings(t, "SERVICES_SLICES=a.slice SYSTEM_CPU=partition IRQ_CPUS=1 KUBELET_CONFIG_DIRS=/a WORKLOAD_PINNINGS=none", 0)
	for i, want := range []string{
		"IRQ_CPUS: unknown setting, ignoring; docs/cgroups.md",
		"KUBELET_CONFIG_DIRS: unknown setting, ignoring; known are KUBELET_CONFIG, KUBELET_CONFIG_DIR",
		"SERVICES_SLICES: unknown setting, ignoring; known are SERVICES_SLICE, SERVICES_CPUS, ",
		"SYSTEM_CPU: unknown setting, ignoring; known are SYSTEM_CPUS",
		"WORKLOAD_PINNINGS: unknown setting, ignoring; known are WORKLOAD_PINNING",
	} {
		if err != nil || len(c.Warnings) != 5 || !strings.Contains(c.Warnings[i], want) {
			t.Errorf("%q, %v; want %s", c.Warnings, err, want)
		}
	}
}

// TestSettingsBroken: with a broken section it is not known whether a setting does anything.
func TestSettingsBroken(t *testing.T) {
	t.Parallel()
	c := &Config{Kubelet: &kubeletconfig.Merged{Settings: kubeletconfig.Settings{
		"PARTITION_MEMORY_MIN": "1Gi", "SYSTEM_CPUS": "partition", "SERVICES_SLICES": "a.slice",
	}}}
	err := c.settings(host.Root(t.TempDir()), true)
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "SERVICES_SLICES: unknown setting") {
		t.Errorf("%q, %v; want the unknown setting alone", c.Warnings, err)
	}
}

// TestSettingsWeight: the kubelet's weight wins in the slice of the services, and in one above it.
func TestSettingsWeight(t *testing.T) {
	t.Parallel()
	for reserved, want := range map[string]bool{"kube.slice": true, "kube-services.slice": true, "kube-other.slice": false, "ku.slice": false} {
		c, _, err := readSettings(t, "SERVICES_SLICE=kube-services.slice SERVICES_CPU_WEIGHT=500", 0,
			ReservedSlice{Name: reserved, For: "system-reserved", File: "/config"})
		if got := len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "SERVICES_CPU_WEIGHT: the kubelet gives "+reserved); err != nil || got != want {
			t.Errorf("%s: %q, %v, want a warning: %t", reserved, c.Warnings, err, want)
		}
	}
}
