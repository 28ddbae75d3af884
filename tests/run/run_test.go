package main

import (
	"os"
	"strings"
	"testing"
)

// TestRun: what go test takes for a success, and is none.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module m\n\ngo 1.26\n",
		"good_test.go":   "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"trixie\", func(*testing.T) {}) }\n",
		"skips_test.go":  "//go:build skips\n\npackage m\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Skip(\"why\") }\n",
		"fails_test.go":  "//go:build fails\n\npackage m\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) { t.Error(\"what is wrong\") }\n",
		"leaves_test.go": "//go:build leaves\n\npackage m\n\nimport \"testing\"\n\nfunc TestMain(*testing.M) {}\n",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for name, test := range map[string]struct {
		options
		ok   bool
		want string
	}{
		"passed":              {options{want: []string{"trixie"}, ci: true, tests: true}, true, "\n2 passed, 0 failed, 0 skipped\n"},
		"part":                {options{run: "TestA/trixie"}, true, "\n2 passed, 0 failed, 0 skipped\n"},
		"failed":              {options{goTest: []string{"-tags=fails"}}, false, "what is wrong"},
		"skipped":             {options{goTest: []string{"-tags=skips"}, ci: true}, false, "why"},
		"another kind":        {options{want: []string{"crio"}}, false, "no test on crio has passed"},
		"no part":             {options{run: "TestA/crio"}, false, "no test or subtest TestA/crio has run"},
		"TestMain without it": {options{goTest: []string{"-tags=leaves"}}, false, "does its TestMain call m.Run?"},
	} {
		var out strings.Builder
		if ok, err := run(t.Context(), test.options, &out); err != nil || ok != test.ok || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %v, %v, want %v and %q in:\n%s", name, ok, err, test.ok, test.want, out.String())
		}
	}
}
