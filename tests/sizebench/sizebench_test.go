package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJSON runs the program on a trace of three containers: flat, with a step, and one that starts
// late and has a gap.
func TestJSON(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("container,minute,utilisation\n")
	for minute := range 300 {
		fmt.Fprintf(&rows, "flat,%d,0.5\n", minute)
		step := 0.2
		if minute >= 200 {
			step = 0.9
		}
		fmt.Fprintf(&rows, "step,%d,%g\n", minute, step)
		if minute >= 10 && minute%7 != 0 {
			fmt.Fprintf(&rows, "late,%d,0.1\n", minute)
		}
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"-trace", path, "-train", "120", "-draws", "40", "-o", "json"}, &out); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(all); len(list) != want { // of one member and of three
		t.Fatalf("%d results, want %d", len(list), want)
	}
	for _, r := range list {
		if r["members"] != 3.0 {
			continue
		}
		switch r["contender"] {
		case "oracle":
			if r["exceeded"] != 0.0 || r["evictions"] != 0.0 {
				t.Errorf("%v: the oracle exceeds nothing", r)
			}
		case "peak-1.15": // 0.8 x 1.15 before, and 1.5 after
			if r["exceeded"] != 1.0 || r["evictions"] == 0.0 {
				t.Errorf("%v: want the step to exceed it", r)
			}
		}
	}
}

func TestTraceRefused(t *testing.T) {
	for name, text := range map[string]string{
		"columns":  "pod,minute,utilisation\na,0,1\n",
		"minute":   "container,minute,utilisation\na,-1,1\n",
		"no value": "container,minute,utilisation\na,0,NaN\n",
	} {
		if _, err := parseTrace(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestWeeks holds what docs/how-large.md says of made-up weeks: from three members on, at most 1 of
// 200 partitions exceeds what we recommend after a week.
func TestWeeks(t *testing.T) {
	trace := makeWeeks(1)
	if again := makeWeeks(1); !slices.EqualFunc(trace, again, slices.Equal[series]) {
		t.Error("the same seed makes other weeks")
	}
	for _, members := range []int{3, 5, 15, 40} {
		c := judge(trace, all[:1], members, 7*24*60, 400, 1)
		if slack, exceeded := c.at(0, 1); exceeded > 0.005 || slack > 0.2 {
			t.Errorf("%d members: slack %.3f, exceeded %.4f", members, slack, exceeded)
		}
	}
}

// TestEvictions: the member that exceeds its request by most goes, and comes back as small as it
// was.
func TestEvictions(t *testing.T) {
	flat := func(low, high float64) series {
		s := make(series, 200)
		for minute := range s {
			s[minute] = low
			if minute >= 100 {
				s[minute] = high
			}
		}
		return s
	}
	p := partition{members: []series{flat(0.5, 0.5), flat(0.1, 0.6)}}
	p.sum = make(series, 200)
	for _, m := range p.members {
		for minute, v := range m {
			p.sum[minute] += v
		}
	}
	for limit, want := range map[float64]int{1.2: 0, 0.8: 1, 0.5: 1} { // nobody else can shrink
		if got := p.evictions(50, limit); got != want {
			t.Errorf("at %.1f: %d evictions, want %d", limit, got, want)
		}
	}
}
