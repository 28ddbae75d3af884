// Package imports tests which packages the packages of this repository import.
package imports

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rule forbids packages to import others. It applies through our own packages: what a package may
// not import, no package of ours that it uses may import either. A direct rule applies only to a
// package's own imports.
type rule struct {
	packages []string // prefixes of import paths
	except   []string // packages without this rule
	forbid   []string // prefixes of import paths
	why      string
	direct   bool // checks only a package's own imports
}

// dbus lists the packages that implement D-Bus.
var dbus = []string{"github.com/godbus/dbus", "github.com/coreos/go-systemd/v22/dbus"}

// generatorParts lists the packages that are linked into the generator.
var generatorParts = []string{"node-partition.io/node-partition/pkg/slices", "node-partition.io/node-partition/cmd/partition-generator"}

var rules = []rule{
	{packages: generatorParts, forbid: append([]string{"github.com/coreos/go-systemd/v22/daemon"}, dbus...),
		why: "the generator runs when there is no D-Bus"},
	{packages: generatorParts, forbid: []string{"net", "k8s.io/client-go", "google.golang.org/grpc"},
		why: "the generator runs when there is no network"},
	{packages: generatorParts, forbid: []string{"k8s.io/kubelet", "k8s.io/component-base", "github.com/prometheus"},
		why: "initialising what these import takes longer than the generator takes in all (docs/architecture.md)"},
	{packages: []string{"node-partition.io/node-partition/pkg", "node-partition.io/node-partition/internal"},
		except: []string{"node-partition.io/node-partition/internal/cluster", "node-partition.io/node-partition/internal/command", "node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/journallog"}, forbid: []string{"log", "k8s.io/klog"},
		why: "libraries return errors, programs log them"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/cmd/partition-monitor"},
		forbid: []string{"github.com/urfave/cli"},
		why:    "the commands turn flags into plain options, and nothing below them has a command line"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/cmd/partition-monitor", "node-partition.io/node-partition/internal/daemon"},
		forbid: []string{"github.com/prometheus/client_golang/prometheus"},
		why:    "only the monitor has metrics"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/internal/command/recommend"},
		forbid: []string{"github.com/prometheus/client_golang/api"}, direct: true,
		why: "one package asks a Prometheus"},
	{packages: []string{"node-partition.io/node-partition/cmd"}, forbid: []string{"node-partition.io/node-partition/tests"},
		why: "programs do not ship the lab"},
	{packages: []string{"node-partition.io/node-partition/pkg", "node-partition.io/node-partition/internal"}, forbid: []string{"node-partition.io/node-partition/tests", "node-partition.io/node-partition/cmd"},
		why: "libraries do not know programs"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/internal/systemd"}, forbid: dbus, direct: true,
		why: "one package speaks D-Bus, and gives others what they need of it"},
	{packages: []string{"node-partition.io/node-partition/pkg/podmove"}, forbid: []string{"github.com/prometheus/client_golang", "net/http"},
		why: "what is counted and shown is the program's to say; podmove notifies its Events"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/pkg/podmove/nri"}, forbid: []string{"github.com/containerd/nri"}, direct: true,
		why: "one package speaks NRI"},
	{packages: []string{"node-partition.io/node-partition/internal/partition"}, forbid: []string{"node-partition.io/node-partition", "os", "io", "net", "time", "k8s.io"}, direct: true,
		why: "what a partition is follows from what is known of it alone, and the generator links it"},
	{packages: []string{"node-partition.io/node-partition/internal/thresholds"}, forbid: []string{"node-partition.io/node-partition", "os", "io", "net", "k8s.io"}, direct: true,
		why: "thresholds are plain data, and the generator links them"},
	{packages: []string{"node-partition.io/node-partition/internal/budget"}, forbid: []string{"os", "io", "net", "time", "node-partition.io/node-partition/internal/host"},
		why: "a budget is computed from its input alone"},
	{packages: []string{"node-partition.io/node-partition/internal/sizing"}, except: []string{"node-partition.io/node-partition/internal/sizing/sizefile"},
		forbid: []string{"os", "io", "net", "node-partition.io/node-partition/internal/host"}, direct: true,
		why: "a limit is computed from its input alone"},
	{packages: []string{"node-partition.io/node-partition/internal/command"}, forbid: []string{"node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/cluster"},
		why: "the commands work without the daemon: what both read is in internal/node"},
	{packages: []string{"node-partition.io/node-partition/internal/daemon"}, forbid: []string{"node-partition.io/node-partition/internal/command"},
		why: "the daemon runs no command: what both read is in internal/node"},
	{packages: []string{"node-partition.io/node-partition/internal/command"}, except: []string{"node-partition.io/node-partition/internal/command/collect"},
		forbid: []string{"node-partition.io/node-partition/internal/command"},
		why:    "a command uses no other command; collect bundles what they write"},
	{packages: []string{"node-partition.io/node-partition/internal/node"},
		forbid: []string{"node-partition.io/node-partition/internal/command", "node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/cluster"},
		why:    "what the commands and the daemon share uses neither"},
	{packages: []string{"node-partition.io/node-partition/internal/installer/record", "node-partition.io/node-partition/internal/installer/sandbox"},
		forbid: []string{"os", "net", "os/exec", "node-partition.io/node-partition/internal/host"}, direct: true,
		why: "what the installer may do, and what it knows of a node, is plain data"},
	{packages: []string{"node-partition.io/node-partition"}, except: []string{"node-partition.io/node-partition/internal/installer", "node-partition.io/node-partition/cmd/partition-installer"},
		forbid: []string{"node-partition.io/node-partition/internal/installer"},
		why:    "the programs of a node do not know who brings them"},
	{packages: []string{"node-partition.io/node-partition/internal", "node-partition.io/node-partition/pkg"},
		except: []string{"node-partition.io/node-partition/internal/cluster", "node-partition.io/node-partition/internal/command", "node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/node"},
		forbid: []string{"node-partition.io/node-partition/internal/command", "node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/node"},
		why:    "the core and its libraries know no program"},
	{packages: []string{"node-partition.io/node-partition/internal"},
		except: []string{
			"node-partition.io/node-partition/internal/cluster", "node-partition.io/node-partition/internal/command", "node-partition.io/node-partition/internal/daemon", "node-partition.io/node-partition/internal/node",
			"node-partition.io/node-partition/internal/generator", // the whole of the generator but its main
			"node-partition.io/node-partition/internal/state",     // the types of both are in what is written with -o json
			"node-partition.io/node-partition/internal/installer", // decodes that
		},
		forbid: []string{"node-partition.io/node-partition/pkg/evict", "node-partition.io/node-partition/pkg/podmove"},
		why:    "a library does not use the core that uses it"},
	{packages: []string{"node-partition.io/node-partition/pkg/evict"}, forbid: []string{"node-partition.io/node-partition/pkg/podmove"},
		why: "placement and eviction meet in a table of pods that the program gives to both"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImports(t *testing.T) {
	lookAtSources(t)
	list := exec.Command("go", "list", "-tags=node", "-json=ImportPath,Imports", "./...")
	list.Dir = "../.."
	out, err := list.Output()
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
	for _, r := range rules {
		used := 0
		for path := range imports {
			if !underAny(path, r.packages) || underAny(path, r.except) {
				continue
			}
			used++
			for _, chain := range reach(imports, path, r.direct) {
				if underAny(chain[len(chain)-1], r.forbid) {
					t.Errorf("%s: %s", strings.Join(chain, " imports "), r.why)
				}
			}
		}
		if used == 0 {
			t.Errorf("no package is held to the rule %q", r.why)
		}
	}
}

// lookAtSources reads the folders of the module, so that go test runs this test again after a file
// in one has changed. go test caches a result by the files that the test itself has opened, and go
// list is another process.
func lookAtSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// under reports whether path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func underAny(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(path, prefix) })
}

// reach returns how path comes to its imports: directly, or through packages of ours too.
func reach(imports map[string][]string, path string, direct bool) [][]string {
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
			if !direct && under(next, "node-partition.io/node-partition") {
				walk(longer)
			}
		}
	}
	walk([]string{path})
	return chains
}
