package main

import (
	"fmt"
	"syscall"
	"time"
)

const (
	// lifeOfChild is how long a child lives, and a link of the chain.
	lifeOfChild = 3 * time.Millisecond
	// pauseBetween is between two children.
	pauseBetween = time.Millisecond
)

// forks is what makes moving a container hard: by the time somebody has read its processes, there are others. The
// children do not exec, which would take longer than they live.
func forks([]string) error {
	if err := startChain(); err != nil {
		return err
	}
	ready()
	for {
		if err := startChild(); err != nil {
			return err
		}
		<-time.After(pauseBetween)
		reap()
	}
}

// reap takes in what has ended: as PID 1 of a container this is the parent of all orphans, which each link of the chain
// becomes.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && (err != nil || pid <= 0) {
			return
		}
	}
}

func startChild() error {
	life := syscall.NsecToTimespec(int64(lifeOfChild))
	if errno := forkChild(&life); errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	return nil
}

func startChain() error {
	life := syscall.NsecToTimespec(int64(lifeOfChild))
	if errno := forkChain(&life); errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	return nil
}
