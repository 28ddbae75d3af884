package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// configured returns the configuration of a node whose partition has one namespace.
func configured(t *testing.T, namespace string) *config.Config {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../../tests/generator/node")); err != nil {
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
	last := Members{Members: *decision.MembersOf(edited), Identity: edited.Identity(), Over: decided.Identity}
	after := func(files *config.Config, problem error) *reading {
		n := &reading{decided: &decided, last: last}
		n.Desired, n.Problem = &Desired{Config: files}, problem
		return n
	}
	for name, step := range map[string]struct {
		follow     func(Keep) (Configuration, error)
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
		if err != nil || !slices.Equal(got.Namespaces, []string{step.want}) || got.NotApplied != step.notApplied ||
			!slices.Equal(kept.Namespaces, got.Namespaces) || kept.follows(&decided) != (step.want == "monitoring") {
			t.Errorf("%s: follows %v, not applied %t, keeps %+v, %v; want %s", name, got.Namespaces, got.NotApplied, kept, err, step.want)
		}
	}
}

// TestDeferral: the generator's decision that a limit waits counts for the configuration that it is
// about. An operator's SIGHUP for another limit does not wait.
func TestDeferral(t *testing.T) {
	t.Parallel()
	c := configured(t, "kube-system")
	deferral := &decision.Deferral{Limit: uint64(c.Partition.MemoryLimit), InForce: 2 << 30, Warning: "it waits"}
	decided := decision.New(c, deferral)
	desired := &Desired{Config: c}
	desired.compare(&decided)
	if desired.Deferral != deferral || !slices.Contains(desired.Warnings, "it waits") {
		t.Errorf("%+v, %q; want what was decided", desired.Deferral, desired.Warnings)
	}
	edited := &Desired{Config: configured(t, "monitoring")}
	edited.compare(&decided)
	if edited.Deferral != nil || slices.Contains(edited.Warnings, "it waits") {
		t.Errorf("%+v, %q; want nothing of another configuration", edited.Deferral, edited.Warnings)
	}
	for limit, want := range map[uint64]*decision.Deferral{deferral.Limit: deferral, 3 << 30: nil} {
		n := &reading{Configuration: Configuration{Desired: desired, Deferral: deferral}}
		n.follow(&decision.Members{Namespaces: []string{"a"}, Eviction: &decision.Thresholds{Limit: limit}})
		if n.Deferral != want {
			t.Errorf("a limit of %d: %+v, want %+v", limit, n.Deferral, want)
		}
	}
}

// TestAppliedOff: a partition that was switched off has nothing to keep, and the report has the
// former namespaces.
func TestAppliedOff(t *testing.T) {
	t.Parallel()
	n := &reading{decided: &decision.Decision{Identity: "off"}, last: Members{Members: decision.Members{Namespaces: []string{"a"}}}}
	n.Desired = &Desired{Config: configured(t, "kube-system")}
	got, err := n.applied(func(string, Members) error { return errors.New("kept") })
	if err != nil || !got.Off || !slices.Equal(got.Namespaces, []string{"a"}) {
		t.Errorf("%+v, %v", got.Config, err)
	}
}
