// Package imports holds the packages of this repository to what they may know of the world.
package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule forbids packages to import others directly. Our own packages are followed: what a package may not import,
// no package of ours that it uses may either.
type rule struct {
	packages string   // prefix of import paths
	except   []string // packages the rule is not for
	forbid   []string // prefixes of import paths
	why      string
}

var rules = []rule{
	{"nodepartition/pkg/slices", nil, []string{"github.com/godbus/dbus", "github.com/coreos/go-systemd/v22/dbus", "github.com/coreos/go-systemd/v22/daemon"},
		"the generator runs when there is no D-Bus"},
	{"nodepartition/pkg/slices", nil, []string{"net", "k8s.io/client-go", "google.golang.org/grpc"}, "the generator runs when there is no network"},
	{"nodepartition/pkg/slices", nil, []string{"time"}, "a plan depends on its input alone"},
	{"nodepartition/pkg/slices", nil, []string{"log", "k8s.io/klog"}, "libraries return errors, programs log them"},
	{"nodepartition/pkg/slices", nil, []string{"k8s.io/kubelet", "k8s.io/component-base"},
		"initialising what these import takes longer than the generator takes in all (docs/performance.md)"},
	{"nodepartition/", []string{"nodepartition/cmd/partition-monitor", "nodepartition/tests/lab"},
		[]string{"github.com/prometheus/client_golang", "github.com/urfave/cli"}, "only the monitor's command, and the lab's, have metrics and a command line"},
	{"nodepartition/cmd", nil, []string{"nodepartition/tests"}, "programs do not ship the lab"},
	{"nodepartition/pkg", nil, []string{"nodepartition/tests", "nodepartition/cmd"}, "libraries do not know programs"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "nodepartition/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		imports[p.ImportPath] = p.Imports
	}
	used := 0
	for _, r := range rules {
		for path := range imports {
			if !under(path, r.packages) || slices.ContainsFunc(r.except, func(e string) bool { return under(path, e) }) {
				continue
			}
			used++
			for _, chain := range reach(imports, path) {
				last := chain[len(chain)-1]
				if slices.ContainsFunc(r.forbid, func(f string) bool { return under(last, f) }) {
					t.Errorf("%s: %s", strings.Join(chain, " imports "), r.why)
				}
			}
		}
	}
	if used < len(rules) {
		t.Errorf("%d packages looked at for %d rules: a rule is for nothing", used, len(rules))
	}
}

// under reports whether path is prefix or below it.
func under(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// reach returns how path comes to its imports: directly, or through packages of ours.
func reach(imports map[string][]string, path string) [][]string {
	seen := map[string]bool{}
	var chains [][]string
	var walk func(chain []string)
	walk = func(chain []string) {
		for _, next := range imports[chain[len(chain)-1]] {
			longer := append(slices.Clone(chain), next)
			if seen[next] {
				continue
			}
			seen[next] = true
			chains = append(chains, longer)
			if under(next, "nodepartition") {
				walk(longer)
			}
		}
	}
	walk([]string{path})
	return chains
}
