package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage holds the CPU time of a node since its boot, by cgroup: services, init.scope, and slices
// other than system.slice. The root cgroup has the empty name. It counts the whole node, kernel
// threads included.
type usage map[string]time.Duration

// usage reads cpu.stat of the node's cgroups.
func (n *Node) usage(ctx context.Context) (usage, error) {
	out, err := n.Run(
		ctx,
		"cd /sys/fs/cgroup && grep -s ^usage_usec cpu.stat init.scope/cpu.stat *.slice/cpu.stat system.slice/*/cpu.stat; true",
	)
	if err != nil {
		return nil, err
	}
	return parseUsage(out)
}

func parseUsage(out string) (usage, error) {
	u := usage{}
	for line := range strings.Lines(out) {
		file, text, ok := strings.Cut(strings.TrimSpace(line), ":usage_usec ")
		if !ok {
			return nil, fmt.Errorf("CPU time of a node: %q: want FILE:usage_usec NUMBER", line)
		}
		µs, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("CPU time of a node: %q: %w", line, err)
		}
		group := strings.TrimSuffix(strings.TrimSuffix(file, "cpu.stat"), "/")
		if group == "system.slice" { // its services are counted instead
			continue
		}
		u[strings.TrimPrefix(group, "system.slice/")] = time.Duration(µs) * time.Microsecond
	}
	return u, nil
}

// since returns the CPU time used since an earlier reading: first the whole node, then each cgroup
// with at least a hundredth of that, largest first. It leaves out cgroups that are gone. A cgroup
// with less CPU time than before was removed and made again, and counts whole.
func (u usage) since(before usage) string {
	used := maps.Clone(u)
	for name, was := range before {
		if now, ok := used[name]; ok && now >= was {
			used[name] = now - was
		}
	}
	all := used[""]
	delete(used, "")
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), strings.Compare(a, b))
	})
	parts := []string{fmt.Sprintf("the node %.1f s", all.Seconds())}
	for _, name := range names {
		if used[name]*100 >= all {
			parts = append(parts, fmt.Sprintf("%s %.1f", name, used[name].Seconds()))
		}
	}
	return strings.Join(parts, ", ")
}
