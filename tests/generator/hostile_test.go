package generator

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

// Limits of a run on hostile input.
const (
	maxCPUSeconds = "1"
	maxMemoryKiB  = 64 << 10
)

// TestHostileFiles: whatever is in the place of the configuration, the generator ends with a clear
// error, in less than a second of processor time and 64 MiB of memory, and writes no unit.
func TestHostileFiles(t *testing.T) {
	write := func(data string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	random := rand.NewChaCha8([32]byte{1})
	binary := make([]byte, 60<<10)
	_, _ = random.Read(binary)
	section := func(field, value string) string {
		return kubeletHead + "systemPartition:\n  memoryLimit: 1Gi\n  namespaces: [kube-system]\n  " + field + ": " + value + "\n"
	}
	// placing makes something else than a file.
	placing := func(place func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := place(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		make func(*testing.T, string)
		want string
	}{
		"100 MB": {placing(func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(goodConfig), 0o644), os.Truncate(path, 100e6))
		}), "too large"},
		"just above the limit": {write(goodConfig + "#" + strings.Repeat("x", 64<<10)), "too large"},
		"a tab":                {write("systemPartition:\n\tmemoryLimit: 4Gi\n"), "want spaces and no tabs"},
		"binary":               {write(string(binary)), "not YAML or JSON"},
		"zeroes":               {write(string(make([]byte, 60<<10))), "not YAML or JSON"},
		"a FIFO":               {placing(func(path string) error { return syscall.Mkfifo(path, 0o644) }), "not a regular file (a FIFO)"},
		"a directory":          {placing(func(path string) error { return os.Mkdir(path, 0o755) }), "not a regular file (a directory)"},
		"a device": {placing(func(path string) error {
			return syscall.Mknod(path, syscall.S_IFCHR|0o644, 1<<8|5) // /dev/zero
		}), "not a regular file (a device)"},
		"a symlink loop":           {placing(func(path string) error { return os.Symlink(filepath.Base(path), path) }), "too many levels of symbolic links"},
		"YAML aliases, doubling":   {write(bomb(30, 2, "x", 0)), "aliases expand"},
		"YAML aliases, below 99 %": {write(bomb(16, 2, "x", 4000)), "aliases expand"},
		"YAML aliases of a long string": {write(kubeletHead + "a: &a " + strings.Repeat("x", 30<<10) + "\nb: [" +
			strings.Repeat("*a,", 5000) + "]\n"), "aliases expand"},
		"a YAML alias of itself":    {write(kubeletHead + "a: &a [*a]\n"), "aliases expand"},
		"deep YAML":                 {write(strings.Repeat("[", 32<<10)), "not YAML or JSON"},
		"deep YAML, closed":         {write(kubeletHead + "systemPartition: {namespaces: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}\n"), "not a list of strings"},
		"deep JSON":                 {write(`{"a":` + strings.Repeat("[", 60<<10)), "not YAML or JSON"},
		"many YAML nodes":           {write(kubeletHead + "systemPartition: {namespaces: [" + strings.Repeat("a,", 31<<10) + "]}\n"), "has 31744 entries"},
		"many YAML maps":            {write(kubeletHead + "systemPartition: {namespaces: [" + strings.Repeat("{},", 21<<10) + "]}\n"), "not a list of strings"},
		"a CPU range of billions":   {write(section("cpuset", `"0-4294967294"`)), "names CPUs beyond 8191"},
		"CPU ranges over and over":  {write(section("cpuset", `"`+strings.Repeat("0-8191,", 8000)+`0"`)), "again and again"},
		"reserved CPUs of billions": {write("reservedSystemCPUs: 0-4294967294\n" + section("cpuset", `"0"`)), "reservedSystemCPUs"},
		"a quantity of many digits": {write(section("memoryLimit", `"`+strings.Repeat("9", 50<<10)+`"`)), "is not a quantity"},
		"a quantity to the power":   {write(section("memoryLimit", "1e999999999")), "is not a quantity"},
		"a grace of many digits":    {write(section("evictionSoftGracePeriod", "{memory.available: "+strings.Repeat("9", 50<<10)+"s}")), "is not a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t, "02-no-configuration")
			path := filepath.Join(root, configPath)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			test.make(t, path)
			got := runBounded(t, root)
			if got.Status != 1 || !strings.Contains(got.Messages, test.want) {
				t.Errorf("status %d, it says %.300q; want status 1 and %q", got.Status, got.Messages, test.want)
			}
			if !strings.Contains(got.Messages, "/"+configPath) {
				t.Errorf("it does not name the file: %.300q", got.Messages)
			}
			if made := partitionUnits(got.Units); len(made) > 0 {
				t.Errorf("it makes units: %q", made)
			}
		})
	}
}

// partitionUnits returns the names of the units beside those that wait for a repair.
func partitionUnits(units map[string]string) []string {
	return slices.DeleteFunc(golden.Names(units), func(name string) bool {
		return strings.HasPrefix(name, "partition-generator-") || name == "slices.target.d/50-node-partition.conf"
	})
}

// bomb returns YAML whose last alias expands to width^levels values.
func bomb(levels, width int, value string, padding int) string {
	var b strings.Builder
	b.WriteString(kubeletHead)
	fmt.Fprintf(&b, "pad: [%s]\n", strings.Repeat("p,", padding))
	fmt.Fprintf(&b, "a0: &a0 [%s]\n", strings.Repeat(value+",", width))
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), width))
	}
	return b.String()
}

// TestHostileStrings puts text that could end a setting, start another one or be expanded into
// every string field, and into the settings. None of it reaches a unit or splits a message.
func TestHostileStrings(t *testing.T) {
	const marker = "Evil"
	values := []string{
		marker + "\n[Service]\nExecStart=/bin/" + marker, marker + "\r\nMemoryMax=infinity", marker + "\\\nMemoryMax=1",
		"%n" + marker + "%%", "[Slice] " + marker, "]" + marker, "# " + marker, "; " + marker, `"` + marker, "'" + marker, "`" + marker + "`",
		marker + "\x00", marker + "\x1b[31m", "\u2028" + marker, "$(" + marker + ")", marker + strings.Repeat("A", 20000),
	}
	fields := []string{
		"systemPartition.memoryLimit", "systemPartition.cpuset", "systemPartition.namespaces.0", "systemPartition.evictionHard.memory.available",
		"systemPartition.evictionHard.KEY", "systemPartition.evictionSoft.memory.available",
		"systemPartition.evictionSoftGracePeriod.memory.available", "systemPartition.evictionMinimumReclaim.memory.available",
		"systemPartition.evictionMaxPodGracePeriod", "systemPartition.memoryHigh", "systemPartition.KEY", "systemPartition", "cgroupDriver", "cgroupRoot", "reservedSystemCPUs",
		"cpuManagerPolicy", "apiVersion", "kind", "KUBELET_CONFIG", "KUBELET_CONFIG_DIR", "DROPIN",
	}
	for _, field := range fields {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			for _, value := range values {
				root := newRoot(t, "02-no-configuration")
				placeString(t, root, field, value)
				got := runBounded(t, root)
				// The name of a drop-in may be in SourcePath= if it has no special characters. The name of a
				// file that is waited for may be in PathExists=.
				plainName := (field == "DROPIN" || field == "KUBELET_CONFIG") && strings.Trim(value, "EvilA\x00") == ""
				for name, content := range got.Units {
					if strings.Contains(name+content, marker) && !plainName {
						t.Errorf("%.60q reaches %s:\n%.500s", value, name, content)
					}
					if strings.ContainsAny(content, "%\\\x00\r") {
						t.Errorf("%.60q: %s holds special characters:\n%.500s", value, name, content)
					}
				}
				for line := range strings.Lines(got.Messages) {
					if !strings.HasPrefix(line, "partition-generator: ") || strings.ContainsAny(line, "\x00\x1b\r") {
						t.Errorf("%.60q splits or colours a message: %q", value, line)
					}
					if len(line) > 1000 {
						t.Errorf("%.60q makes a message of %d bytes", value, len(line))
					}
				}
				if got.Status != 0 && got.Messages == "" {
					t.Errorf("%.60q: fails without a message", value)
				}
			}
		})
	}
}

// placeString writes a configuration that has value in one place and is valid otherwise.
func placeString(t *testing.T, root, field, value string) {
	t.Helper()
	quoted := func(s string) string {
		var b strings.Builder
		b.WriteByte('"')
		for _, c := range []byte(s) {
			if c < ' ' || c == '"' || c == '\\' {
				fmt.Fprintf(&b, `\u%04x`, c)
				continue
			}
			b.WriteByte(c)
		}
		b.WriteByte('"')
		return b.String()
	}
	fields := map[string]string{
		"apiVersion": `"kubelet.config.k8s.io/v1beta1"`, "kind": `"KubeletConfiguration"`, "cgroupDriver": `"systemd"`,
		"systemPartition": "",
	}
	section := map[string]string{"memoryLimit": `"1Gi"`, "cpuset": `"0-1"`, "namespaces": `["kube-system"]`}
	object := func(m map[string]string) string {
		parts := make([]string, 0, len(m))
		for k, v := range m {
			parts = append(parts, quoted(k)+": "+v)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	name, ok := strings.CutPrefix(field, "systemPartition.")
	signals, isSignal := strings.CutSuffix(name, ".memory.available")
	switch {
	case field == "KUBELET_CONFIG" || field == "KUBELET_CONFIG_DIR":
		write(t, root, "etc/default/node-partition", field+"=\"/"+value+"\"\n")
	case field == "DROPIN":
		base := strings.NewReplacer("/", "", "\x00", "").Replace(value)
		name := filepath.Join("etc/openshift/kubelet.conf.d", base[:min(len(base), 200)]+".conf")
		write(t, root, name, kubeletHead+"systemPartition: {memoryLimit: 2Gi}\n")
	case name == "namespaces.0":
		section["namespaces"] = "[" + quoted(value) + "]"
	case isSignal:
		section[signals] = `{"memory.available": ` + quoted(value) + "}"
	case name == "evictionHard.KEY":
		section["evictionHard"] = "{" + quoted(value) + `: "1Mi"}`
	case name == "KEY":
		section[value] = "1"
	case ok:
		section[name] = quoted(value)
	default:
		fields[field] = quoted(value)
	}
	if fields["systemPartition"] == "" {
		fields["systemPartition"] = object(section)
	}
	configure(t, root, object(fields))
}

// TestHostileDropins: too many files, too many bytes, links in a circle.
func TestHostileDropins(t *testing.T) {
	const dir = "etc/openshift/kubelet.conf.d"
	// filled writes n files with the same text.
	filled := func(n int, ext, text string) func(dir string) error {
		return func(dir string) (err error) {
			for i := range n {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ext)), []byte(text), 0o644))
			}
			return err
		}
	}
	var wide strings.Builder
	for i := range 7000 {
		fmt.Fprintf(&wide, "k%d: 0\n", i)
	}
	for name, test := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"many entries":     {filled(1100, ".txt", ""), "more than 1000 entries"},
		"many bytes":       {filled(10, ".conf", kubeletHead+"#"+strings.Repeat("x", 60<<10)), "with its drop-ins"},
		"many heavy files": {filled(4, ".conf", kubeletHead+"maxPods: ["+strings.Repeat("{},", 20<<10)+"]"), ""},
		"a wide main file and many drop-ins": {func(dir string) error {
			main := filepath.Join(dir, "../../../"+configPath)
			return errors.Join(os.WriteFile(main, []byte(goodConfig+wide.String()), 0o644), filled(900, ".conf", kubeletHead+"k: {}\n")(dir))
		}, ""},
		"a FIFO":                         {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "10.conf"), 0o644) }, "a FIFO"},
		"a link into nowhere":            {func(dir string) error { return os.Symlink("/nowhere", filepath.Join(dir, "10.conf")) }, "no such file"},
		"a link to the directory itself": {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "10.conf")) }, "a directory"},
		"deep folders":                   {func(dir string) error { return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 100)), 0o755) }, "directories deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t, "01-kubeadm")
			path := filepath.Join(root, dir)
			if err := errors.Join(os.MkdirAll(path, 0o755), test.make(path)); err != nil {
				t.Fatal(err)
			}
			got := runBounded(t, root)
			if test.want == "" {
				if got.Status != 0 || len(got.Units) == 0 {
					t.Errorf("got %+v, want the partition", got)
				}
				return
			}
			if got.Status != 1 || !strings.Contains(got.Messages, test.want) || !strings.Contains(got.Messages, "/"+dir) || len(partitionUnits(got.Units)) > 0 {
				t.Errorf("got %+v, want status 1, %q and no partition", got, test.want)
			}
		})
	}
}

// runBounded is run within the limits: the kernel kills a run that takes more processor time than
// allowed, and the largest resident set is checked afterwards.
func runBounded(t *testing.T, root string) result {
	t.Helper()
	cmd := command(root)
	prlimit := testkit.NeedProgram(t, "prlimit", "util-linux")
	cmd.Args = append([]string{"prlimit", "--cpu=" + maxCPUSeconds, "--", program}, cmd.Args[1:]...)
	cmd.Path = prlimit
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if !cmd.ProcessState.Exited() {
		t.Fatalf("ended by %v, after %v of processor time", cmd.ProcessState, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	if rss := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; rss > maxMemoryKiB {
		t.Errorf("takes %d KiB of memory, want at most %d", rss, maxMemoryKiB)
	}
	return result{
		Status:   cmd.ProcessState.ExitCode(),
		Messages: strings.ReplaceAll(stderr.String(), root, "ROOT"),
		Units:    golden.ReadUnits(t, root),
	}
}

// TestManyMistakes: a file of the kubelet with 16,000 names that are none is refused within the
// bounds.
func TestManyMistakes(t *testing.T) {
	var file strings.Builder
	file.WriteString(kubeletHead + "\nsystemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\nworkloadPartitions:\n")
	for i := range 8 {
		names := strings.Repeat("A,", 999)
		fmt.Fprintf(&file, "  a%d: {namespaces: [%sA], allowedNamespaces: [%sA]}\n", i, names, names)
	}
	root := newRoot(t, "01-kubeadm")
	if err := os.WriteFile(filepath.Join(root, configPath), []byte(file.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := runBounded(t, root); got.Status != 1 || !strings.Contains(got.Messages, "is not the name of a namespace") {
		t.Errorf("status %d, %.300s", got.Status, got.Messages)
	}
}
