//go:build node

package e2e

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// withPassword is a web configuration. The password is "fakepassword".
const withPassword = "tls_server_config:\n  cert_file: node.crt\n  key_file: node.key\n" +
	"basic_auth_users:\n  prometheus: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n"

// TestFlood: an account of the node opens 20,000 connections to the monitor, does not read what it
// asks for, and asks without the password. The monitor stays far within its memory, evicts a pod
// that leaks before the kernel kills, and answers each scrape in time.
func TestFlood(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		flooder := filepath.Join(t.TempDir(), "flooder")
		if err := testkit.Build("node-partition.io/node-partition/tests/e2e/flooder", flooder); err != nil {
			t.Fatal(err)
		}
		e := newEvictor(t, flavour, lab.File{Path: "/usr/local/bin/flooder", Source: flooder, Mode: 0o755})
		const local = "127.0.0.1:9948"
		t.Run("without a password", func(t *testing.T) {
			e.flooded(t, "http://"+local+"/metrics", "", []string{"hold", local, "20000"}, []string{"deaf", local, "4"})
		})
		t.Run("with a password", func(t *testing.T) {
			w := webNode{e.Node}
			_, files := selfSigned(t, "node")
			w.configure(t, withPassword, files...)
			e.restarted(t, "--listen=0.0.0.0:9948 --web.config.file="+webFolder+"/web.yml")
			e.flooded(t, "https://"+local+"/metrics", "fakepassword", []string{"hold", local, "20000"}, []string{"ask", "https://" + local + "/metrics", "40"})
		})
	})
}

// flooded scrapes, floods the monitor and leaks.
func (e *evictor) flooded(t *testing.T, url, password string, floods ...[]string) {
	t.Helper()
	service := func(args ...string) {
		t.Helper()
		unit := "flooder-" + args[0]
		run(t, e.Node, "rm -f /run/"+unit+"; systemd-run --collect --unit="+unit+" -p User=nobody -p LimitNOFILE=65536 "+
			"-p StandardOutput=append:/run/"+unit+" flooder '"+strings.Join(args, "' '")+"'")
		t.Cleanup(func() { _, _ = e.Run(context.WithoutCancel(t.Context()), "systemctl stop "+unit) })
	}
	const scrapes = "/run/flooder-scrape"
	service("scrape", url, password)
	atLeast := func(n int, pattern, file string) {
		t.Helper()
		becomes(t, e.Node, "test $(grep -c '"+pattern+"' "+file+") -ge "+strconv.Itoa(n)+" && echo yes || true", "yes")
	}
	atLeast(2, "^scraped", scrapes)
	for _, args := range floods {
		service(args...)
	}
	atLeast(20, "^opened", "/run/flooder-hold") // 5,000
	name := "leaker-flood"
	e.leaks(t, leaker(name, "20Mi"))
	e.evicted(t, name)
	e.unharmed(t)
	e.remove(t, members, name)
	// All of them once. An emulated node accepts a hundred in a second, and far fewer beside others.
	for reports := 30; reports <= 80; reports += 10 {
		atLeast(reports, "^opened", "/run/flooder-hold")
	}
	atLeast(7, "^scraped", scrapes)
	if answers := run(t, e.Node, "cat "+scrapes); strings.Contains(answers, "failed") {
		t.Errorf("scrapes:\n%s", answers)
	} else {
		t.Logf("scrapes:\n%s", answers)
	}
	const cgroup = "/system.slice/" + monitorUnit
	peak, most := file(t, e.Node, cgroup, "memory.peak"), file(t, e.Node, cgroup, "memory.max")
	t.Logf("the monitor has taken %d of %d MiB; %s", peak>>20, most>>20, run(t, e.Node, "cd "+cgroupRoot+cgroup+" && cat cgroup.procs | xargs -I{} sh -c 'ls /proc/{}/fd | wc -l; grep VmHWM /proc/{}/status'"))
	if peak > most/2 {
		t.Error("more than half of what it may")
	}
	want(t, e.Node, "systemctl show -P NRestarts "+monitorUnit, "0")
}
