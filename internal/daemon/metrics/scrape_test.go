package metrics

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// BenchmarkScrape compares a whole scrape, from the cgroups to the text, with only opening, reading
// and closing the same files. The target is at most twice as much. They alternate, so that both
// meet the same load of the machine. On a busy machine only the ratio of processor time is
// meaningful, because a scrape consists of goroutines that wait for each other.
func BenchmarkScrape(b *testing.B) {
	root := manyPods(b, 500)
	pods, files := partitionOf(b, root)
	m := served(options{Cgroups: root, Partitions: system(), Reports: pods, PerPod: true, ReadFailed: func(err error) { b.Error(err) }})
	handler := promhttp.HandlerFor(m, promhttp.HandlerOpts{DisableCompression: true})
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	buffer := make([]byte, 8<<10)
	var ours, bare, oursCPU, bareCPU []time.Duration
	for b.Loop() {
		start, startCPU := time.Now(), processorTime(b)
		handler.ServeHTTP(&nowhere{}, request)
		middle, middleCPU := time.Now(), processorTime(b)
		for _, file := range files {
			if err := bareRead(file, buffer); err != nil {
				b.Fatal(err)
			}
		}
		ours, oursCPU = append(ours, middle.Sub(start)), append(oursCPU, middleCPU-startCPU)
		bare, bareCPU = append(bare, time.Since(middle)), append(bareCPU, processorTime(b)-middleCPU)
	}
	b.ReportMetric(float64(len(pods.Pods)), "pods")
	b.ReportMetric(float64(median(ours).Microseconds()), "µs/scrape")
	b.ReportMetric(float64(median(bare).Microseconds()), "µs/bare-loop")
	b.ReportMetric(float64(median(ours))/float64(median(bare)), "ratio")
	b.ReportMetric(float64(median(oursCPU))/float64(median(bareCPU)), "cpu-ratio")
}

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// processorTime returns the CPU time of the whole process, including the garbage collector.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// bareRead opens, reads and closes a file.
func bareRead(path string, buffer []byte) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		if n, err := unix.Read(fd, buffer); n == 0 || err != nil {
			return err
		}
	}
}

// nowhere is an http.ResponseWriter that keeps nothing.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header {
	if n.header == nil {
		n.header = http.Header{}
	}
	return n.header
}
func (*nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (*nowhere) WriteHeader(int)             {}

// partitionOf returns the pods in the partition of a hierarchy, and the files that a scrape reads
// there.
func partitionOf(b *testing.B, root cgroups.FS) (r found, files []string) {
	b.Helper()
	all := []string{
		"memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.events", "memory.events.local",
		"cpu.stat", "cpu.weight", "pids.current", "pids.max", "memory.pressure", "cpu.pressure", "io.pressure",
	}
	add := func(cgroup string, names []string) {
		for _, name := range names {
			file := filepath.Join(cgroup, name)
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
	}
	pods := filepath.Join(string(root), "kubepods.slice")
	add(pods, all)
	top, err := root.Children("")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range top {
		if strings.HasSuffix(name, ".slice") && name != "kubepods.slice" {
			add(filepath.Join(string(root), name), []string{"memory.current", "memory.stat", "cpu.stat"})
		}
	}
	r.Time = time.Now()
	err = filepath.WalkDir(filepath.Join(pods, "kubepods-system.slice"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, qos, uid, ok := partition.ParsePodSlice(entry.Name()); ok {
			r.Pods = append(r.Pods, report.Pod{Namespace: "kube-system", Name: "pod-" + uid, UID: uid, QoS: v1.PodQOSClass(qos), Slice: entry.Name()})
			add(path, []string{"memory.current", "memory.stat", "cpu.stat"})
			return fs.SkipDir
		}
		add(path, all)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return r, files
}

// manyPods returns a copy of testdata/node with n copies of its burstable pod.
func manyPods(b *testing.B, n int) cgroups.FS {
	b.Helper()
	root := b.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/node")); err != nil {
		b.Fatal(err)
	}
	pod := func(uid string) string {
		return partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, uid))
	}
	for i := range n {
		to := filepath.Join(root, pod(fmt.Sprintf("ffffffff-0000-4000-8000-%012d", i)))
		if err := os.CopyFS(to, os.DirFS(filepath.Join("testdata/node", pod(uid+"2")))); err != nil {
			b.Fatal(err)
		}
	}
	return cgroups.FS(root)
}
