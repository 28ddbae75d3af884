//go:build node

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// scrapes scrapes the metrics of the monitor, one scrape after the other with a pause between them,
// until end is called. A scrape is refused while the monitor restarts. No series of the first may
// be missing for longer than the interval of a Prometheus: it would miss two scrapes.
func scrapes(t *testing.T, n *lab.Node, pause time.Duration) (end func()) {
	t.Helper()
	// A scrape has its own time, also the last one. Prometheus gives up after 10 s, and an emulated
	// node is slow.
	const patience = 30 * time.Second
	ended, done := make(chan error, 1), make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	t.Cleanup(stop)
	ctx := context.WithoutCancel(t.Context())
	answered := 0
	const interval = 30 * time.Second
	var first map[string]bool
	missing := map[string]time.Time{} // since when
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			scrape, cancel := context.WithTimeout(ctx, patience)
			body, refused := n.Get(scrape, monitorURL+"/metrics")
			cancel()
			has := map[string]bool{}
			if refused == nil {
				answered++
				has = series(string(body))
			}
			if first == nil && refused == nil {
				first = has
			}
			var err error
			if refused == nil && len(has) == 0 {
				err = fmt.Errorf("none of our metrics in %d bytes", len(body))
			}
			for one := range first {
				switch since, is := missing[one]; {
				case has[one]:
					delete(missing, one)
				case !is:
					missing[one] = time.Now()
				case time.Since(since) > interval:
					err = fmt.Errorf("series %s is missing for more than %s: %w", one, interval, refused)
				}
			}
			if err != nil {
				ended <- fmt.Errorf("after %d scrapes: %w", answered, err)
				return
			}
			select {
			case <-done:
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		t.Helper()
		stop()
		if err := <-ended; err != nil || answered < 2 {
			t.Errorf("%d scrapes had an answer; then %v", answered, err)
		}
		t.Logf("%d scrapes", answered)
	}
}

// series returns the series of ours in a scrape, without those that name the version of a program.
func series(scraped string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(scraped) {
		ours := strings.HasPrefix(line, "nodepartition_") || strings.HasPrefix(line, "kubelet_partition_")
		if end := strings.LastIndex(line, " "); ours && end > 0 && !strings.Contains(line, "version=") {
			all[line[:end]] = true
		}
	}
	return all
}

// TestPackage: nothing but the package and the section give a node its partition. Another package
// over it, under load, restarts the monitor and touches no pod. Its removal
// restarts no pod, and without the section it leaves the node as it was. A purge leaves no file.
func TestPackage(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		// Built before the node takes its place on the host.
		files := append(
			protectingNoPod(flavour),
			lab.File{Path: "/root/1.deb", Data: packageOf(t, "", "1"), Mode: 0o644},
			lab.File{Path: "/root/2.deb", Data: packageOf(t, "", "2"), Mode: 0o644},
		)
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl daemon-reload")
		before, processes := bareNode(t, n), run(t, n, podPIDs)

		t.Run("installed", func(t *testing.T) {
			t.Log(run(t, n, "dpkg -i /root/1.deb 2>&1"))
			want(t, n, ourUnits, onlyWaits)
			want(t, n, podPIDs, processes)
			want(t, n, "test -e "+systemCgroup+" || echo none", "none")
		})
		t.Run("section written", func(t *testing.T) {
			document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partitionOf("512Mi", "0-1")
			if err := n.WriteFile(t.Context(), kubeletconfig.OverridePath, []byte(document), 0o644); err != nil {
				t.Fatal(err)
			}
			becomes(t, n, "systemctl is-active "+systemSlice+" || true", "active")
			wantLimits(t, n, "536870912", "0-1")
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			ready(t, n)
		})
		t.Run("upgraded under load", func(t *testing.T) {
			run(t, n, "for i in 1 2; do systemd-run --quiet --unit=load-$i sh -c 'while :; do :; done'; done")
			replaced(t, n, "-2", func() {
				scraped := scrapes(t, n, 0)
				t.Log(run(t, n, "dpkg -i /root/2.deb 2>&1"))
				ready(t, n)
				scraped()
			})
			// The disk of the lab has no documentation of packages.
			want(t, n, "dpkg -V node-partition | grep -v ' /usr/share/' || true", "")
			run(t, n, "systemctl stop 'load-*'")
			run(t, n, "sed -i s/512Mi/520Mi/ "+kubeletconfig.OverridePath)
			becomes(t, n, "cat "+systemCgroup+"/memory.max", "545259520")
		})
		t.Run("removed beside its partition", func(t *testing.T) {
			processes := run(t, n, podPIDs)
			t.Log(run(t, n, "dpkg -r node-partition 2>&1"))
			want(t, n, podPIDs, processes)
			want(t, n, "cat "+systemCgroup+"/memory.max", "max")
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			// Another installation takes it over.
			t.Log(run(t, n, "dpkg -i /root/2.deb 2>&1"))
			becomes(t, n, "cat "+systemCgroup+"/memory.max", "545259520")
			ready(t, n)
			want(t, n, podPIDs, processes)
		})
		t.Run("removed after its section", func(t *testing.T) {
			run(t, n, "rm "+kubeletconfig.OverridePath+" && systemctl daemon-reload")
			t.Log(run(t, n, "dpkg -r node-partition 2>&1"))
			before.removed(t, n)
		})
		t.Run("purged", func(t *testing.T) {
			run(t, n, "mkdir -p /var/lib/node-partition/sizes && touch /var/lib/node-partition/sizes/1 /var/lib/node-partition/mine")
			t.Log(run(t, n, "dpkg -P node-partition 2>&1"))
			want(t, n, "find /var/lib/node-partition", "/var/lib/node-partition\n/var/lib/node-partition/mine")
			run(t, n, "rm -r /var/lib/node-partition")
			before.purged(t, n)
		})
	})
}
