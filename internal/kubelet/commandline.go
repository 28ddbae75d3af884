package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// Service is the unit of the kubelet.
const Service = "kubelet.service"

const mount = partition.CgroupMount

// units lists the usual cgroups of the kubelet's service: systemd's default, and the one of Amazon
// EKS and OpenShift.
var units = []string{
	mount + "/system.slice/" + Service,
	mount + "/runtime.slice/" + Service,
}

// The bounds of a search for the service in other slices.
const (
	maxEntries = 10000
	maxDepth   = 4
)

// search returns the cgroups of the service in slices below dir, as SERVICES_SLICE or an operator's
// drop-in makes them. A process elsewhere that calls itself kubelet does not count: no pod must be
// able to pass for the kubelet. So it leaves out the slices of pods and of users.
func search(root host.Root, dir string, depth int) []string {
	entries, err := root.ReadDir(dir, maxEntries)
	if err != nil || depth > maxDepth {
		return nil
	}
	var found []string
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case !entry.IsDir():
		case name == Service && depth > 0:
			found = append(found, path.Join(dir, name))
		case strings.HasSuffix(name, ".slice") && name != "kubepods.slice" && name != "user.slice":
			found = append(found, search(root, path.Join(dir, name), depth+1)...)
		}
	}
	return found
}

// maxBytes bounds reads from /proc and from a cgroup. A command line has some kilobytes.
const maxBytes = 256 << 10

// ErrNotRunning means that no kubelet runs in a service of its own. With k3s and RKE2 the kubelet
// is a part of their process.
var ErrNotRunning = errors.New("no kubelet runs as kubelet.service")

// Process is the running kubelet.
type Process struct {
	PID  int
	Args []string
	Flags
}

// Running returns the kubelet of the node's kubelet.service.
func Running(root host.Root) (Process, error) {
	process, err := running(root, units)
	if errors.Is(err, ErrNotRunning) {
		return running(root, search(root, mount, 0))
	}
	return process, err
}

// running returns the kubelet in one of the cgroups.
func running(root host.Root, cgroups []string) (Process, error) {
	for _, unit := range cgroups {
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
				return Process{PID: pid, Args: args, Flags: parse(args[1:])}, nil
			}
		}
	}
	return Process{}, ErrNotRunning
}

// Flags holds the flags that bear on the partition and on the budget of the node. A flag that is
// not given is empty.
type Flags struct {
	// Config is --config, and ConfigDir --config-dir.
	Config, ConfigDir string
	// CgroupDriver is --cgroup-driver, and RuntimeEndpoint --container-runtime-endpoint.
	CgroupDriver, RuntimeEndpoint string
	// FeatureGates holds the gates of --feature-gates; nil without that flag.
	FeatureGates map[string]bool
	// RootDir is --root-dir, and Hostname --hostname-override.
	RootDir, Hostname string
	// IgnoreEviction is --experimental-allocatable-ignore-eviction.
	IgnoreEviction bool
	// Fields holds the values of flags that replace a field of the kubelet's configuration, by the
	// name of the field.
	Fields map[string]any
}

// switches lists the flags that take no value from the next argument.
var switches = []string{"cgroups-per-qos", "experimental-allocatable-ignore-eviction", "local-storage-capacity-isolation"}

// parse parses a command line as the kubelet does (pflag, with _ for - in names). A value follows
// behind = or as the next argument, and the last of two counts. Parse cannot know whether an
// unknown flag takes the next argument as its value. That does no harm, because no flag of the
// kubelet has a value that begins with --.
func parse(args []string) Flags {
	f := Flags{Fields: map[string]any{}}
	known := map[string]func(string){
		"config":                     func(v string) { f.Config = v },
		"config-dir":                 func(v string) { f.ConfigDir = v },
		"cgroup-driver":              func(v string) { f.CgroupDriver = v },
		"container-runtime-endpoint": func(v string) { f.RuntimeEndpoint = v },
		"feature-gates":              f.addGates,
		"root-dir":                   func(v string) { f.RootDir = v },
		"hostname-override":          func(v string) { f.Hostname = v },
		"experimental-allocatable-ignore-eviction": func(v string) { f.IgnoreEviction, _ = strconv.ParseBool(v) },
	}
	for flag, field := range fields {
		known[flag] = func(v string) {
			if value := field.add(f.Fields[field.name], v); value != nil {
				f.Fields[field.name] = value
			}
		}
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
		name = strings.ReplaceAll(name, "_", "-")
		set := known[name]
		switch {
		case set == nil:
			continue
		case !has && slices.Contains(switches, name):
			value = "true"
		case !has:
			if i++; i == len(args) {
				return f
			}
			value = args[i]
		}
		set(value)
	}
	return f
}

// addGates adds the gates of one --feature-gates, "A=true,B=false". Several flags add up.
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
