package nri

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// TestMain runs this program as the plugin if a runtime of a test has started it, by a link in its
// folder of plugins.
func TestMain(m *testing.M) {
	if !IsPrelaunched() {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	_ = ServePrelaunched(ctx, &Prelaunched{
		Config:    func() (podmove.Policy, error) { return members("kube-system"), nil },
		Placed:    func() {},
		NotPlaced: func(error) {},
	})
	stop()
	os.Exit(0)
}

// prelaunching is a runtime that starts the plugin.
type prelaunching struct {
	*adaptation.Adaptation
	t      *testing.T
	socket string
}

// startPrelaunching starts a runtime whose members are the pods of kube-system, with the plugin at
// an index.
func startPrelaunching(t *testing.T, index string) *prelaunching {
	t.Helper()
	home, err := os.MkdirTemp("", "nri") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugins := filepath.Join(home, "plugins")
	if err := errors.Join(os.Mkdir(plugins, 0o755), os.Symlink(program, filepath.Join(plugins, index+"-node-partition"))); err != nil {
		t.Fatal(err)
	}
	r := &prelaunching{t: t, socket: filepath.Join(home, "nri.sock")}
	r.Adaptation = startRuntime(t, r.socket, plugins)
	t.Cleanup(r.Stop)
	return r
}

// create creates a container in a namespace, and returns the slice of the answer.
func (r *prelaunching) create(namespace string) string {
	r.t.Helper()
	question := request()
	question.Pod.Namespace = namespace
	return create(r.t, r.Adaptation, question)
}

// TestPrelaunchedBothConnected: while the service is connected too, each container is created and
// placed, whichever of the two the runtime calls first, and the service counts it.
func TestPrelaunchedBothConnected(t *testing.T) {
	for _, index := range []string{"10", "91"} {
		t.Run(index, func(t *testing.T) {
			r := startPrelaunching(t, index)
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
			p.SetRules(partition.Rules{})
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
	r := startPrelaunching(t, "91")
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
