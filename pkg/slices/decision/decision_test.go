package decision

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/testkit"
)

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
		want  string // an identity, or a part of the error
	}{
		"no output":                       {nil, ErrNone.Error()},
		"units":                           {map[string]string{units: `{"version":1,"identity":"a"}`}, "a"},
		"while the links are made":        {map[string]string{old: `{"version":1,"identity":"a"}`}, "a"},
		"before the old units go":         {map[string]string{units: `{"version":1,"identity":"b"}`, old: `{"version":1,"identity":"a"}`}, "b"},
		"units in the generator's own":    {map[string]string{plain: `{"version":1,"identity":"c"}`, units: `{"version":1,"identity":"b"}`}, "c"},
		"units without a decision":        {map[string]string{unitsDir + "/kubepods-system.slice": ""}, ErrNone.Error()},
		"a decision that was cut off":     {map[string]string{units: `{"iden`}, units + ": unexpected end of JSON input; systemctl daemon-reload"},
		"a decision of another version":   {map[string]string{units: `{"version":2,"identity":["a"]}`}, "it has version 2, and this program reads version 1; systemctl daemon-reload"},
		"a decision that decides nothing": {map[string]string{units: `{"version":1,"identity":""}`}, "was not valid; systemctl daemon-reload"},
		"a name that is none":             {map[string]string{units: `{"version":1,"identity":"a","partitions":[{"name":"a/b","off":true}]}`}, `partition "a/b"`},
		"a decision of another kind":      {map[string]string{units: `[]`}, units + ": json: cannot unmarshal array"},
		"a decision larger than allowed":  {map[string]string{units: strings.Repeat(" ", maxBytes+1)}, "too large"},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			testkit.WriteFile(t, root+path, content)
		}
		d, err := Read(root)
		got := fmt.Sprint(err)
		if err == nil {
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
	all := thresholds.Thresholds{Limit: 1 << 30, Hard: 100 << 20, Soft: 200 << 20, SoftGrace: time.Minute, MaxPodGrace: grace, MinimumReclaim: 7}
	want := New(&config.Config{
		Kubelet: &kubeletconfig.Merged{},
		Partitions: []config.Partition{{
			Name: "system", Namespaces: []string{"kube-system"},
			Thresholds: all,
			Protection: cgroups.Protection{Min: 1 << 20, Low: 2 << 20},
		}, {Name: "telemetry", Thresholds: thresholds.Thresholds{Limit: 2 << 30}, Namespaces: []string{"monitoring"}}},
	}, map[partition.Name]*Deferral{"system": {Limit: 1 << 30, InForce: 1<<64 - 1, Warning: `of "this"`}}, []partition.Name{"batch"})
	text, err := want.Text()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, unitsDir, FileName), text)
	got, err := Read(root)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if len(got.Partitions) != 3 || !reflect.DeepEqual(got.Partitions[2], Partition{Name: "batch", Off: true}) {
		t.Fatalf("%+v; want two partitions, and one that is off", got.Partitions)
	}
	system, telemetry := got.Partitions[0], got.Partitions[1]
	if *system.Eviction != all || system.Protection != (cgroups.Protection{Min: 1 << 20, Low: 2 << 20}) || system.Deferral == nil {
		t.Errorf("%+v; want %+v", system, all)
	}
	if telemetry.Name != "telemetry" || telemetry.Deferral != nil || telemetry.Eviction.Limit != 2<<30 || telemetry.Protection != (cgroups.Protection{}) {
		t.Errorf("%+v; want the other partition, without anything of the first", telemetry)
	}
}

// TestWatch: what was written is read, and a file that is gone or broken says nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, want := range []Watch{{}, {Refused: "a\nb"}, {Requested: "id"}, {}, {}} {
		if err := want.Write(root); err != nil {
			t.Fatal(err)
		}
		if got := ReadWatch(root); got != want {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, WatchFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v; want no file", err)
	}
	testkit.WriteFile(t, filepath.Join(root, WatchFile), `{"refused":`)
	if got := ReadWatch(root); got != (Watch{}) {
		t.Errorf("%+v of a broken file", got)
	}
}
