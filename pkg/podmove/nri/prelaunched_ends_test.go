package nri

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"golang.org/x/sys/unix"
)

// TestPrelaunchedEndsDuringRequest: a container is created although the plugin ends while the
// runtime waits for its answer, by itself or by a kill. The runtime does not wait for the end of
// the time that a request may take.
func TestPrelaunchedEndsDuringRequest(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"told to end": unix.SIGTERM, "killed": unix.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			adaptation.SetPluginRequestTimeout(time.Hour)
			t.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
			r := startPrelaunching(t, "", "91-"+nameWorks)
			// The plugin reads the members for its answer, and waits until someone writes them.
			members := filepath.Join(r.home, "members")
			if err := unix.Mkfifo(members, 0o600); err != nil {
				t.Fatal(err)
			}
			var answer *adaptation.CreateContainerResponse
			created := make(chan error)
			go func() {
				defer r.BlockPluginSync().Unblock()
				var err error
				answer, err = r.CreateContainer(t.Context(), request())
				created <- err
			}()
			writer, err := os.OpenFile(members, os.O_WRONLY, 0) // returns when the plugin reads
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			if err := unix.Kill(r.plugin(), signal); err != nil {
				t.Fatal(err)
			}
			if err := <-created; err != nil {
				t.Fatalf("the runtime would not create the container: %v", err)
			}
			if got := answer.GetAdjust().GetLinux().GetCgroupsPath(); got != "" {
				t.Errorf("placed at %q by a plugin that has not answered", got)
			}
			r.awaitEnd(r.plugin())
		})
	}
}

// TestPrelaunchedLinkLeadsNowhere: a runtime starts with a link whose program was removed, and
// starts the next plugin.
func TestPrelaunchedLinkLeadsNowhere(t *testing.T) {
	r := startPrelaunching(t, "kube-system", "10-"+nameMissing, "91-"+nameWorks)
	if got := r.create("kube-system"); got != placedSlice {
		t.Errorf("placed at %q, want %s", got, placedSlice)
	}
}
