package config

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

const mebi = 1 << 20

// document returns a file for kubeletconfig.OverridePath with these fields in systemPartition.
func document(t *testing.T, fields string) *kubeletconfig.Merged {
	t.Helper()
	k, err := kubeletconfig.LoadDocument("mine.yaml", []byte(golden.KubeletHead+"systemPartition: {namespaces: [kube-system], "+fields+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestShare: a percentage of the memory in whole mebibytes, rounded down, and its bounds exactly.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fields string
		memory uint64
		want   uint64
		bound  string
	}{
		{"memoryLimit: 12%", 2 << 30, 245 * mebi, ""},
		{"memoryLimit: 12%", 4 << 30, 491 * mebi, ""},
		{"memoryLimit: 12%", 8 << 30, 983 * mebi, ""},
		{"memoryLimit: 12.5%", 8 << 30, 1024 * mebi, ""},
		// Exact, whatever the fraction is in binary.
		{"memoryLimit: 12%", 3200 * mebi, 384 * mebi, ""},
		{"memoryLimit: 0.7%", 100000 * mebi, 700 * mebi, ""},
		{"memoryLimit: 99.99%", 1 << 30, 1023 * mebi, ""},
		{"memoryLimit: 12%", 3200*mebi - 4096, 383 * mebi, ""},
		{"memoryLimit: 50%, memoryLimitMin: 1Gi, memoryLimitMax: 2Gi", 1800 * mebi, 1024 * mebi, "memoryLimitMin"},
		{"memoryLimit: 50%, memoryLimitMin: 1Gi, memoryLimitMax: 2Gi", 3000 * mebi, 1500 * mebi, ""},
		{"memoryLimit: 50%, memoryLimitMin: 1Gi, memoryLimitMax: 2Gi", 8 << 30, 2048 * mebi, "memoryLimitMax"},
		{"memoryLimit: 50%, memoryLimitMin: 1Gi, memoryLimitMax: 1Gi", 2 << 30, 1024 * mebi, ""},
		{"memoryLimit: 0.0001%, memoryLimitMin: 100000001", 1 << 30, 100000001, "memoryLimitMin"},
	} {
		c, err := Validate(document(t, test.fields), Size{MemoryBytes: test.memory, CPUs: cpuset.New(0)})
		if err != nil || len(c.Warnings) > 0 {
			t.Errorf("%s of %d: %v, %q", test.fields, test.memory, err, c.Warnings)
			continue
		}
		p := c.System()
		if p.Limit != test.want || p.Share == nil || p.Share.Bound != test.bound || c.PercentageBytes() != test.memory {
			t.Errorf("%s of %d: %d, %+v; want %d by %q", test.fields, test.memory, p.Limit, p.Share, test.want, test.bound)
		}
	}
}

// TestPercentageOfUnknownSize: without the size of a node the form of a share counts, and what
// holds for each. What small nodes refuse is a warning.
func TestPercentageOfUnknownSize(t *testing.T) {
	t.Parallel()
	const (
		bounds  = "memoryLimit: 12%, memoryLimitMin: 300Mi, memoryLimitMax: 2Gi, "
		period  = ", evictionSoftGracePeriod: {memory.available: 1m}"
		atLeast = "on nodes where memoryLimitMin is the limit"
	)
	for fields, want := range map[string]struct{ problem, warning string }{
		`memoryLimit: 12%, memoryHigh: 3500Mi, evictionHard: {memory.available: 1Gi}, cpuset: "0-63"`: {},
		`memoryLimit: 64Ti, cpuset: "5", exclusive: true`:                                             {},
		bounds + `evictionHard: {memory.available: 100Mi}, memoryHigh: 97%`:                           {},
		// Refused on each node.
		`memoryLimit: 12%, memoryLimitMax: 2Gi, memoryHigh: 3500Mi`:  {"is not above zero and below memoryLimit", ""},
		`memoryLimit: 12%, evictionHard: {memory.available: 5 %}`:    {"is not a percentage", ""},
		`memoryLimit: 12%, memoryLimitMin: 3Gi, memoryLimitMax: 2Gi`: {"is above memoryLimitMax", ""},
		`memoryLimit: 1Gi, memoryLimitMin: 3Gi`:                      {"goes with a percentage", ""},
		bounds + `evictionHard: {memory.available: 2Gi}`:             {`.evictionHard[memory.available]: "2Gi": is not below memoryLimit, so that`, ""},
		`memoryLimit: 12%, evictionHard: {memory.available: 60%}, evictionMinimumReclaim: {memory.available: 40%}`: {
			`"40%": with the threshold is not below memoryLimit, so that eviction would not end; want`, "",
		},
		// Warned of on each node.
		`memoryLimit: 12%, evictionSoft: {memory.available: 1Mi}` + period: {
			"", `.evictionSoft: "1Mi": is not above evictionHard, which acts first and at once; want more`,
		},
		`memoryLimit: 12%, evictionHard: {memory.available: 10%}, evictionSoft: {memory.available: 5%}` + period: {
			"", `.evictionSoft: "5%": is not above evictionHard, which acts first and at once; want more`,
		},
		`memoryLimit: 12%, evictionHard: {memory.available: 10%}, memoryHigh: 80%`: {"", `.memoryHigh: "80%": the kernel slows the partition down before a pod is evicted; want more`},
		// On nodes with the least limit.
		bounds + `evictionHard: {memory.available: 300Mi}`: {
			"", `.evictionHard[memory.available]: ` + atLeast + `, the configuration is refused: "300Mi": is not below memoryLimit, so that`,
		},
		bounds + `evictionHard: {memory.available: 200Mi}, evictionMinimumReclaim: {memory.available: 100Mi}`: {
			"", `: "100Mi": with the threshold is not below memoryLimit`,
		},
		// Warned of on nodes of some sizes alone.
		bounds + `evictionHard: {memory.available: 100Mi}, evictionSoft: {memory.available: 10%}` + period: {
			"", `.evictionSoft: ` + atLeast + `: "10%": is not above evictionHard`,
		},
		bounds + `evictionHard: {memory.available: 10%}, evictionSoft: {memory.available: 100Mi}` + period: {
			"", `.evictionSoft: on nodes where memoryLimitMax is the limit: "100Mi": is not above evictionHard`,
		},
		`memoryLimit: 12%, memoryLimitMax: 2Gi, memoryHigh: 1Gi`: {
			"", `.memoryHigh: on nodes where memoryLimitMax is the limit: "1Gi": the kernel slows the partition down`,
		},
	} {
		c, err := Validate(document(t, fields), Size{})
		got := append(Problems(err), nil)[0]
		if (got == nil) != (want.problem == "") || got != nil && !strings.Contains(got.Error(), want.problem) {
			t.Errorf("%s: %v; want %q", fields, err, want.problem)
		}
		text := strings.Join(c.Warnings, "; ")
		if (text == "") != (want.warning == "") || !strings.Contains(text, want.warning) || len(c.Warnings) > 1 {
			t.Errorf("%s: %q; want %q", fields, c.Warnings, want.warning)
		}
		if err == nil && c.System().Share != nil && c.System().Limit != 0 {
			t.Errorf("%s: a limit of %d of nothing", fields, c.System().Limit)
		}
	}
}

// TestPercentageOfAll: a percentage that rounds to all of the memory is refused, and the message
// has the field.
func TestPercentageOfAll(t *testing.T) {
	t.Parallel()
	_, err := Validate(document(t, "memoryLimit: 99.99999999999999%"), Size{MemoryBytes: 8 << 30, CPUs: cpuset.New(0)})
	const want = `mine.yaml: systemPartition.memoryLimit: "99.99999999999999%": is not below the node's memory of 8Gi; want less`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestPercentage: the least percentage that comes to at least so many bytes.
func TestPercentage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of, bytes uint64
		want      string
	}{
		{8 << 30, 1 << 30, "12.5%"},
		{3200 * mebi, 384 * mebi, "12%"},
		{3200 * mebi, 384*mebi + 1, "12.04%"},
		{8029960 << 10, 600 * mebi, "7.66%"},
		{1 << 40, 64 * mebi, "0.01%"},
		{1 << 30, 1 << 30, ""},
		{0, 1, ""},
	} {
		s := &Share{OfBytes: test.of}
		text, ok := s.Percentage(test.bytes)
		if text != test.want || ok != (test.want != "") {
			t.Errorf("%d of %d: %q, %v; want %q", test.bytes, test.of, text, ok, test.want)
			continue
		}
		if ok {
			c, err := Validate(document(t, "memoryLimit: "+text), Size{MemoryBytes: test.of, CPUs: cpuset.New(0)})
			if err != nil || c.System().Limit < test.bytes {
				t.Errorf("%s of %d: %v, %+v; want %d or more", text, test.of, err, c.Partitions, test.bytes)
			}
		}
	}
}

// TestBootMemory: the size of this boot counts once it was kept. What cannot be read counts as
// missing.
func TestBootMemory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		testkit.WriteFile(t, filepath.Join(root, path), text)
	}
	if _, err := BootMemory(host.Root(root)); err == nil {
		t.Error("a node without /proc has memory")
	}
	write("proc/meminfo", "MemTotal: 2048 kB\n")
	for text, want := range map[string]uint64{
		`{"totalBytes":4096}` + "\n": 4096,
		"":                           2048 << 10,
		"{":                          2048 << 10,
		`{"totalBytes":0}`:           2048 << 10,
		`{"totalBytes":-5}`:          2048 << 10,
		`{"totalBytes":1e30}`:        2048 << 10,
	} {
		write(MemoryFile, text)
		if got, err := BootMemory(host.Root(root)); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}
