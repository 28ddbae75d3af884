//go:build node

package onnode

import (
	"errors"
	"syscall"
	"testing"
)

// TestReclaim: the kernel answers at once where it finds less to take back than it was asked for.
func TestReclaim(t *testing.T) {
	const cgroup = "reclaimprobe"
	shell(t, "mkdir "+tree.Path(cgroup))
	t.Cleanup(func() { shell(t, "rmdir "+tree.Path(cgroup)) })
	if err := tree.Reclaim(cgroup, 1<<30); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v, want EAGAIN", err)
	}
}
