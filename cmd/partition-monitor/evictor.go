package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/meminfo"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// evictionsFile keeps evictions that are not through, and the last ones.
const evictionsFile = config.StateDir + "/monitor/evictions.json"

// The flags of eviction.
const (
	flagEviction   = "eviction"
	flagSpare      = "eviction-spare"
	flagCooldown   = "eviction-cooldown"
	flagKubeconfig = "kubeconfig"
)

func evictionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagEviction, Usage: "on, off, or dry-run, which only reports", Value: "on"},
		&cli.StringFlag{Name: flagSpare, Usage: "`PODS` that are never evicted: none, kubelet, or a list of static, node-critical, cluster-critical",
			Value: evict.DefaultSpare.String()},
		&cli.DurationFlag{Name: flagCooldown, Usage: "how long the pods of a controller are restarted and not evicted again", Value: 5 * time.Minute},
		&cli.StringFlag{Name: flagKubeconfig, Usage: "`FILE` to tell the API server of evictions with; auto is the kubelet's, none is to restart the pods instead",
			Value: kubeconfigAuto},
	}
}

// evictionSettings are those flags.
type evictionSettings struct {
	off, dryRun bool
	spare       evict.Spare
	cooldown    time.Duration
	kubeconfig  string
}

func readEvictionFlags(c *cli.Context) (evictionSettings, error) {
	s := evictionSettings{cooldown: c.Duration(flagCooldown), kubeconfig: c.String(flagKubeconfig)}
	switch value := c.String(flagEviction); value {
	case "on":
	case "off":
		s.off = true
	case "dry-run":
		s.dryRun = true
	default:
		return s, usageError{fmt.Errorf("--%s=%s: want on, off or dry-run", flagEviction, value)}
	}
	var err error
	if s.spare, err = evict.ParseSpare(c.String(flagSpare)); err != nil {
		return s, usageError{fmt.Errorf("--%s=%w", flagSpare, err)}
	}
	if s.cooldown < 0 {
		return s, usageError{fmt.Errorf("--%s=%s: want 0 or more", flagCooldown, s.cooldown)}
	}
	if s.kubeconfig == "" {
		return s, usageError{fmt.Errorf("--%s: want a path, auto or none", flagKubeconfig)}
	}
	return s, nil
}

// config is what the configuration and the flags ask for.
func (s evictionSettings) config(t *thresholds) evict.Config {
	c := evict.Config{Spare: s.spare, Cooldown: s.cooldown, DryRun: s.dryRun, Off: s.off || t == nil}
	if t != nil {
		c.Limit, c.Hard, c.Soft, c.SoftGrace = t.Limit, t.Hard, t.Soft, t.SoftGrace
		c.MaxPodGrace, c.MinimumReclaim = t.MaxPodGrace, t.MinimumReclaim
	}
	return c
}

// kubeletPatience is how long after our start we evict nobody for want of the kubelet's word, where it serves its Pods API.
const kubeletPatience = 2 * time.Second

// newEvictor wires eviction to the rest.
func (m *monitor) newEvictor() *evict.Manager {
	fs := cgroupfs.FS(cgroupfs.Mount)
	capacity, started := memoryCapacity(), time.Now()
	burst, err := evict.MeasureBurst()
	if err != nil {
		m.log.Warn("eviction", "error", err)
	}
	m.log.Debug("the partition may grow as fast as", "bytesPerSecond", int64(burst))
	return evict.New(evict.Options{
		Cgroups: fs, Slice: unitname.CgroupPath(unitname.System.Slice()),
		Pods: func() []evict.Pod {
			known, told := m.kubelet.Pods()
			if !told && time.Since(started) < kubeletPatience && isSocket(m.settings.podsAPI) {
				return nil // its word on requests and priorities is about to come
			}
			found := m.table.Pods()
			listed := inventory(found, known, capacity)
			return append(listed, unlisted(fs, listed, known, capacity)...)
		},
		Refresh: m.reconciler.Urge,
		Scopes:  containerScopes(fs),
		Rest:    func(uid string) []string { return containerCgroups(m.table.Pods(), uid) },
		Kill:    func(cgroup string) error { return evict.KillCgroup(fs.Path(cgroup)) },
		Runtime: mover{runtime: m.runtime},
		Mark:    m.table.SetEvicting,
		API:     m.api,
		Store:   evict.Store(evictionsFile),
		LowerLimit: func(ctx context.Context) error {
			m.log.Info("the partition uses less than the lowered memory limit: reloading systemd to apply it")
			return m.units.Reload(ctx)
		},
		Events: evictionEvents{metrics: m.metrics, evictionJournal: evictionJournal{m.log}},
	})
}

// memoryCapacity is the node's memory in bytes. 0 where it cannot be read, which makes all estimates of requests 0.
func memoryCapacity() uint64 {
	total, _ := meminfo.Total("/")
	return uint64(total)
}

// readEvictions reads what the service has written down.
func readEvictions() (evict.History, error) {
	history, err := evict.Store(evictionsFile).Read()
	if errors.Is(err, os.ErrPermission) {
		return history, fmt.Errorf("%w; it has to be root", err)
	}
	return history, err
}
