// Package kubeletargs reads the command line of the kubelet that runs: what stands there wins over its configuration file, and
// says which file that is.
package kubeletargs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"

	"nodepartition/internal/hostfs"
)

// units are the cgroups of the kubelet's service: systemd's default, and that of Amazon EKS and of OpenShift. A process elsewhere that
// calls itself kubelet may be anybody's: a pod must not be able to speak for the kubelet.
var units = []string{
	"/sys/fs/cgroup/system.slice/kubelet.service",
	"/sys/fs/cgroup/runtime.slice/kubelet.service",
}

// maxBytes bounds what is read of /proc and of a cgroup; a command line has some kilobytes.
const maxBytes = 256 << 10

// ErrNotRunning says that no kubelet runs in a service of its own. With k3s and RKE2 it is a part of their process.
var ErrNotRunning = errors.New("no kubelet runs as kubelet.service")

// Process is the kubelet that runs.
type Process struct {
	PID  int
	Args []string
	Flags
}

// Running returns the kubelet of the node's kubelet.service.
func Running(root hostfs.FS) (Process, error) {
	for _, unit := range units {
		pids, err := root.ReadFile(path.Join(unit, "cgroup.procs"), maxBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Process{}, fmt.Errorf("kubelet's command line: %w", err)
		}
		for _, text := range strings.Fields(string(pids)) {
			pid, err := strconv.Atoi(text)
			if err != nil {
				continue
			}
			data, err := root.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid), maxBytes)
			if err != nil {
				continue // it has ended
			}
			args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
			if path.Base(args[0]) == "kubelet" {
				return Process{PID: pid, Args: args, Flags: Parse(args[1:])}, nil
			}
		}
	}
	return Process{}, ErrNotRunning
}

// Flags are those that bear on the partition; empty where they are not given.
type Flags struct {
	// Config is --config, ConfigDir --config-dir.
	Config, ConfigDir string
	// CgroupDriver is --cgroup-driver, ReservedCPUs --reserved-cpus, RuntimeEndpoint --container-runtime-endpoint.
	CgroupDriver, ReservedCPUs, RuntimeEndpoint string
	// FeatureGates are those of --feature-gates, nil without one.
	FeatureGates map[string]bool
}

// Parse reads a command line as the kubelet does (pflag, with _ in names for -): values follow behind = or as the next argument, and the
// last of two counts. Of a flag that it does not know it cannot tell whether the next argument is its value; that does no harm, because
// a value that begins with -- is none that a kubelet is given.
func Parse(args []string) Flags {
	var f Flags
	known := map[string]func(string){
		"config":                     func(v string) { f.Config = v },
		"config-dir":                 func(v string) { f.ConfigDir = v },
		"cgroup-driver":              func(v string) { f.CgroupDriver = v },
		"reserved-cpus":              func(v string) { f.ReservedCPUs = v },
		"container-runtime-endpoint": func(v string) { f.RuntimeEndpoint = v },
		"feature-gates":              f.addGates,
	}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			break
		}
		flag, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			continue
		}
		name, value, has := strings.Cut(flag, "=")
		set := known[strings.ReplaceAll(name, "_", "-")]
		if set == nil {
			continue
		}
		if !has {
			if i++; i == len(args) {
				break
			}
			value = args[i]
		}
		set(value)
	}
	return f
}

// addGates adds those of one --feature-gates, "A=true,B=false"; one flag adds to the other.
func (f *Flags) addGates(list string) {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			continue // the kubelet does not start with it
		}
		if f.FeatureGates == nil {
			f.FeatureGates = map[string]bool{}
		}
		f.FeatureGates[strings.TrimSpace(name)] = on
	}
}

// allAlpha is the gate that switches on all gates in alpha that nobody has named.
const allAlpha = "AllAlpha"

// GateOn reports whether an alpha gate is on in a kubelet whose configuration has these gates: its flags are merged over them
// (kubeletConfigFlagPrecedence, cmd/kubelet/app/server.go, v1.37.0). knows is asked, where AllAlpha is on, whether the kubelet has that gate.
func (f *Flags) GateOn(gate string, configured map[string]bool, knows func() bool) bool {
	gates := map[string]bool{}
	maps.Copy(gates, configured)
	maps.Copy(gates, f.FeatureGates)
	if on, named := gates[gate]; named {
		return on
	}
	return gates[allAlpha] && knows()
}
