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
