package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/tests/testkit"
)

func registry(t *testing.T) (*prometheus.Registry, prometheus.Gauge) {
	t.Helper()
	r := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_partition_test", Help: "A test."})
	r.MustRegister(gauge, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r, gauge
}

// TestRun: the file is written at once and again, may be read by others, and has nothing that
// node_exporter has. It stays when the service ends, and nothing else does. What another user has
// put in its place is replaced, and not followed.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		path, victim := filepath.Join(folder, file), filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("of another"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, filepath.Join(folder, "."+file+".new")} {
			if err := os.Symlink(victim, name); err != nil {
				t.Fatal(err)
			}
		}
		gatherer, gauge := registry(t)
		gauge.Set(1)
		written := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		result := make(chan error, 1)
		w := Textfile{Folder: folder, Gatherer: gatherer, Changed: func(err error) { written <- err }}
		go func() { result <- w.Run(ctx) }()
		for _, value := range []string{"1", "2"} {
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "\nkubelet_partition_test "+value+"\n") ||
				strings.Contains(string(text), "go_") || strings.Contains(string(text), "process_") {
				t.Errorf("%v\n%s", err, text)
			}
			gauge.Set(2)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("%v, %v; node_exporter is another user", info.Mode(), err)
		}
		if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 || info.Size() != int64(len("of another")) {
			t.Errorf("%v, %v: the file behind a link was changed", info, err)
		}
		stop()
		<-result
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 1 {
			t.Errorf("%v, %v after the end; want the file alone", entries, err)
		}
	})
}

// TestClaim: a file that an earlier run has written in another folder, or that is not asked for any
// more, is removed. The present one stays.
func TestClaim(t *testing.T) {
	t.Parallel()
	record, one, other := filepath.Join(t.TempDir(), "textfile"), t.TempDir(), t.TempDir()
	there := func(what, folder string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(folder, file)); (err == nil) != want {
			t.Errorf("%s: %v; want the file: %t", what, err, want)
		}
	}
	for _, step := range []struct {
		what, folder string
		one, other   bool
	}{
		{"the first", one, true, false}, {"a restart", one, true, false}, {"another folder", other, false, true},
		{"no more", "", false, false}, {"never", "", false, false},
	} {
		if err := ClaimTextfile(record, step.folder); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if step.folder != "" {
			if err := (Textfile{Gatherer: prometheus.NewRegistry()}).write(filepath.Join(step.folder, file)); err != nil {
				t.Fatal(err)
			}
		}
		there(step.what, one, step.one)
		there(step.what, other, step.other)
	}
	if err := errors.Join(RemoveTextfile(one), os.WriteFile(filepath.Join(one, file), nil, 0o600), RemoveTextfile(one)); err != nil {
		t.Error(err)
	}
	there("removed", one, false)
}

// sameTwice expects an error with a text, twice. Another text would be logged again.
func sameTwice(t *testing.T, w Textfile, path, want string) {
	t.Helper()
	first, second := w.write(path), w.write(path)
	if first == nil || second == nil || first.Error() != second.Error() || !strings.Contains(first.Error(), want) {
		t.Errorf("%v, then %v: want %q twice", first, second, want)
	}
}

// TestFolder: a folder that is missing, and a folder in the file's place, is an error.
func TestFolder(t *testing.T) {
	t.Parallel()
	gatherer, _ := registry(t)
	w := Textfile{Folder: filepath.Join(t.TempDir(), "missing"), Gatherer: gatherer}
	sameTwice(t, w, filepath.Join(w.Folder, file), w.Folder)
	taken := filepath.Join(t.TempDir(), file)
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	sameTwice(t, w, taken, taken)
}

// TestTextfilePart: metrics of which a part could not be gathered are written, and that is told.
// Without any the former file stays.
func TestTextfilePart(t *testing.T) {
	t.Parallel()
	gatherer, gauge := registry(t)
	desc := prometheus.NewDesc("kubelet_partition_broken", "A test.", nil, nil)
	broken := collectorFunc(func(to chan<- prometheus.Metric) {
		to <- prometheus.NewInvalidMetric(desc, errors.New("not UTF-8"))
	})
	w, path := Textfile{Gatherer: gatherer}, filepath.Join(t.TempDir(), file)
	for value, collector := range []prometheus.Collector{nil, broken} {
		if collector != nil {
			gatherer.MustRegister(collector)
		}
		gauge.Set(float64(value))
		err := w.write(path)
		if told := err != nil && strings.Contains(err.Error(), "a part is missing") && strings.Contains(err.Error(), "not UTF-8"); told != (collector != nil) {
			t.Errorf("%d: %v", value, err)
		}
		text, err := os.ReadFile(path)
		if want := fmt.Sprintf("kubelet_partition_test %d\n", value); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v\n%s; want %s", err, text, want)
		}
	}
	alone := prometheus.NewRegistry()
	alone.MustRegister(broken)
	before, _ := os.ReadFile(path)
	err := Textfile{Gatherer: alone}.write(path)
	if after, _ := os.ReadFile(path); err == nil || string(after) != string(before) {
		t.Errorf("%v\n%s", err, after)
	}
}

// collectorFunc is a collector that describes nothing.
type collectorFunc func(to chan<- prometheus.Metric)

func (collectorFunc) Describe(chan<- *prometheus.Desc)      { /* it is not checked then */ }
func (f collectorFunc) Collect(to chan<- prometheus.Metric) { f(to) }

// inNamespace is set in the process of TestFolderFull that mounts a file system.
const inNamespace = "TEXTFILE_IN_NAMESPACE"

// TestFolderFull: a full folder is an error, and the former file stays.
func TestFolderFull(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestFolderFull$")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = testkit.NeedNamespaces(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	gatherer, _ := registry(t)
	w := Textfile{Gatherer: gatherer}
	full := t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(full, 0) })
	path := filepath.Join(full, file)
	if err := os.WriteFile(path, []byte("the former\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sameTwice(t, w, path, full+"/.node_partition.prom.new: no space left")
	entries, err := os.ReadDir(full)
	text, _ := os.ReadFile(path)
	if err != nil || len(entries) != 1 || string(text) != "the former\n" {
		t.Errorf("%v, %v, %q", entries, err, text)
	}
}
