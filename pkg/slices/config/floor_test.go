package config

import (
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

// TestNewPartitionSettings: amounts in whole pages. 0 is a bound for swap, and no floor.
func TestNewPartitionSettings(t *testing.T) {
	t.Parallel()
	type settings = kubeletconfig.PartitionSettings
	for _, test := range []struct {
		settings settings
		floor    Floor
		swap     int64  // -1 for none
		wrong    string // a part of the error
	}{
		{settings{}, Floor{}, -1, ""},
		{settings{MemoryMin: "256Mi", MemoryLow: "1Gi"}, Floor{256 << 20, 1 << 30}, -1, ""},
		{settings{MemoryMin: "0", MemoryLow: "1"}, Floor{}, -1, ""},
		{settings{MemoryMin: "1048577", SwapMax: "0"}, Floor{Min: 1 << 20}, 0, ""},
		{settings{SwapMax: "1Gi"}, Floor{}, 1 << 30, ""},
		{settings{SwapMax: "max"}, Floor{}, 0, "or 0 for no swap"},
		{settings{SwapMax: "-1"}, Floor{}, 0, "must not be negative"},
		{settings{MemoryMin: "25%"}, Floor{}, 0, "is not a quantity"},
		{settings{MemoryLow: "9223372036854775808"}, Floor{}, 0, "is beyond 2^63-1 bytes"},
	} {
		got, err := newPartitionSettings(test.settings)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %v, want %q", test.settings, err, test.wrong)
			continue
		}
		swap := int64(-1)
		if got.SwapMax != nil {
			swap = *got.SwapMax
		}
		if err == nil && (got.Floor != test.floor || swap != test.swap) {
			t.Errorf("%+v: %+v, swap %d; want %+v, %d", test.settings, got.Floor, swap, test.floor, test.swap)
		}
	}
	_, err := newPartitionSettings(settings{MemoryMin: "a", MemoryLow: "b", SwapMax: "c"})
	if got := len(Problems(err)); got != 3 {
		t.Errorf("%d problems, want all 3: %v", got, err)
	}
}

// TestLimitFloor: a floor may be as large as the limit, and any size without one. A larger one is
// lowered to the limit in whole pages.
func TestLimitFloor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit       int64
		floor, want Floor
		warnings    int
	}{
		{1 << 30, Floor{1 << 30, 1 << 30}, Floor{1 << 30, 1 << 30}, 0},
		{1 << 30, Floor{1<<30 + 4096, 0}, Floor{1 << 30, 0}, 1},
		{1<<30 + 5, Floor{2 << 30, 3 << 30}, Floor{1 << 30, 1 << 30}, 2},
		{0, Floor{2 << 30, 2 << 30}, Floor{2 << 30, 2 << 30}, 0},
	} {
		c, p := Config{Kubelet: &kubeletconfig.Merged{}}, Partition{MemoryLimit: test.limit}
		p.Floor = test.floor
		warnings := 0
		c.limitFloor(&p, func(string, string, ...any) { warnings++ })
		if got := p.Floor; got != test.want || warnings != test.warnings {
			t.Errorf("limit %d, floor %+v: %+v with %d warnings, want %+v with %d",
				test.limit, test.floor, got, warnings, test.want, test.warnings)
		}
	}
}

// TestPlaceFloorsTiny: a unit that is missing gets a warning: less than a page protects nothing.
func TestPlaceFloorsTiny(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "0": false, "1Mi": false, "256Mi": false, "256": true, "1048575": true, "512k": true} {
		c := Config{Partitions: []Partition{{Name: unitname.First}}, Kubelet: &kubeletconfig.Merged{
			Partition: kubeletconfig.PartitionSettings{MemoryMin: value, MemoryLow: value, SwapMax: value},
			Services:  kubeletconfig.ServiceSettings{MemoryMin: value, MemoryLow: value},
		}}
		c.placeFloors(hostfs.FS(t.TempDir()), PartitionSettings{})
		for _, key := range []string{"PARTITION_MEMORY_MIN", "PARTITION_MEMORY_LOW", "PARTITION_SWAP_MAX", "SERVICES_MEMORY_MIN", "SERVICES_MEMORY_LOW"} {
			found := slices.ContainsFunc(c.Warnings, func(w string) bool {
				return strings.Contains(w, key+": ") && strings.Contains(w, "is a unit such as Mi missing?")
			})
			if found != want {
				t.Errorf("%s=%s: warned %t, want %t: %q", key, value, found, want, c.Warnings)
			}
		}
	}
}

// TestPlaceFloorsLow: memory.low has no effect up to memory.min, and a warning says so.
func TestPlaceFloorsLow(t *testing.T) {
	t.Parallel()
	for low, want := range map[uint64]bool{0: false, 32 << 20: true, 64 << 20: true, 64<<20 + 4096: false} {
		c := Config{Partitions: []Partition{{Name: unitname.First}}, Kubelet: &kubeletconfig.Merged{}}
		c.placeFloors(hostfs.FS(t.TempDir()), PartitionSettings{Floor: Floor{Min: 64 << 20, Low: low}})
		found := slices.ContainsFunc(c.Warnings, func(w string) bool {
			return strings.Contains(w, "PARTITION_MEMORY_LOW: does nothing: it is not above the 67108864 bytes")
		})
		if found != want {
			t.Errorf("memory.low %d: warned %t, want %t: %q", low, found, want, c.Warnings)
		}
	}
}
