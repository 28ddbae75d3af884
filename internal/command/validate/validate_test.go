package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/generator/golden"
)

// goldenSize is the size of the node of the golden cases.
func goldenSize() config.Size {
	return config.Size{MemoryBytes: 4014980 << 10, CPUs: cpuset.New(0, 1, 2, 3)}
}

// judged returns the result of a file, and its text.
func judged(t *testing.T, o Options) (state.Validation, string) {
	t.Helper()
	r, err := File(o)
	if err != nil {
		t.Fatal(err)
	}
	var text, encoded bytes.Buffer
	var back state.Validation
	if err := errors.Join(WriteTable(&text, r), output.JSON(&encoded, r), json.Unmarshal(encoded.Bytes(), &back)); err != nil {
		t.Fatalf("%v:\n%s", err, &encoded)
	}
	if len(back.Problems) != len(r.Problems) || back.Valid != (len(r.Problems) == 0) || strings.Contains(encoded.String(), "null") {
		t.Errorf("%s", &encoded)
	}
	return r, text.String()
}

// TestSameWords: a file has the problems that the generator logs, in its words, for each golden
// case with one file that is at fault.
func TestSameWords(t *testing.T) {
	t.Parallel()
	cases, err := golden.Load("../../../tests/generator")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range cases {
		name, data := "", ""
		for _, place := range []string{kubeletconfig.OverridePath, "/" + golden.ConfigPath} {
			if text, ok := c.Files[place[1:]]; ok && len(c.Files) == 1 {
				name, data = place, text
			}
		}
		if c.Want.Status != 1 || name == "" || len(c.Remove) > 0 || !strings.Contains(data, "artition") {
			continue
		}
		compared++
		r, err := File(Options{Name: name, Data: []byte(data), Size: goldenSize()})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range r.Problems {
			got = append(got, "partition-generator: "+textOf(r.Problems[i]))
		}
		var want []string
		for line := range strings.Lines(c.Want.Messages) {
			line = strings.TrimSuffix(line, "\n")
			var more int
			if n, _ := fmt.Sscanf(line, "partition-generator: and %d more of these", &more); n == 1 && len(got) == len(want)+more {
				got = got[:len(want)] // the kernel log takes a few records
				break
			}
			if strings.Contains(line, "no partition is made") {
				break
			}
			want = append(want, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if compared < 40 {
		t.Errorf("%d cases: too few to show anything", compared)
	}
}

// TestSameWarnings: a file has the warnings that the generator logs of it, in its words, for each
// golden case with one file that is valid.
func TestSameWarnings(t *testing.T) {
	t.Parallel()
	cases, err := golden.Load("../../../tests/generator")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range cases {
		name := kubeletconfig.OverridePath
		data, ok := c.Files[name[1:]]
		if !ok || len(c.Files) != 1 || len(c.Remove) > 0 || c.Want.Status != 0 {
			continue
		}
		r, err := File(Options{Name: name, Data: []byte(data), Size: goldenSize()})
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]string, 0, len(r.Warnings)), []string{}
		for i := range r.Warnings {
			if !strings.Contains(r.Warnings[i].Message, "for user pods") { // of a capacity
				got = append(got, "partition-generator: "+textOf(r.Warnings[i]))
			}
		}
		for line := range strings.Lines(c.Want.Messages) {
			if strings.HasPrefix(line, "partition-generator: "+name+": ") {
				want = append(want, strings.TrimSuffix(line, "\n"))
			}
		}
		if compared += len(want); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if compared < 10 {
		t.Errorf("%d warnings: too few to show anything", compared)
	}
}

const oneFile = golden.KubeletHead + `systemPartition:
  memoryLimit: 12%
  memoryLimitMin: 300Mi
  memoryLimitMax: 4Gi
  cpuset: "0-1"
  namespaces: [kube-system]
workloadPartitions:
  batch: {memoryLimit: 1Gi, namespaceAnnotation: true}
`

// TestSizes: one file has other limits on nodes of other sizes, and what depends on a size that is
// not known is left out, and said so.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		memory, want uint64
		text         string
	}{
		{2 << 30, 300 << 20, "partition system: memoryLimit 300Mi, 12% of 2Gi by memoryLimitMin, evicts below 32Mi; CPUs 0-1; namespaces kube-system\n"},
		{4 << 30, 491 << 20, "memoryLimit 491Mi, 12% of 4Gi, evicts below 32Mi; "},
		{8 << 30, 983 << 20, "\nok        left for user pods: 6085Mi of 8Gi, 2 CPUs\n"},
		{64 << 30, 4 << 30, "memoryLimit 4Gi, 12% of 64Gi by memoryLimitMax, evicts below 204Mi; "},
		{0, 0, "memoryLimit 12% of the node's memory; "},
	} {
		size := config.Size{MemoryBytes: test.memory, CPUs: cpuset.New(0, 1, 2, 3)}
		if test.memory == 0 {
			size = config.Size{}
		}
		r, text := judged(t, Options{Name: "mine.yaml", Data: []byte(oneFile), Size: size})
		if !r.Valid || r.Partitions[0].MemoryLimitBytes != test.want || r.Partitions[0].Share != "12%" || r.Partitions[1].MemoryLimitBytes != 1<<30 {
			t.Errorf("%d: %+v", test.memory, r)
		}
		if !strings.Contains(text, test.text) || !strings.Contains(text, "mine.yaml is valid, as /etc/kubernetes/node-partition.yaml: 0 errors, 0 warnings\n") {
			t.Errorf("%d:\n%s\nwant %s", test.memory, text, test.text)
		}
		if left := strings.Contains(text, "left out  memoryLimit: the node's memory (--capacity, or --root=/ on the node); cpuset: the node's CPUs"); left != (test.memory == 0) {
			t.Errorf("%d:\n%s", test.memory, text)
		}
	}
}

// TestLeft: a file that leaves user pods next to nothing gets the warnings that plan gives of it.
// The kubelet's reservations count where they are known.
func TestLeft(t *testing.T) {
	t.Parallel()
	section := func(fields string) []byte {
		return []byte(golden.KubeletHead + "systemPartition: {namespaces: [kube-system], " + fields + "}\n")
	}
	size := config.Size{MemoryBytes: 7680 << 20, CPUs: cpuset.New(0, 1, 2, 3)}
	for _, test := range []struct{ fields, want string }{
		{"memoryLimit: 6812Mi", ""}, // 7680Mi - 100Mi, the default threshold, - 768Mi
		{"memoryLimit: 6813Mi", "memoryLimit: 6813Mi leaves 767Mi of the node's 7680Mi for user pods, with reservations and the eviction threshold: less than 10 %; want less"},
		{"memoryLimit: 99%", "memoryLimit: 7603Mi leaves 0 of the node's 7680Mi for user pods"},
		{`cpuset: "0-2"`, ""},
		{`cpuset: "0-3"`, "cpuset: 0-3 leaves user pods none of the node's CPUs 0-3 for themselves; want fewer, or no cpuset"},
		{"memoryLimit: 7Gi}\nmaxPods: 99\nkubeReserved: {memory: 300Mi", "memoryLimit: 7Gi leaves 112Mi of the node's 7680Mi for user pods"},
	} {
		r, text := judged(t, Options{Name: "mine.yaml", Data: section(test.fields), Size: size})
		var got string
		for _, w := range r.Warnings {
			if w.Field != "systemPartition" && !strings.Contains(w.Message, "the kubelet's own configuration") {
				got += w.Field + ": " + w.Message
			}
		}
		if !strings.HasPrefix(strings.TrimPrefix(got, "systemPartition."), test.want) || (got == "") != (test.want == "") || !r.Valid {
			t.Errorf("%s:\n%s\nwant %q", test.fields, text, test.want)
		}
	}
	r, text := judged(t, Options{Name: "mine.yaml", Data: section(`cpuset: "0-3"`), Size: size, Strict: true})
	if r.Valid || len(r.Problems) != 1 || r.Problems[0].Field != "systemPartition.cpuset" || len(r.Warnings) > 0 || len(r.Partitions) != 1 {
		t.Errorf("%+v\n%s", r, text)
	}
}

// TestFindings: problems and remarks have their file and field.
func TestFindings(t *testing.T) {
	t.Parallel()
	const text = golden.KubeletHead + `cgroupDriver: cgroupfs
cgroupRoot: /kube
systemPartitions: {}
systemPartition: {memoryLimit: 4GB, memoryLimits: 1, namespaces: [kube-system, a_b]}
workloadPartitions: {batch: {memoryLimit: 10%, namespaces: [jobs]}}
`
	r, shown := judged(t, Options{Name: "kubelet.yaml", Data: []byte(text), Size: goldenSize()})
	fields := func(list []state.Problem) (fields []string) {
		for _, f := range list {
			if f.File != "kubelet.yaml" || strings.HasPrefix(f.Message, "kubelet.yaml") {
				t.Errorf("%+v", f)
			}
			fields = append(fields, f.Field)
		}
		return fields
	}
	if got := fields(r.Problems); !slices.Equal(got, []string{
		"cgroupRoot", "systemPartition.namespaces[1]", "systemPartition.memoryLimit", "workloadPartitions.batch.memoryLimit",
	}) {
		t.Errorf("%q of\n%s", got, shown)
	}
	if got := fields(r.Warnings); !slices.Equal(got, []string{"", "", "systemPartition"}) || !strings.Contains(shown, "ignoring; known are memoryLimit, ") ||
		!strings.Contains(shown, "ignoring; known are systemPartition and workloadPartitions") {
		t.Errorf("%q of\n%s", got, shown)
	}
	if !strings.HasPrefix(shown, "kubelet.yaml is not valid, as the kubelet's own configuration (it has cgroupDriver): 4 errors, 3 warnings\n") || r.Valid || len(r.Partitions) > 0 {
		t.Errorf("%s", shown)
	}
	// What is valid, and not where it should be.
	r, shown = judged(t, Options{Name: "kubelet.yaml", Data: []byte(golden.KubeletHead + "maxPods: 9\nsystemPartition: {namespaces: [kube-system]}\n")})
	if !r.Valid || len(r.Warnings) != 1 || !strings.Contains(shown, "move the section to /etc/kubernetes/node-partition.yaml") {
		t.Errorf("%s", shown)
	}
	// A field that is indented wrongly does not make it the kubelet's.
	r, shown = judged(t, Options{Name: "mine.yaml", Data: []byte(golden.KubeletHead + "systemPartition: {memoryLimit: 9%, namespaces: [kube-system]}\ncpuset: '0'\n")})
	if !r.Valid || r.As != ours || len(r.Warnings) != 1 || !strings.Contains(shown, "is systemPartition.cpuset meant?") {
		t.Errorf("%s", shown)
	}
	// Another file.
	r, shown = judged(t, Options{Name: "x.yaml", Data: []byte("\tx")})
	if r.Valid || r.As != "" || r.Problems[0].Field != "" || !strings.HasPrefix(shown, "x.yaml is not valid: 1 error, 0 warnings\n") {
		t.Errorf("%+v\n%s", r, shown)
	}
}

// TestNodePartition: of a NodePartition the section is judged, as the controller does, and a file
// that has more than one is not judged in silence.
func TestNodePartition(t *testing.T) {
	t.Parallel()
	object := func(section string) string {
		return "apiVersion: node-partition.io/v1alpha1\nkind: NodePartition\nmetadata: {name: canary}\nspec:\n  nodeSelector: {}\n" + section
	}
	const good = "  section: {systemPartition: {namespaces: [kube-system], memoryLimit: 12%}}\n"
	n := fakenode.New(t, fakenode.Configuration(""))
	node := n.Host()
	for _, test := range []struct {
		text    string
		node    *host.Node
		valid   bool
		problem string
	}{
		{object(good), nil, true, ""},
		{object(good), &node, true, ""},
		{object(good) + "---\n" + object(good), nil, true, "warning   canary.yaml: has another YAML document, which is not judged: one NodePartition in a file at a time"},
		{object("  section: {systemPartition: {namespaces: [kube-system], memoryLimit: 4GB}}\n"), nil, false, `canary.yaml: systemPartition.memoryLimit: "4GB"`},
		{object("  section: {systemPartition: {namespaces: [a]}, maxPods: 5}\n"), nil, false, "canary.yaml: maxPods: unknown field"},
		{object("  section: {}\n"), nil, false, "systemPartition"},
		{object(""), nil, false, "want an object with the field systemPartition or workloadPartitions"},
	} {
		r, shown := judged(t, Options{Name: "canary.yaml", Data: []byte(test.text), Size: goldenSize(), Node: test.node})
		if r.Valid != test.valid || !strings.Contains(shown, "valid, as spec.section of a NodePartition: ") || !strings.Contains(shown, "beside spec.section, as monitorArgs") || !strings.Contains(shown, test.problem) ||
			len(r.Problems)+len(r.Warnings) > 0 != (test.problem != "") || test.valid && r.Partitions[0].MemoryLimitBytes == 0 {
			t.Errorf("%+v\n%s\nwant %q", test, shown, test.problem)
		}
	}
}

// TestNode: with a node, its memory of this boot, its CPUs and its other files count.
func TestNode(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("cgroupRoot: /kube\n"))
	n.Write("/proc/meminfo", "MemTotal: 8388608 kB\n")
	n.Write(config.MemoryFile, `{"totalBytes":4294967296}`)
	of := func() *host.Node { h := n.Host(); return &h }()
	r, shown := judged(t, Options{Name: "mine.yaml", Data: []byte(oneFile), Node: of})
	if r.Valid || len(r.NotChecked) > 0 || r.Problems[0].File != "/var/lib/kubelet/config.yaml" || r.Problems[0].Field != "cgroupRoot" {
		t.Errorf("%+v\n%s", r, shown)
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	r, shown = judged(t, Options{Name: "mine.yaml", Data: []byte(strings.Replace(oneFile, `"0-1"`, `"0"`, 1)), Node: of})
	if !r.Valid || r.Partitions[0].MemoryLimitBytes != 491<<20 {
		t.Errorf("%+v\n%s", r, shown)
	}
	// Another kubelet's file: the size of the node counts.
	r, shown = judged(t, Options{Name: "kubelet.yaml", Data: []byte(golden.KubeletHead +
		"maxPods: 9\nworkloadPartitions: {a: {memoryLimit: 9Gi}}\n"), Node: of})
	if r.Valid || !strings.Contains(shown, "is not below the node's memory of 8Gi") {
		t.Errorf("%s", shown)
	}
}

// TestHalvesOfCores: on a node whose CPUs 0 and 2, and 1 and 3, share a core, a partition of half a
// core gets a warning, where others run on the other half.
func TestHalvesOfCores(t *testing.T) {
	t.Parallel()
	const static = "cpuManagerPolicy: static\nreservedSystemCPUs: "
	for _, c := range []struct{ name, kubelet, fields, want string }{
		{"exclusive", "", `cpuset: "0-1", exclusive: true`, "cpuset: CPU 2-3 shares a core with CPUs of 0-1: "},
		{"whole cores", "", `cpuset: "0,2", exclusive: true`, ""},
		{"shared with all", "", `cpuset: "0-1"`, ""},
		{"the other half is assigned", static + `"0-2"`, `cpuset: "0-1"`, "cpuset: CPU 3 shares a core with CPUs of 0-1: "},
		{"the other half is reserved", static + `"0-3"`, `cpuset: "0-1"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := fakenode.New(t, fakenode.Configuration(c.kubelet+"\n"))
			for cpu, core := range []string{"0,2", "1,3", "0,2", "1,3"} {
				n.Write(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), core)
			}
			section := golden.KubeletHead + "systemPartition: {namespaces: [kube-system], " + c.fields + "}\n"
			of := n.Host()
			r, shown := judged(t, Options{Name: "mine.yaml", Data: []byte(section), Node: &of})
			if !r.Valid || strings.Contains(shown, "shares a core") != (c.want != "") || !strings.Contains(shown, c.want) {
				t.Errorf("want %q in\n%s", c.want, shown)
			}
		})
	}
}
