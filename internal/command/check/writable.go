package check

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
)

// writable finds files of the configuration that others than root can write, by themselves or by a
// folder on the way. They are read all the same: to refuse them would end the partition. The owners
// of an unpacked archive differ from the node's.
func (c *checks) writable() []state.Finding {
	n := c.options.Node
	if n.Foreign {
		return nil
	}
	names := []string{kubeletconfig.SettingsPath}
	for _, looked := range c.desired.Kubelet.Looked {
		names = append(names, looked.Path) // also one that is missing, and may be made
	}
	switch c.options.Eviction.Kubeconfig {
	case node.KubeconfigNone:
	case node.KubeconfigAuto:
		if found, err := kubeapi.Find(n.Root); err == nil {
			names = append(names, found)
		}
	default:
		names = append(names, c.options.Eviction.Kubeconfig)
	}
	var found []state.Finding
	seen := map[string]bool{}
	for _, name := range names {
		path := n.Path(name)
		for _, way := range []string{path, resolved(path)} {
			//guard: a folder that others can write on the way to the configuration is found
			for ; !seen[way]; way = filepath.Dir(way) {
				seen[way] = true
				if why := othersWrite(way); why != "" {
					found = append(found, changing(
						state.Warning, fmt.Sprintf("chown root:root %[1]s && chmod go-w %[1]s", way),
						"%s %s: whoever writes it sets limits and CPUs of this node, by %s", way, why, name,
					)...)
				}
			}
		}
	}
	return found
}

// resolved returns a path without links.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// othersWrite returns how others than root can write a file, or replace files in a folder. It
// returns nothing for a link, whose target counts, and for what is not there.
func othersWrite(path string) string {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !ok:
		return ""
	case stat.Uid != 0 && stat.Uid != uint32(os.Geteuid()):
		return fmt.Sprintf("belongs to user %d", stat.Uid)
	case mode.IsDir() && mode&fs.ModeSticky != 0:
		return "" // the sticky bit: only its owner replaces a file
	case mode&0o002 != 0:
		return "can be written by all users"
	case mode&0o020 != 0 && stat.Gid != 0 && stat.Gid != uint32(os.Getegid()):
		return fmt.Sprintf("can be written by group %d", stat.Gid)
	}
	return ""
}
