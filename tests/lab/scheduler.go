package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// schedulerArgs returns the arguments of the scheduler. There is only one, and it serves no
// requests.
func schedulerArgs(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0"}
}

// StartScheduler builds kube-scheduler if needed, starts it and returns when it has started. It
// ends with the control plane. From then on a pod need not name its node.
func (p *ControlPlane) StartScheduler(ctx context.Context) error {
	if p.scheduler != nil && p.scheduler.err() == nil {
		return errors.New("start the scheduler: it runs")
	}
	programs, err := p.cache.build(ctx, schedulerProgram(), p.progress)
	if err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	done := BeginStep(p.progress, "starting the scheduler")
	if err := p.startScheduler(ctx, filepath.Join(programs, "kube-scheduler")); err != nil {
		return errors.Join(fmt.Errorf("start the scheduler: %w", err), p.scheduler.kill())
	}
	done()
	return nil
}

func (p *ControlPlane) startScheduler(ctx context.Context, program string) error {
	const file = "scheduler.conf"
	kubeconfig, err := p.kubeconfig(loopback, "system:kube-scheduler")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.Dir, file), kubeconfig, 0o600); err != nil {
		return err
	}
	if p.scheduler, err = startDaemon(p.Dir, program, schedulerArgs(file)...); err != nil {
		return err
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	ctx, stop := whileRunning(ctx, p.scheduler)
	defer stop()
	return waitFor(ctx, "scheduler", pollInterval, func(context.Context) (bool, string, error) {
		messages, err := p.scheduler.messages()
		return strings.Contains(messages, "Starting Kubernetes Scheduler"), lastLines(messages, 3), err
	})
}
