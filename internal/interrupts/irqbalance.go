package interrupts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/quantity"
	"nodepartition/pkg/slices/config"
)

const (
	// Service is the unit of irqbalance.
	Service = "irqbalance.service"
	// BansFile has variables for irqbalance. systemd reads it after the other files of its
	// environment.
	BansFile = config.StateDir + "/irqbalance.env"

	// listVariable has the CPUs that irqbalance leaves out, from version 1.8 on.
	listVariable = "IRQBALANCE_BANNED_CPULIST"
	// maskVariable has them as a mask. It wins if it is not empty.
	maskVariable = "IRQBALANCE_BANNED_CPUS"

	isolatedPath = "/sys/devices/system/cpu/isolated"
	nohzFullPath = "/sys/devices/system/cpu/nohz_full"
)

// Bans are the CPUs that irqbalance leaves out.
type Bans struct {
	// Without holds the CPUs that it leaves out without BansFile.
	Without cpuset.CPUSet
	// CPUs holds those that it leaves out with it.
	CPUs cpuset.CPUSet
	// byMask means that its environment has the mask, which would win over a list.
	byMask bool
}

// Banned returns the CPUs that an irqbalance leaves out by its environment. byEnvironment is false
// if the environment names none: then it leaves out the isolated and the nohz_full CPUs. A value
// that it cannot parse bans nothing, and "-" is written for that.
func Banned(env func(string) string) (cpus cpuset.CPUSet, byEnvironment bool) {
	if mask := strings.TrimSpace(env(maskVariable)); mask != "" {
		cpus, _ = ParseMask(mask)
		return cpus, true
	}
	if list := strings.TrimSpace(env(listVariable)); list != "" {
		cpus, _ = quantity.ParseCPUs(list)
		return cpus, true
	}
	return cpuset.New(), false
}

// NewBans returns the CPUs for an irqbalance that is started with an environment without BansFile:
// what it leaves out by itself, and those to keep interrupts off.
func NewBans(root hostfs.FS, env func(string) string, keep, online cpuset.CPUSet) (Bans, error) {
	var b Bans
	var byEnvironment bool
	if b.Without, byEnvironment = Banned(env); !byEnvironment {
		for _, name := range []string{isolatedPath, nohzFullPath} {
			cpus, err := readList(root, name)
			if err != nil {
				return b, err
			}
			b.Without = b.Without.Union(cpus)
		}
	}
	b.byMask = strings.TrimSpace(env(maskVariable)) != ""
	b.CPUs = b.with(keep, online)
	return b, nil
}

// readList reads a list of CPUs of the kernel. A kernel without the feature has no file, an empty
// one, or "(null)" in it.
func readList(root hostfs.FS, name string) (cpuset.CPUSet, error) {
	data, err := root.ReadFile(name, maxBytes)
	text := strings.TrimSpace(string(data))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && (text == "" || text == "(null)"):
		return cpuset.New(), nil
	case err != nil:
		return cpuset.New(), err
	}
	cpus, err := quantity.ParseCPUs(text)
	if err != nil {
		return cpus, fmt.Errorf("%s: %s: %w", name, oneline.Quote(text), err)
	}
	return cpus, nil
}

// with returns the CPUs to leave out for those to keep interrupts off. It adds none if no online
// CPU would be left.
func (b *Bans) with(keep, online cpuset.CPUSet) cpuset.CPUSet {
	all := b.Without.Union(keep)
	//guard: irqbalance has an online CPU
	if online.IsSubsetOf(all) {
		return b.Without
	}
	return all
}

// Suit reports whether b is right for the CPUs to keep interrupts off.
func (b *Bans) Suit(keep, online cpuset.CPUSet) bool { return b.CPUs.Equals(b.with(keep, online)) }

// Change reports whether irqbalance leaves out other CPUs with BansFile than without.
func (b *Bans) Change() bool { return !b.CPUs.Equals(b.Without) }

// withoutPrefix begins the line with Bans.Without, which irqbalance does not need.
const withoutPrefix = "# without: "

// text returns the content of BansFile. It has no variable if it changes nothing: what irqbalance
// leaves out by itself stays its decision.
func (b *Bans) text() string {
	var text strings.Builder
	text.WriteString("# Written by partition-generator when irqbalance starts, for " + setting + " in\n" +
		"# /etc/default/node-partition; what is changed here is lost.\n" +
		withoutPrefix + b.Without.String() + "\n")
	if b.Change() {
		fmt.Fprintf(&text, "%s=%s\n", listVariable, b.CPUs)
		if b.byMask {
			fmt.Fprintf(&text, "%s=%s\n", maskVariable, formatMask(b.CPUs))
		}
	}
	return text.String()
}

// ReadBans returns what irqbalance was last started with. It returns nil if that was without
// BansFile.
func ReadBans(root hostfs.FS) (*Bans, error) {
	data, err := root.ReadFile(BansFile, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := Bans{Without: cpuset.New()}
	list := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, withoutPrefix); ok {
			b.Without, _ = quantity.ParseCPUs(text) // empty for none
		}
		if text, ok := strings.CutPrefix(line, listVariable+"="); ok {
			list = text
		}
	}
	if b.CPUs = b.Without; list != "" {
		if b.CPUs, err = quantity.ParseCPUs(list); err != nil {
			return nil, fmt.Errorf("%s: %s: %w; a restart of irqbalance writes it again", BansFile, oneline.Quote(list), err)
		}
	}
	return &b, nil
}

// Write writes BansFile. systemd reads the whole of it, or none.
func (b *Bans) Write(root string) error {
	path := at(root, BansFile)
	temporary := path + ".new"
	err := os.MkdirAll(at(root, config.StateDir), 0o755)
	if err == nil {
		err = os.WriteFile(temporary, []byte(b.text()), 0o644)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // where there is one
	}
	return err
}

// RemoveBans removes BansFile.
func RemoveBans(root string) error {
	if err := os.Remove(at(root, BansFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Left reports whether something of this boot is to be put back when interrupts are not kept off
// CPUs any more.
func Left(root hostfs.FS) bool { return root.Exists(stateFile) || root.Exists(BansFile) }
