package main

import (
	"bytes"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

func TestApp(t *testing.T) {
	t.Setenv("NODE_PARTITION_CACHE", t.TempDir())
	for _, tc := range []struct {
		args      string
		out, fail string
	}{
		{args: "status", out: "NAME  FLAVOUR  STATE  PORT  UPTIME\n"},
		{args: "flavours", out: allFlavours()},
		{args: "down --all"},
		{args: "down", fail: "which node"},
		{args: "down nope", fail: "there is none of this name"},
		{args: "ssh", fail: "which node"},
		{args: "ssh nope -- true", fail: "there is none of this name"},
		{args: "collect nope", fail: "want a node and a folder"},
		{args: "up --name Bad_", fail: "not a DNS label"},
		{args: "up --flavour x", fail: "not known"},
		{args: "up --file x", fail: "HOST:GUEST"},
		{args: "up extra", fail: "not expected"},
		{args: "prepare x", fail: "not known"},
		{args: "demo", fail: "make demo"},
		{args: "demo --build true", fail: "make demo"},
		{args: "demo --flavour x", fail: "not known"},
		{args: "demo --flavour arm64", fail: "use another flavour"},
	} {
		var out bytes.Buffer
		app := newApp()
		app.Writer = &out
		err := app.RunContext(t.Context(), append([]string{"lab"}, strings.Fields(tc.args)...))
		switch {
		case tc.fail == "" && err != nil:
			t.Errorf("%s: %v", tc.args, err)
		case tc.fail != "" && (err == nil || !strings.Contains(err.Error(), tc.fail)):
			t.Errorf("%s: error %v, want %q", tc.args, err, tc.fail)
		case tc.out != "" && out.String() != tc.out:
			t.Errorf("%s: %q, want %q", tc.args, out.String(), tc.out)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %v", tc.args, err)
		}
	}
}

func allFlavours() string {
	var names strings.Builder
	for _, f := range lab.Flavours() {
		names.WriteString(f.Name + "\n")
	}
	return names.String()
}
