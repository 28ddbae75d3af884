package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/audit"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/podsapi"
)

// gatherer reads one snapshot.
type gatherer struct {
	options Options
	cgroups cgroupfs.FS
	// kubelet is the running kubelet, nil without one.
	kubelet *kubeletargs.Process
	// missing lists what could not be read, with the reason.
	missing []string
}

func newGatherer(o Options) *gatherer { return &gatherer{cgroups: cgroupfs.Mount, options: o} }

// root is the root of the node's files.
const root = hostfs.FS("/")

// podsTimeout bounds the wait for the kubelet's pods. A kubelet that starts answers after seconds.
const podsTimeout = 10 * time.Second

// snapshot reads what all rules need.
func (g *gatherer) snapshot(ctx context.Context) (*audit.Snapshot, error) {
	s, err := g.pods(ctx)
	if err != nil {
		return nil, err
	}
	s.Node.PageSize = uint64(os.Getpagesize())
	if err := g.readCgroups(s); err != nil {
		return nil, err
	}
	g.readUnits(ctx, s)
	g.readSysctls(s)
	return s, nil
}

// cpus reads what the rule about the CPUs of the partition needs.
func (g *gatherer) cpus(ctx context.Context) (*audit.Snapshot, error) {
	s, err := g.pods(ctx)
	if err != nil {
		return nil, err
	}
	return s, g.readCpusets(s)
}

// pods reads the kubelet, the partition and the pods. The cgroups, which change with the pods, are
// read after them.
func (g *gatherer) pods(ctx context.Context) (*audit.Snapshot, error) {
	s := &audit.Snapshot{
		Time:    metav1.Now(),
		Cgroups: map[string]audit.Files{}, Units: map[string]audit.Unit{}, Sysctls: map[string]string{},
		Containers: map[string]audit.FirstProcess{},
	}
	if err := g.readKubelet(s); err != nil {
		return nil, err
	}
	g.readPartition(s)
	g.readPods(ctx, s)
	return s, nil
}

// maxFactBytes bounds a kernel file that holds one fact.
const maxFactBytes = 64 << 10

// readPods reads the pods of a kubelet that serves them.
func (g *gatherer) readPods(ctx context.Context, s *audit.Snapshot) {
	if !node.IsSocket(g.options.PodsAPI) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	pods, err := podsapi.List(ctx, g.options.PodsAPI)
	if err != nil {
		g.missing = append(g.missing, err.Error())
		return
	}
	s.Pods, s.PodsKnown = pods, true
}

// readPartition reads the section of the partition. A broken one is reported by check.
func (g *gatherer) readPartition(s *audit.Snapshot) {
	desired, err := node.ReadDesired()
	if err != nil {
		g.missing = append(g.missing, fmt.Sprintf("the partition's CPUs: %v", err))
		return
	}
	if p := desired.Partition; p != nil {
		s.Partition = &audit.Partition{CPUs: p.CPUs, Namespaces: p.Namespaces}
	}
}

// sysctls lists the kernel parameters that rules need, beside those that they are about.
var sysctls = []string{
	"vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
	"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", pidMax, threadsMax,
}

const (
	pidMax     = "kernel.pid_max"
	threadsMax = "kernel.threads-max"
)

// readSysctls reads the kernel parameters, and from two of them the number of processes that the
// node may have (Stats, pkg/kubelet/stats/pidlimit/pidlimit_linux.go).
func (g *gatherer) readSysctls(s *audit.Snapshot) {
	for _, name := range sysctls {
		text, err := root.ReadFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), maxFactBytes)
		if err == nil {
			s.Sysctls[name] = strings.TrimSpace(string(text))
		}
	}
	for _, name := range []string{pidMax, threadsMax} {
		limit, err := strconv.ParseInt(s.Sysctls[name], 10, 64)
		if err == nil && (s.Node.PIDs == 0 || limit < s.Node.PIDs) {
			s.Node.PIDs = limit
		}
	}
}

// oomScore reads the oom_score_adj of a process.
func oomScore(pid int) (int, bool) {
	text, err := root.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), maxFactBytes)
	if err != nil {
		return 0, false
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return score, err == nil
}
