package decision

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/pkg/slices/config"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestRead: at each step of the generator's output there is a decision, or an answer why not.
func TestRead(t *testing.T) {
	t.Parallel()
	const (
		plain = generatorDir + "/" + FileName
		units = unitsDir + "/" + FileName
		old   = oldDir + "/" + FileName
	)
	for name, test := range map[string]struct {
		files map[string]string
		want  string // an identity, "none", or a part of the error
	}{
		"no output":                      {nil, "none"},
		"units":                          {map[string]string{units: `{"identity":"a"}`}, "a"},
		"while the links are made":       {map[string]string{old: `{"identity":"a"}`}, "a"},
		"before the old units go":        {map[string]string{units: `{"identity":"b"}`, old: `{"identity":"a"}`}, "b"},
		"units in the generator's own":   {map[string]string{plain: `{"identity":"c"}`, units: `{"identity":"b"}`}, "c"},
		"units of an earlier version":    {map[string]string{unitsDir + "/kubepods-system.slice": ""}, ErrNone.Error()},
		"a decision that was cut off":    {map[string]string{units: `{"iden`}, units + ": unexpected end of JSON input; systemctl daemon-reload"},
		"a decision of another kind":     {map[string]string{units: `[]`}, units + ": json: cannot unmarshal array"},
		"a decision larger than allowed": {map[string]string{units: strings.Repeat(" ", maxBytes+1)}, "too large"},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			put(t, root+path, content)
		}
		got := "none"
		switch d, err := Read(root); {
		case err != nil:
			got = err.Error()
		case d != nil:
			got = d.Identity
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

// TestDecisionText: the monitor reads what the generator has written.
func TestDecisionText(t *testing.T) {
	t.Parallel()
	grace := 20 * time.Second
	want := New(&config.Config{
		Kubelet: &kubeletconfig.Config{},
		Partition: &config.Partition{
			MemoryLimit: 1 << 30, Namespaces: []string{"kube-system"}, MaxPodGracePeriod: &grace, MinimumReclaim: 7,
			Eviction:     config.Threshold{Bytes: 100 << 20},
			EvictionSoft: &config.SoftThreshold{Threshold: config.Threshold{Bytes: 200 << 20}, GracePeriod: time.Minute},
		},
		Settings: config.PartitionSettings{Floor: config.Floor{Min: 1 << 20, Low: 2 << 20}},
	}, &Deferral{Limit: 1 << 30, InForce: 1<<64 - 1, Warning: `of "this"`})
	text, err := want.Text()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	put(t, filepath.Join(root, unitsDir, FileName), text)
	got, err := Read(root)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	all := Thresholds{Limit: 1 << 30, Hard: 100 << 20, Soft: 200 << 20, SoftGrace: time.Minute, MaxPodGrace: grace, MinimumReclaim: 7}
	if got.Members == nil || *got.Members.Eviction != all || got.Members.Floor != (Floor{1 << 20, 2 << 20}) {
		t.Errorf("%+v; want %+v", got.Members, all)
	}
}

// TestMembersEqual: every value that the monitor follows counts, except thresholds that an earlier
// version has not stored.
func TestMembersEqual(t *testing.T) {
	t.Parallel()
	now := Members{Namespaces: []string{"a"}, Eviction: &Thresholds{Limit: 1}, Floor: Floor{Min: 1}}
	for name, test := range map[string]struct {
		former Members
		want   bool
	}{
		"the same":              {Members{Namespaces: []string{"a"}, Eviction: &Thresholds{Limit: 1}, Floor: Floor{Min: 1}}, true},
		"other namespaces":      {Members{Namespaces: []string{"b"}, Eviction: &Thresholds{Limit: 1}, Floor: Floor{Min: 1}}, false},
		"other thresholds":      {Members{Namespaces: []string{"a"}, Eviction: &Thresholds{Limit: 2}, Floor: Floor{Min: 1}}, false},
		"another floor":         {Members{Namespaces: []string{"a"}, Eviction: &Thresholds{Limit: 1}}, false},
		"of an earlier version": {Members{Namespaces: []string{"a"}, Floor: Floor{Min: 1}}, true},
	} {
		if got := test.former.Equal(now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if now.Equal(Members{Namespaces: []string{"a"}, Floor: Floor{Min: 1}}) {
		t.Error("thresholds that are gone")
	}
}
