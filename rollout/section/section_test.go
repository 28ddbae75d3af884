package section

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

func of(t *testing.T, raw string) (Section, error) {
	t.Helper()
	spec := v1alpha1.NodePartitionSpec{Section: apiextensionsv1.JSON{Raw: []byte(raw)}}
	spec.Rollout.Trial.Duration = record.MaxTrial
	return Of(spec)
}

// TestOf: the file of a section does not depend on the order of its fields, and has the digest that
// sha256sum prints.
func TestOf(t *testing.T) {
	t.Parallel()
	const want = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsystemPartition:\n  memoryLimit: 12%\n  namespaces:\n  - kube-system\n  - monitoring\n"
	for _, raw := range []string{
		`{"systemPartition": {"namespaces": ["kube-system", "monitoring"], "memoryLimit": "12%"}}`,
		`{"kind": "KubeletConfiguration", "systemPartition": {"memoryLimit": "12%", "namespaces": ["kube-system", "monitoring"]}}`,
	} {
		s, err := of(t, raw)
		digest := sha256.Sum256([]byte(want))
		if err != nil || s.Text != want || s.Hash != hex.EncodeToString(digest[:]) || !slices.Equal(s.Namespaces, []string{"kube-system", "monitoring"}) {
			t.Errorf("%s: %+v, %v", raw, s, err)
		}
	}
	for _, raw := range []string{`{"systemPartition": {"namespaces": ["a"], "memoryLimit": 4294967296}}`, `{"workloadPartitions": {"infra": {"allowedNamespaces": ["a"], "cpuset": "0"}}}`} {
		if s, err := of(t, raw); err != nil || len(s.Warnings) > 0 {
			t.Errorf("%s: %v: %s%q", raw, err, s.Text, s.Warnings)
		}
	}
	s, err := of(t, `{"systemPartition": {"namespaces": ["kube-system"], "memorylimit": "2Gi"}}`)
	if err != nil || len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], "memorylimit") {
		t.Errorf("a field that is not known: %v, %q", err, s.Warnings)
	}
}

// TestRefused: what the generator or the installer would refuse, with the field.
func TestRefused(t *testing.T) {
	t.Parallel()
	var spec v1alpha1.NodePartitionSpec
	spec.Rollout.Trial.Duration = record.MaxTrial + 1
	if _, err := Of(spec); err == nil || !strings.Contains(err.Error(), "spec.rollout.trial: want from 1m0s to 1h0m0s") {
		t.Errorf("a trial that is too long: %v", err)
	}
	for raw, want := range map[string]string{
		`null`: "want an object", `[]`: "want an object", `{}`: "systemPartition",
		`{"systemPartition": {"namespaces": ["kube-system"], "memoryLimit": "2.5GB"}}`: "systemPartition.memoryLimit",
		`{"systemPartition": {"memoryLimit": "2Gi"}}`:                                  "systemPartition.namespaces",
		`{"systemPartition": {"namespaces": ["a"]}, "maxPods": 5}`:                     "maxPods: unknown field",
		`{"systemPartition": {"namespaces": ["a"]}, "kind": "Pod"}`:                    "kind: want KubeletConfiguration",
	} {
		if _, err := of(t, raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", raw, err, want)
		}
	}
}
