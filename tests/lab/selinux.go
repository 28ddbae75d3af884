package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// permissive is for the first boot, which makes files that the policy has no label for. A kernel
// without SELinux ignores it.
const permissive = "enforcing=0"

// withSELinux returns the arguments of a kernel with SELinux. Denials are records of its audit.
func withSELinux(args []string) []string {
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "audit=0" })
	for i, arg := range args {
		if arg == securityModules {
			args[i] = strings.Replace(arg, "apparmor", "selinux", 1)
		}
	}
	return append(args, "audit=1", "audit_backlog_limit=8192")
}

// label gives each file of a tree the label of the tree's policy.
func label(ctx context.Context, tree string) error {
	if err := command(ctx, "", nil, "chroot", tree, "/bin/sh", "-e", "/usr/lib/lab/label.sh"); err != nil {
		return fmt.Errorf("labels of SELinux: %w", err)
	}
	return nil
}
