package textfile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"golang.org/x/sys/unix"

	"nodepartition/tests/needs"
)

func registry(t *testing.T) (*prometheus.Registry, prometheus.Gauge) {
	t.Helper()
	r := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_partition_test", Help: "A test."})
	r.MustRegister(gauge, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r, gauge
}

// TestRun: the file is written at once and again, may be read by others, and has nothing that
// node_exporter has. It stays when the service is restarted, and goes with the partition.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"restarted": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				folder := t.TempDir()
				path := filepath.Join(folder, file)
				gatherer, gauge := registry(t)
				gauge.Set(1)
				written := make(chan error)
				ctx, stop := context.WithCancel(t.Context())
				result := make(chan error, 1)
				w := Writer{Folder: folder, Gatherer: gatherer, Changed: func(err error) { written <- err }, Ended: func() bool { return ended }}
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
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o644 {
					t.Errorf("%v, %v; node_exporter is another user", info.Mode(), err)
				}
				stop()
				<-result
				entries, err := os.ReadDir(folder)
				if err != nil || len(entries) == 1 == ended {
					t.Errorf("%v, %v after the end", entries, err)
				}
			})
		})
	}
}

// sameTwice expects an error with a text, twice. Another text would be logged again.
func sameTwice(t *testing.T, w Writer, path, want string) {
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
	w := Writer{Folder: filepath.Join(t.TempDir(), "missing"), Gatherer: gatherer}
	sameTwice(t, w, filepath.Join(w.Folder, file), w.Folder)
	taken := filepath.Join(t.TempDir(), file)
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	sameTwice(t, w, taken, taken)
}

// inNamespace is set in the process of TestFolderFull that mounts a file system.
const inNamespace = "TEXTFILE_IN_NAMESPACE"

// TestFolderFull: a full folder is an error, and the former file stays.
func TestFolderFull(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestFolderFull$")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = needs.Namespaces(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	gatherer, _ := registry(t)
	w := Writer{Gatherer: gatherer}
	full := t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(full, 0) })
	path := filepath.Join(full, file)
	if err := os.WriteFile(path, []byte("the former\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sameTwice(t, w, path, path+": no space left")
	entries, err := os.ReadDir(full)
	text, _ := os.ReadFile(path)
	if err != nil || len(entries) != 1 || string(text) != "the former\n" {
		t.Errorf("%v, %v, %q", entries, err, text)
	}
}
