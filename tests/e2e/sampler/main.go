// Command sampler runs on a node during a test and samples the cgroups of the containers of pods.
// The UIDs of the test's members begin with the prefix that it is given. At SIGTERM it prints its
// findings as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Found is the output.
type Found struct {
	Samples, Containers int
	// Misplaced counts how often a container was seen in the wrong partition, by its cgroup.
	Misplaced map[string]int
	// Unlimited counts samples in which the partition had no memory limit.
	Unlimited int
}

const kubepods = "/sys/fs/cgroup/kubepods.slice"

func main() {
	members := strings.ReplaceAll(os.Args[1], "-", "_")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	found := Found{Misplaced: map[string]int{}}
	containers := map[string]bool{}
	for {
		found.Samples++
		limit, err := os.ReadFile(filepath.Join(kubepods, "kubepods-system.slice/memory.max"))
		if err != nil || strings.TrimSpace(string(limit)) == "max" {
			found.Unlimited++
		}
		// Guaranteed pods are one level up from the others.
		for _, pattern := range []string{
			"*-pod*.slice/*.scope", "*.slice/*-pod*.slice/*.scope", "*.slice/*.slice/*-pod*.slice/*.scope",
		} {
			scopes, _ := filepath.Glob(filepath.Join(kubepods, pattern)) // the pattern is valid
			for _, scope := range scopes {
				look(scope, members, containers, &found)
			}
		}
		select {
		case <-end:
			found.Containers = len(containers)
			if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case <-time.After(200 * time.Millisecond): // more would be a load of its own on an emulated node
		}
	}
}

// firstProcess returns a process of a cgroup. It returns "" if there is none or the cgroup is gone.
func firstProcess(cgroup string) string {
	procs, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	if err != nil {
		return ""
	}
	pid, _, _ := strings.Cut(string(procs), "\n")
	return pid
}

// look counts a container that is misplaced.
func look(scope, members string, containers map[string]bool, found *Found) {
	if strings.HasPrefix(filepath.Base(scope), "crio-conmon-") {
		return
	}
	pid := firstProcess(scope)
	if pid == "" {
		pid = firstProcess(filepath.Join(scope, "container")) // crun puts it there
	}
	name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	if pid == "" || err != nil {
		return
	}
	// Count only the programs of the test's pods. Until the runtime executes them, and in sandboxes,
	// the process name differs from runtime to runtime.
	if comm := strings.TrimSpace(string(name)); comm != "sh" && comm != "sleep" {
		return
	}
	containers[scope] = true
	slice := filepath.Base(filepath.Dir(scope))
	_, uid, _ := strings.Cut(slice, "-pod")
	if strings.HasPrefix(uid, members) != strings.HasPrefix(slice, "kubepods-system") &&
		(strings.HasPrefix(uid, members) || strings.HasPrefix(uid, "5ee")) {
		found.Misplaced[scope]++
	}
}
