package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/host"
	"nodepartition/internal/membership"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// configured returns the configuration of a node whose partition has one namespace.
func configured(t *testing.T, namespace string) *config.Config {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	section := filepath.Join(root, "etc/kubernetes/node-partition.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"systemPartition: {memoryLimit: 1Gi, namespaces: [" + namespace + "]}\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(section), 0o755), os.WriteFile(section, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReloadedEndsHangup: an operator edits the file, sends SIGHUP, takes the edit back and reloads
// systemd. The generator decides the same as before, and the monitor follows that.
func TestReloadedEndsHangup(t *testing.T) {
	t.Parallel()
	former, edited := configured(t, "kube-system"), configured(t, "monitoring")
	decided := decision.New(former, nil)
	last := Members{Partitions: decision.PartitionsOf(edited), Identity: edited.Identity(), Over: decided.Identity}
	after := func(files *config.Config, problem error) *reading {
		n := &reading{decided: &decided, last: last}
		n.Desired, n.Problem = &Desired{Config: files}, problem
		return n
	}
	for name, step := range map[string]struct {
		follow     func(Keep) (Followed, error)
		want       string
		notApplied bool
	}{
		"a restart":                            {after(edited, nil).applied, "monitoring", false},
		"a restart, with the edit taken back":  {after(former, nil).applied, "monitoring", true},
		"a reload, with the edit taken back":   {after(former, nil).reloaded, "kube-system", false},
		"a reload, with a file that is broken": {after(edited, os.ErrInvalid).reloaded, "monitoring", false},
	} {
		kept := last
		got, err := step.follow(func(_ string, m Members) error {
			kept = m
			return nil
		})
		if err != nil || !slices.Equal(got.Of("system").Namespaces, []string{step.want}) || got.NotApplied != step.notApplied ||
			!slices.Equal(kept.of("system").Namespaces, []string{step.want}) || kept.follows(&decided) != (step.want == "monitoring") {
			t.Errorf("%s: follows %v, not applied %t, keeps %+v, %v; want %s", name, got.Partitions, got.NotApplied, kept, err, step.want)
		}
	}
}

// TestDeferral: the generator's decision that a limit waits counts for the configuration that it is
// about. An operator's SIGHUP for another limit does not wait.
func TestDeferral(t *testing.T) {
	t.Parallel()
	c := configured(t, "kube-system")
	deferral := &decision.Deferral{Limit: uint64(c.System().MemoryLimit), InForce: 2 << 30, Warning: "it waits"}
	decided := decision.New(c, map[unitname.PartitionName]*decision.Deferral{"system": deferral})
	desired := &Desired{Config: c}
	desired.compare(&decided)
	if desired.Deferrals["system"] != deferral || !slices.Contains(desired.Warnings, "it waits") {
		t.Errorf("%+v, %q; want what was decided", desired.Deferrals, desired.Warnings)
	}
	edited := &Desired{Config: configured(t, "monitoring")}
	edited.compare(&decided)
	if len(edited.Deferrals) != 0 || slices.Contains(edited.Warnings, "it waits") {
		t.Errorf("%+v, %q; want nothing of another configuration", edited.Deferrals, edited.Warnings)
	}
	for limit, want := range map[uint64]*decision.Deferral{deferral.Limit: deferral, 3 << 30: nil} {
		n := &reading{Followed: Followed{Desired: desired}, decided: &decided}
		n.follow([]decision.Partition{{Name: "system", Namespaces: []string{"a"}, Eviction: &thresholds.Thresholds{Limit: limit}}}, nil)
		if got := n.Of("system").Deferral; got != want {
			t.Errorf("a limit of %d: %+v, want %+v", limit, got, want)
		}
	}
}

// TestAppliedOff: a partition that was switched off has nothing to keep, and the report has the
// former namespaces.
func TestAppliedOff(t *testing.T) {
	t.Parallel()
	n := &reading{decided: &decision.Decision{Identity: "off"}, last: named("a")}
	n.Desired = &Desired{Config: configured(t, "kube-system")}
	got, err := n.applied(func(string, Members) error { return errors.New("kept") })
	yields := &reading{Followed: Followed{Desired: &Desired{Config: &config.Config{ManagedByKubelet: "the kubelet makes it"}}}}
	yields.follow([]decision.Partition{{Name: "system", Namespaces: []string{"a"}}}, nil)
	if !yields.Off() {
		t.Errorf("%+v; want nothing beside a kubelet that makes the partition itself", yields.Partitions)
	}
	if of := got.Of("system"); err != nil || !got.Off() || !of.Off || !slices.Equal(of.Namespaces, []string{"a"}) {
		t.Errorf("%+v, %v", got.Partitions, err)
	}
}

// TestFollowTwo: each partition is followed with what is its own. One that is switched off keeps
// its former namespaces while the other goes on.
func TestFollowTwo(t *testing.T) {
	t.Parallel()
	limit := func(bytes uint64) *thresholds.Thresholds { return &thresholds.Thresholds{Limit: bytes} }
	system := decision.Partition{Name: "system", Namespaces: []string{"kube-system"}, Eviction: limit(1 << 30), Floor: decision.Floor{Min: 1}}
	waits := decision.Partition{
		Name: "my-batch", Namespaces: []string{"batch"}, Eviction: limit(2 << 30), Deferral: &decision.Deferral{Limit: 2 << 30, InForce: 3 << 30},
	}
	n := &reading{decided: &decision.Decision{Identity: "two", Partitions: []decision.Partition{system, waits}}}
	n.Desired = &Desired{Config: configured(t, "kube-system")}
	var kept Members
	keep := func(_ string, m Members) error {
		kept = m
		return nil
	}
	got, err := n.applied(keep)
	if err != nil || len(got.Partitions) != 2 || got.Off() {
		t.Fatalf("%+v, %v; want both", got.Partitions, err)
	}
	if of := got.Of("system"); of.Deferral != nil || of.Thresholds.Limit != 1<<30 || of.Floor.Min != 1 {
		t.Errorf("system: %+v", of)
	}
	if of := got.Of("my-batch"); of.Deferral == nil || of.Thresholds.Limit != 2<<30 || of.Floor.Min != 0 {
		t.Errorf("my-batch: %+v", of)
	}
	if len(kept.Partitions) != 2 || kept.of("my-batch").Deferral != nil {
		t.Errorf("kept %+v; want both, without what the generator decides", kept)
	}
	has := withSlice(t, "kubepods-my_batch.slice")
	// It is found again at each reload for as long as its slice is there.
	for reload := range 2 {
		n = &reading{decided: &decision.Decision{Identity: "one", Partitions: []decision.Partition{system}}, last: kept, node: has}
		n.Desired = &Desired{Config: configured(t, "kube-system")}
		if got, err = n.applied(keep); err != nil || got.Off() || got.Of("system").Off {
			t.Errorf("%d: %+v, %v; want that system goes on", reload, got.Partitions, err)
		}
		if of := got.Of("my-batch"); !of.Off || of.Thresholds != nil || !slices.Equal(of.Namespaces, []string{"batch"}) || len(got.Partitions) != 2 {
			t.Errorf("%d: my-batch: %+v; want that it is off, with its former namespaces", reload, of)
		}
	}
	n = &reading{decided: &decision.Decision{Identity: "one", Partitions: []decision.Partition{system}}, last: kept, node: withSlice(t, "")}
	n.Desired = &Desired{Config: configured(t, "kube-system")}
	if got, err = n.applied(keep); err != nil || len(got.Partitions) != 1 || len(kept.Former) != 0 {
		t.Errorf("%+v, kept %+v, %v; want that it is forgotten with its slice", got.Partitions, kept, err)
	}
}

// withSlice returns a node with a slice below kubepods.slice, or without one.
func withSlice(t *testing.T, slice string) host.Node {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "sys/fs/cgroup/kubepods.slice", slice), 0o755); err != nil {
		t.Fatal(err)
	}
	return host.Below(root)
}

// TestFollowWithoutSystem: the system partition counts only while it has a slice, if there are
// others. A kubelet that makes it is left alone.
func TestFollowWithoutSystem(t *testing.T) {
	t.Parallel()
	batch := decision.Partition{Name: "batch", Namespaces: []string{"batch"}}
	for name, test := range map[string]struct {
		slice, managed string
		want           int
	}{
		"never had one":         {"", "", 1},
		"still has its slice":   {"kubepods-system.slice", "", 2},
		"the kubelet makes one": {"kubepods-system.slice", "the kubelet makes it", 1},
	} {
		n := &reading{node: withSlice(t, test.slice), Followed: Followed{Desired: &Desired{Config: &config.Config{
			ManagedByKubelet: test.managed, Names: []unitname.PartitionName{"system", "batch"},
		}}}}
		n.follow([]decision.Partition{batch, {Name: "system", Namespaces: []string{"a"}}}[:1], nil)
		if n.Off() || len(n.Partitions) != test.want || n.Of("batch").Off || !n.Of("system").Off {
			t.Errorf("%s: %+v; want %d partitions", name, n.Partitions, test.want)
		}
	}
}

// TestFormerSystemPartition: a system partition that was never followed, and whose slice is there,
// does not make what is followed unreadable.
func TestFormerSystemPartition(t *testing.T) {
	t.Parallel()
	n := withSlice(t, "kubepods-system.slice")
	for _, slice := range []string{"kubepods-batch.slice", "kubepods-telemetry.slice"} {
		if err := os.MkdirAll(n.Path("/sys/fs/cgroup/kubepods.slice/"+slice), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	telemetry := decision.Partition{Name: "telemetry", Namespaces: []string{"telemetry"}}
	batch := decision.Partition{Name: "batch", Namespaces: []string{"batch"}}
	desired := func(names ...unitname.PartitionName) *Desired {
		c := configured(t, "x")
		c.Names, c.Partitions = names, nil
		return &Desired{Config: c}
	}
	first := &reading{node: n, decided: &decision.Decision{Identity: "1", Partitions: []decision.Partition{telemetry, batch}}, lastErr: errors.New("none")}
	first.Desired = desired("system", "batch", "telemetry")
	if _, err := first.applied(WriteMembers); err != nil {
		t.Fatal(err)
	}
	second := &reading{node: n, decided: &decision.Decision{Identity: "2", Partitions: []decision.Partition{telemetry}}}
	second.Desired = desired("system", "telemetry")
	second.last, second.lastErr = readMembers(n.Path(MembersFile))
	got, err := second.applied(WriteMembers)
	of := got.Of("batch")
	if err != nil || second.lastErr != nil || !of.Off || !slices.Equal(of.Namespaces, []string{"batch"}) {
		t.Errorf("%+v, %v, %v; want batch, which was removed and has pods", got.Partitions, err, second.lastErr)
	}
}

// TestYieldKeepsProblem: a kubelet that makes the system partition itself does not hide what is
// wrong with the others.
func TestYieldKeepsProblem(t *testing.T) {
	t.Parallel()
	n := withSlice(t, "kubepods-telemetry.slice")
	write := func(name, text string) {
		path := n.Path(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(n.Path("/"), os.DirFS("../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	section := func(limit string) {
		write("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
			"systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\n"+
			"workloadPartitions: {management: {partition: system}, telemetry: {memoryLimit: "+limit+", namespaces: [telemetry]}}\n")
	}
	section("never")
	write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", "42\n")
	write("/proc/42/cmdline", "/usr/bin/kubelet\x00--feature-gates=NodeSystemPartition=true\x00")
	write("/proc/42/stat", "42 (kubelet) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0\n")
	if RunningYields(n) == "" {
		t.Fatal("the kubelet of the test does not make the partition")
	}
	if _, err := LoadConfig(n, podmove.Auto, ReadOnly); err == nil || !strings.Contains(err.Error(), "telemetry.memoryLimit") {
		t.Errorf("nothing was followed: %v; want what is wrong with the other partition", err)
	}
	if _, err := ReadDesired(n); err == nil {
		t.Error("nothing was made: the problem is hidden")
	}
	write("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"systemPartition: {memoryLimit: never, namespaces: [kube-system]}\nworkloadPartitions: {telemetry: null}\n")
	if got, err := LoadConfig(n, podmove.Auto, ReadOnly); err != nil || got.Problem != nil || len(got.Partitions) > 0 {
		t.Errorf("its own section: %+v, %v; want no problem", got, err)
	}
	section("never")
	telemetry := decision.Partition{Name: "telemetry", Namespaces: []string{"telemetry"}}
	before := Members{Partitions: []decision.Partition{telemetry}, Identity: "x", Workloads: []membership.Workload{
		{Type: "management", Partition: unitname.System}, {Type: "telemetry", Partition: "telemetry"},
	}}
	if err := WriteMembers(n.Path(MembersFile), before); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConfig(n, podmove.Auto, ReadOnly)
	if len(got.Workloads) != 1 || got.Workloads[0].Type != "telemetry" {
		t.Errorf("types %+v; want none whose members the kubelet has", got.Workloads)
	}
	if err != nil || got.Problem == nil || got.Of("telemetry").Off || len(got.Partitions) != 1 {
		t.Errorf("a broken section: %+v, %v; want the last good one", got, err)
	}
	section("1Gi")
	got, err = LoadConfig(n, podmove.Auto, ReadOnly)
	if err != nil || got.Problem != nil || got.Of("telemetry").Off || len(got.Partitions) != 1 {
		t.Errorf("repaired: %+v, %v", got, err)
	}
	if len(got.Workloads) != 1 || got.Workloads[0].Type != "telemetry" || len(got.Desired.Workloads) != 1 {
		t.Errorf("types %+v, %+v; want none whose members the kubelet has", got.Workloads, got.Desired.Workloads)
	}
}

// TestSection: the digest is of the sections that the generator has read, whatever the files say
// since. Without one in its decision it is of the files, if these were applied.
func TestSection(t *testing.T) {
	t.Parallel()
	former, edited := configured(t, "kube-system"), configured(t, "monitoring")
	decided := decision.New(former, nil)
	if decided.Section == "" || decided.Section != former.SectionDigest() || decided.Section == edited.SectionDigest() {
		t.Fatalf("the decision has the digest %q of %q", decided.Section, former.SectionDigest())
	}
	earlier := decided
	earlier.Section = ""
	for name, test := range map[string]struct {
		decided    *decision.Decision
		files      *config.Config
		problem    error
		notApplied bool
		want       string
	}{
		"applied":                        {&decided, former, nil, false, former.SectionDigest()},
		"edited":                         {&decided, edited, nil, true, former.SectionDigest()},
		"broken":                         {&decided, former, os.ErrInvalid, false, former.SectionDigest()},
		"no generator":                   {nil, edited, nil, false, edited.SectionDigest()},
		"no generator, broken":           {nil, edited, os.ErrInvalid, false, ""},
		"an earlier version":             {&earlier, former, nil, false, former.SectionDigest()},
		"an earlier version, edited":     {&earlier, edited, nil, true, ""},
		"an earlier version, and broken": {&earlier, former, os.ErrInvalid, false, ""},
	} {
		n := &reading{decided: test.decided}
		n.Desired, n.Problem, n.NotApplied = &Desired{Config: test.files}, test.problem, test.notApplied
		got, err := n.withSection(n.Followed, os.ErrClosed)
		if got.Section != test.want || !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %q, %v; want %q", name, got.Section, err, test.want)
		}
	}
}
