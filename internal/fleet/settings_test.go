package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	s, err := ParseSettings("roll.yaml", []byte(`version: v0.2.0
selector: pool!=gpu
nodes: 10%
maxFailures: 2
pools: [canary=true, "zone in (a,b)"]
controlPlane: last
pause: 90s
trial: 5m
nri: containerd
monitorArgs: --eviction=off
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != "v0.2.0" || s.Nodes.of(5000) != 500 || s.MaxFailures != 2 || len(s.Pools) != 2 || !bool(s.ControlPlane) ||
		s.Pause != 90*time.Second || s.Trial != 5*time.Minute || s.NRI != "containerd" || s.MonitorArgs != "--eviction=off" {
		t.Errorf("%+v", s)
	}
	if s.Selector.selects(map[string]string{"pool": "gpu"}) || !s.Selector.selects(nil) || !s.Pools[1].selects(map[string]string{"zone": "b"}) {
		t.Error("the selectors do not select what they say")
	}
	for _, version := range []string{"0.1.0~rc1", "v0.1.0-3-gabcdef0-dirty", "0.1.0+dirty", "1", strings.Repeat("1", 63)} {
		if s, err := ParseSettings("roll.yaml", []byte("version: \""+version+"\"\n")); err != nil || s.Version != version {
			t.Errorf("%s: %q, %v", version, s.Version, err)
		}
	}
	s, err = ParseSettings("roll.yaml", []byte("version: v1\ncontrolPlane: false\nselector: \"\"\n"))
	if err != nil || s.Nodes.of(5000) != 1 || s.MaxFailures != 0 || bool(s.ControlPlane) || s.Pause != time.Minute || s.Trial != 10*time.Minute || s.NRI != "none" {
		t.Errorf("defaults: %+v, %v", s, err)
	}
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                `version: ""; want 1 to 63`,
		"version: a/b":                    `version: "a/b"`,
		"version: 0.1.0+":                 `version: "0.1.0+"; want 1 to 63`,
		"version: v1\nnodes: 0":           `nodes: "0"; want a number of nodes from 1 on, or 1% to 100%`,
		"version: v1\nnodes: 0%":          `nodes: "0%"`,
		"version: v1\nnodes: 101%":        `nodes: "101%"`,
		"version: v1\nnodes: some":        `nodes: "some"`,
		"version: v1\nmaxFailures: -1":    `maxFailures: "-1"; want 0 or more`,
		"version: v1\ncontrolPlane: true": `controlPlane: "true"; want false or last`,
		"version: v1\npause: 30":          `pause: "30"`,
		"version: v1\npause: soon":        `pause: "soon"; want a time such as 30s`,
		"version: v1\ntrial: 5s":          `trial: "5s"; want 1m to 24h`,
		"version: v1\nnri: docker":        `nri: "docker"; want none, containerd or crio`,
		"version: v1\nselector: a=(":      `selector: "a=("`,
		"version: v1\nparallel: 3":        `unknown field "parallel"`,
		"version: v1\nversion: v2":        `"version" already set`,

		"version: v" + strings.Repeat("1", 63): "want 1 to 63",
	} {
		_, err := ParseSettings("roll.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "roll.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

// TestShare: a percentage is rounded down, and is at least one node.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share Share
		of    int
		want  int
	}{
		{Share{percent: 10}, 5000, 500}, {Share{percent: 10}, 19, 1}, {Share{percent: 10}, 20, 2}, {Share{percent: 10}, 3, 1}, {Share{percent: 10}, 0, 1},
		{Share{percent: 100}, 7, 7}, {Share{count: 3}, 1, 3}, {Share{count: 3}, 5000, 3},
	} {
		if got := test.share.of(test.of); got != test.want {
			t.Errorf("%+v of %d: %d; want %d", test.share, test.of, got, test.want)
		}
	}
}

// TestNames: names follow from what they stand for, differ where that differs, and fit.
func TestNames(t *testing.T) {
	t.Parallel()
	id := RollID("v1", "0123456789ab", Install, "ns/name", 1)
	ids := map[string]bool{id: true}
	for _, other := range []string{
		RollID("v2", "0123456789ab", Install, "ns/name", 1), RollID("v1", "ab", Install, "ns/name", 1),
		RollID("v1", "0123456789ab", Add, "ns/name", 1), RollID("v1", "0123456789ab", Install, "ns/other", 1),
		RollID("v1", "0123456789ab", Install, "ns/name", 2),
	} {
		ids[other] = true
	}
	if len(ids) != 6 || len(id) != 10 || RollID("v1", "0123456789ab", Install, "ns/name", 1) != id {
		t.Errorf("IDs %v; want six of 10 digits", ids)
	}
	// echo -n a | sha256sum
	if got := SectionHash([]byte("a")); got != "ca978112ca1b" {
		t.Errorf("hash %s of a", got)
	}
	long := &Node{Name: strings.Repeat("node.", 49) + "x", UID: "1"}
	again := &Node{Name: long.Name, UID: "2"}
	if name := jobName(id, long); len(name) > 63 || name == jobName(id, again) || name != jobName(id, long) {
		t.Errorf("name %s of %d bytes", name, len(name))
	}
	if got := nodeValue(long.Name); len(got) != 16 {
		t.Errorf("label %q", got)
	}
	if got := nodeValue("worker-1.example"); got != "worker-1.example" {
		t.Errorf("label %q", got)
	}
}
