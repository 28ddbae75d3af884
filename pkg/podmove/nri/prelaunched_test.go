package nri

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestMain runs this program as a plugin if a runtime of a test has started it, by a link in its
// folder of plugins. The name of the link selects the behaviour.
func TestMain(m *testing.M) {
	if !IsPrelaunched() {
		os.Exit(m.Run())
	}
	switch os.Getenv(api.PluginNameEnvVar) {
	case nameExits:
		os.Exit(1)
	case nameHangs:
		// The runtime waits for its registration until then, and the plugin that works has all the time
		// that the library gives it.
		<-time.After(time.Second)
		fd, err := strconv.Atoi(os.Getenv(api.PluginSocketEnvVar))
		if err != nil || unix.Close(fd) != nil {
			os.Exit(3)
		}
		for {
			<-time.After(time.Hour)
		}
	}
	home := filepath.Dir(filepath.Dir(os.Args[0]))
	if err := os.WriteFile(filepath.Join(home, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	_ = ServePrelaunched(ctx, &Prelaunched{
		Config: func() (podmove.Policy, error) {
			members, err := os.ReadFile(filepath.Join(home, "members"))
			return podmove.Policy{Partitions: []decision.Partition{
				{Name: partition.System, Namespaces: strings.Fields(string(members))},
			}}, err
		},
		Placed:    func() {},
		NotPlaced: func(error) {},
	})
	stop()
	os.Exit(0)
}

// The names of the plugins.
const (
	nameWorks = "node-partition"
	nameExits = "exits"
	nameHangs = "hangs"
	// nameMissing is the name of a link that leads nowhere.
	nameMissing = "missing"
)

// prelaunching is a runtime that starts plugins.
type prelaunching struct {
	*adaptation.Adaptation
	t            *testing.T
	home, socket string
}

// startPrelaunching starts a runtime with plugins of these file names.
func startPrelaunching(t *testing.T, members string, names ...string) *prelaunching {
	t.Helper()
	home, err := os.MkdirTemp("", "nri") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	r := &prelaunching{t: t, home: home, socket: filepath.Join(home, "nri.sock")}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugins := filepath.Join(home, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		target := program
		if strings.HasSuffix(name, "-"+nameMissing) {
			target = filepath.Join(home, "nowhere")
		}
		if err := os.Symlink(target, filepath.Join(plugins, name)); err != nil {
			t.Fatal(err)
		}
	}
	if members != "" {
		r.setMembers(members)
	}
	r.Adaptation = startRuntime(t, r.socket, plugins)
	t.Cleanup(r.Stop)
	return r
}

func (r *prelaunching) setMembers(namespaces string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.home, "members"), []byte(namespaces), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// create creates a container in a namespace, and returns the slice of the answer.
func (r *prelaunching) create(namespace string) string {
	r.t.Helper()
	question := request()
	question.Pod.Namespace = namespace
	return create(r.t, r.Adaptation, question)
}

// plugin returns the process of the plugin.
func (r *prelaunching) plugin() int {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.home, "pid"))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

// awaitEnd waits until the runtime has taken the end of a process.
func (r *prelaunching) awaitEnd(pid int) {
	r.t.Helper()
	tooLong := time.After(2 * time.Minute)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-tooLong:
			r.t.Fatalf("process %d has not ended in two minutes", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestPrelaunchedBothConnected: while the service is connected too, each container is created and
// placed, whichever of the two the runtime calls first, and the service counts it.
func TestPrelaunchedBothConnected(t *testing.T) {
	for _, index := range []string{"10", "91"} {
		t.Run(index, func(t *testing.T) {
			r := startPrelaunching(t, "kube-system", index+"-"+nameWorks)
			p := newPlugin()
			if up := connect(t, r.socket, p); !<-up {
				t.Fatal("the service is not connected")
			}
			for range 3 {
				if got := r.create("kube-system"); got != placedSlice {
					t.Errorf("placed at %q, want %s", got, placedSlice)
				}
				answers := p.Answers(func(string) bool { return true })
				if answer, ok := answers["one"]; !ok || answer.Err != nil {
					t.Errorf("the service has the answers %+v, want one without an error", answers)
				}
			}
			// What the other would not place, either places.
			p.SetRules(podmove.Rules{})
			if got := r.create("kube-system"); got != placedSlice {
				t.Errorf("with a service that has no members, placed at %q", got)
			}
			p.SetRules(members("default").Rules())
			if got := r.create("default"); got != placedSlice {
				t.Errorf("with a service that has other members, placed at %q", got)
			}
		})
	}
}

// TestPrelaunchedWhileServiceSynchronizes: CRI-O creates containers while the service is being
// synchronized, which is not called for them yet. The plugin places them.
func TestPrelaunchedWhileServiceSynchronizes(t *testing.T) {
	r := startPrelaunching(t, "kube-system", "91-"+nameWorks)
	var answer *adaptation.CreateContainerResponse
	var problem error
	up := make(chan bool, 10)
	p := newPlugin()
	p.Connection = func(connected bool) {
		if connected {
			answer, problem = r.CreateContainer(t.Context(), request())
		}
		up <- connected
	}
	serve(t, r.socket, p)
	<-up
	if slice := sliceOf(answer); problem != nil || slice != placedSlice {
		t.Errorf("placed at %q, %v; want %s", slice, problem, placedSlice)
	}
	if answers := p.Answers(func(string) bool { return true }); len(answers) > 0 {
		t.Errorf("the service was called: %+v", answers)
	}
}

// TestPrelaunchedHandedOver: the plugin ends while the service is connected, and each container is
// placed, before and afterwards.
func TestPrelaunchedHandedOver(t *testing.T) {
	r := startPrelaunching(t, "kube-system", "91-"+nameWorks)
	p := newPlugin()
	up := connect(t, r.socket, p)
	ended := false
	for i := range 200 {
		switch i {
		case 50:
			if !<-up {
				t.Fatal("the service is not connected")
			}
		case 100:
			// A plugin that ends by itself may end at any moment of a request, as a killed one does.
			if err := syscall.Kill(r.plugin(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ended = true
		}
		if got := r.create("kube-system"); got != placedSlice {
			t.Fatalf("container %d: placed at %q; the plugin has ended: %t", i, got, ended)
		}
	}
	r.awaitEnd(r.plugin())
}

// TestPrelaunchedNeverRegisters: a runtime starts without a plugin that exits or hangs at its
// start, or whose program was removed, and with the next plugin.
func TestPrelaunchedNeverRegisters(t *testing.T) {
	r := startPrelaunching(t, "kube-system", "09-"+nameMissing, "10-"+nameExits, "11-"+nameHangs, "91-"+nameWorks)
	if got := r.create("kube-system"); got != placedSlice {
		t.Errorf("placed at %q, want %s", got, placedSlice)
	}
}

// TestPrelaunchedBeforeMembers: a container that is created before the members are known starts
// where the kubelet put it, and the next one is placed once they are.
func TestPrelaunchedBeforeMembers(t *testing.T) {
	r := startPrelaunching(t, "", "91-"+nameWorks)
	if got := r.create("kube-system"); got != "" {
		t.Errorf("placed at %q without members", got)
	}
	r.setMembers("kube-system")
	if got := r.create("kube-system"); got != placedSlice {
		t.Errorf("placed at %q, want %s", got, placedSlice)
	}
	r.setMembers("monitoring")
	if got := r.create("kube-system"); got != "" {
		t.Errorf("placed at %q though it is no member any more", got)
	}
}

// TestPrelaunchedReasons: a container that stays is reported with the reason, and one that is not
// a member is not.
func TestPrelaunchedReasons(t *testing.T) {
	unknown := errors.New("not known")
	var reasons []error
	var placed int
	config, problem := podmove.Policy{}, unknown
	p := &Prelaunched{
		Config:    func() (podmove.Policy, error) { return config, problem },
		Placed:    func() { placed++ },
		NotPlaced: func(err error) { reasons = append(reasons, err) },
	}
	create := func(path string) {
		t.Helper()
		question := request()
		if path != "" {
			question.Container.Linux.CgroupsPath = path
		}
		if _, _, err := p.CreateContainer(t.Context(), question.Pod, question.Container); err != nil {
			t.Error(err)
		}
	}
	create("")
	problem = nil
	create("") // of no member
	config = members("kube-system")
	create("/kubepods/burstable/pod1/one")
	create(placedSlice + ":cri-containerd:one")
	create("")
	if placed != 1 || len(reasons) != 2 || !slices.Contains(reasons, unknown) || !errors.Is(reasons[1], errForeign) {
		t.Errorf("placed %d, reasons %v; want one placed, and the two that stay", placed, reasons)
	}
}
