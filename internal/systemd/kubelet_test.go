package systemd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/tests/testkit"
)

// podSettings lists what the kubelet can write to the cgroup of a pod: the fields of its
// ResourceConfig, and the keys of the field Unified. Each has the property that mirrors it, or the
// reason for which none does.
var podSettings = map[string]struct{ property, lost string }{
	"Memory":    {property: "MemoryMax"},
	"CPUShares": {property: "CPUWeight"},
	"CPUQuota":  {property: "CPUQuotaPerSecUSec"},
	"CPUPeriod": {property: "CPUQuotaPeriodUSec"},
	"PidsLimit": {property: "TasksMax"},
	"Unified":   {lost: "its keys are listed one by one"},
	// ResourceConfigForPod leaves it out. The kubelet sets it for kubepods.slice.
	"CPUSet":        {lost: "not set for a pod"},
	"HugePageLimit": {lost: "`hugetlb.*.max`"},

	"memory.min":  {property: "MemoryMin"},
	"memory.low":  {property: "MemoryLow"},
	"memory.high": {property: "MemoryHigh"},
	// kuberuntime sets it for containers.
	"memory.swap.max": {lost: "not set for a pod"},
}

// TestKubeletPodSettings: what a kubelet of the lab can write to the cgroup of a pod is mirrored
// in the partition, or known as lost and documented. It fails if a newer kubelet writes more.
func TestKubeletPodSettings(t *testing.T) {
	t.Parallel()
	properties := map[string]bool{}
	for _, p := range limitProperties(cgroups.NoLimits) {
		properties[p.Name] = true
	}
	page, err := os.ReadFile("../../docs/cgroups.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, setting := range podSettings {
		switch {
		case setting.property != "" && !properties[setting.property]:
			t.Errorf("%s: no property %s is set for the pod's slice in the partition", name, setting.property)
		case strings.HasPrefix(setting.lost, "`") && !strings.Contains(string(page), setting.lost):
			t.Errorf("%s: docs/cgroups.md does not say that %s is lost", name, setting.lost)
		}
	}
	for _, release := range []string{"1.35", "1.37"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			written := kubeletWrites(t, filepath.Join("../../tests/lab/sources", "kubernetes-"+release))
			for _, name := range []string{"Memory", "Unified", "memory.min"} {
				if !written[name] {
					t.Errorf("%s was not found in the kubelet's source: was it moved?", name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(written)) {
				if _, known := podSettings[name]; !known {
					t.Errorf("the kubelet can write %s: mirror it in Limits and limitProperties, or list it as lost", name)
				}
			}
		})
	}
}

// cgroupFile is the name of a file of a resource controller.
var cgroupFile = regexp.MustCompile(`^(memory|cpu|cpuset|io|pids|hugetlb|rdma|misc|dmem)\.[a-z.]+$`)

// readOnly are the files that the kubelet reads, and one of cgroup v1.
var readOnly = map[string]bool{"cpu.max": true, "cpu.weight": true, "memory.max": true, "memory.current": true, "cpu.shares": true}

// kubeletWrites returns the fields of ResourceConfig, and the files of controllers that package cm
// of a kubelet names. module is a folder whose go.mod requires the kubelet's.
func kubeletWrites(t *testing.T, module string) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = module
	version, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	source := testkit.NeedModule(t, module, "k8s.io/kubernetes@"+strings.TrimSpace(string(version)))
	files, err := filepath.Glob(filepath.Join(source, "pkg/kubelet/cm/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", source, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if fields, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "ResourceConfig" {
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							names[name.Name] = true
						}
					}
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && cgroupFile.MatchString(text) && !readOnly[text] {
					names[text] = true
				}
			}
			return true
		})
	}
	return names
}
