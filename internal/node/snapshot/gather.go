// Package snapshot reads what the rules of internal/audit are applied to from the running node. It
// changes nothing.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/audit"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/node"
	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
)

// Read reads what all rules need from a node that has pods. missing lists what could not be read,
// with the reason. podsAPI is the socket of the kubelet's Pods API.
func Read(ctx context.Context, n host.Node, podsAPI string) (s *audit.Facts, missing []string, err error) {
	g := newGatherer(n, podsAPI)
	s, err = g.onNode(ctx, g.snapshot)
	return s, g.missing, err
}

// ReadCPUs reads what audit.PartitionCPUs needs, as Read does.
func ReadCPUs(ctx context.Context, n host.Node, podsAPI string) (*audit.Facts, error) {
	g := newGatherer(n, podsAPI)
	return g.onNode(ctx, g.cpus)
}

// gatherer reads one snapshot.
type gatherer struct {
	podsAPI string
	node    host.Node
	cgroups cgroupfs.FS
	// kubelet is the running kubelet, nil without one.
	kubelet *kubeletargs.Process
	// missing lists what could not be read, with the reason.
	missing []string
}

func newGatherer(n host.Node, podsAPI string) *gatherer {
	return &gatherer{node: n, cgroups: n.Cgroups, podsAPI: podsAPI}
}

// podsTimeout bounds the wait for the kubelet's pods. A kubelet that starts answers after seconds.
const podsTimeout = 10 * time.Second

// snapshot reads what all rules need.
func (g *gatherer) snapshot(ctx context.Context) (*audit.Facts, error) {
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
func (g *gatherer) cpus(ctx context.Context) (*audit.Facts, error) {
	s, err := g.pods(ctx)
	if err != nil {
		return nil, err
	}
	return s, g.readCpusets(s)
}

// pods reads the kubelet, the partition and the pods. The cgroups, which change with the pods, are
// read after them.
func (g *gatherer) pods(ctx context.Context) (*audit.Facts, error) {
	s := &audit.Facts{
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
func (g *gatherer) readPods(ctx context.Context, s *audit.Facts) {
	if err := g.node.Answers(); err != nil {
		s.PodsUnknown = err.Error()
		return
	}
	if !node.IsSocket(g.podsAPI) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	pods, err := podsapi.List(ctx, g.podsAPI)
	if err != nil {
		g.missing = append(g.missing, err.Error())
		return
	}
	s.Pods, s.PodsKnown = pods, true
}

// readPartition reads the section of the partition. A broken one is reported by check.
func (g *gatherer) readPartition(s *audit.Facts) {
	desired, err := node.ReadDesired(g.node)
	if err != nil {
		g.missing = append(g.missing, fmt.Sprintf("the partition's CPUs: %v", err))
		return
	}
	s.Members, s.Names = desired.Members(node.AllowedByFile(g.node)), desired.Names
	for i := range desired.Partitions {
		p := &desired.Partitions[i]
		s.Partitions = append(s.Partitions, audit.Section{Name: p.Name, CPUs: p.CPUs, Exclusive: p.Exclusive})
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
func (g *gatherer) readSysctls(s *audit.Facts) {
	for _, name := range sysctls {
		text, err := g.node.Root.ReadFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), maxFactBytes)
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
func (g *gatherer) oomScore(pid int) (int, bool) {
	text, err := g.node.Root.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), maxFactBytes)
	if err != nil {
		return 0, false
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return score, err == nil
}

// onNode takes a snapshot of a node that has pods.
func (g *gatherer) onNode(ctx context.Context, take func(context.Context) (*audit.Facts, error)) (*audit.Facts, error) {
	if err := g.node.NoCgroups(); err != nil {
		return nil, err
	}
	pods := g.cgroups.Path(unitname.Default.Slice())
	switch err := g.cgroups.Exists(unitname.Default.Slice()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"%s does not exist: the kubelet has not started yet, or does not use the cgroup driver systemd; there is nothing to audit", pods)
	case err != nil:
		return nil, err
	}
	return take(ctx)
}
