package resource

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node"
	"nodepartition/tests/fakeapi"
	"nodepartition/tests/testkit"
)

// asking calls ask with one client of a cluster.
type asking struct{ client *kubeapi.Client }

func newAsking(t *testing.T, cluster *fakeapi.Cluster) asking {
	t.Helper()
	client, err := kubeapi.New(cluster.NewKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return asking{client}
}

func (a asking) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	return ask(ctx, a.client.Background(), fakeapi.Node)
}

// eventually waits until the Node of a cluster has a capacity.
func eventually(t *testing.T, cluster *fakeapi.Cluster, what string, want map[string]string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !maps.Equal(cluster.Capacity(), want) {
		select {
		case <-deadline:
			t.Fatalf("%s: the Node has %v; want %v", what, cluster.Capacity(), want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestAPIServer: the Node has its resources whatever happens to it and to the API server.
func TestAPIServer(t *testing.T) {
	t.Parallel()
	const a, b = "a.workload.openshift.io/cores", "b.workload.openshift.io/cores"
	cluster := fakeapi.New(t, httptest.NewServer)
	on, lines := nodeIn(t, "0-3"), &testkit.Buffer{}
	started := func(types ...string) (*Resources, func()) {
		r := New(Options{API: newAsking(t, cluster), Node: on, Log: lines.Logger()})
		r.Follow(types) // first, as the daemon does: without a type it removes all
		return r, running(t, r)
	}
	_, stop := started("a", "b") // before the Node exists
	for cluster.Watches() == 0 {
		<-time.After(time.Millisecond)
	}
	cluster.SetNode("1", map[string]string{"cpu": "4"})
	both := map[string]string{"cpu": "4", a: "4k", b: "4k"}
	eventually(t, cluster, "two types", both)
	cluster.SetNode("1", map[string]string{"cpu": "4", a: "0", b: "4k"})
	eventually(t, cluster, "zeroed", both)
	cluster.SetNode("", nil)
	cluster.SetNode("2", map[string]string{"cpu": "4"})
	eventually(t, cluster, "made again", both)
	cluster.EndWatches() // the API server is restarted
	cluster.SetNode("2", map[string]string{"cpu": "4", a: "4k"})
	eventually(t, cluster, "overwritten while nobody watches", both)
	stop()
	eventually(t, cluster, "stopped", both)

	if requests := cluster.Came(); slices.ContainsFunc(requests, func(line string) bool {
		return line != fakeapi.WatchNode && line != fakeapi.PatchNode
	}) {
		t.Errorf("requests %q", requests)
	}
	cluster.Answer(fakeapi.PatchNode, http.StatusForbidden)
	_, stop = started("b") // the other type was removed meanwhile
	for !strings.Contains(lines.String(), "could not be written") {
		<-time.After(time.Millisecond)
	}
	if text := lines.String(); !strings.Contains(text, "patch of nodes/status") {
		t.Errorf("log %s", text)
	}
	stop()
	cluster.Answer(fakeapi.PatchNode, 0)
	r, stop := started("b")
	eventually(t, cluster, "removed while it did not run", map[string]string{"cpu": "4", b: "4k"})
	r.Remove(t.Context())
	eventually(t, cluster, "switched off", map[string]string{"cpu": "4"})
	stop()
	if all, err := node.ReadResources(on); err != nil || !all.Equal(node.Resources{}) {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestAPIServerAfterBoot: what an earlier boot has written, which no file knows, is removed if its
// type is gone. What somebody else has written stays.
func TestAPIServerAfterBoot(t *testing.T) {
	t.Parallel()
	const a, b, theirs = "a.workload.openshift.io/cores", "b.workload.openshift.io/cores", "theirs.workload.openshift.io/cores"
	cluster := fakeapi.New(t, httptest.NewServer)
	cluster.SetNode("1", map[string]string{theirs: "4k"})
	r := New(Options{API: newAsking(t, cluster), Node: nodeIn(t, "0-7"), Log: new(testkit.Buffer).Logger()})
	r.Follow([]string{"a", "b"})
	stop := running(t, r)
	eventually(t, cluster, "before", map[string]string{a: "8k", b: "8k", theirs: "4k"})
	stop()
	r = New(Options{API: newAsking(t, cluster), Node: nodeIn(t, "0-3"), Log: new(testkit.Buffer).Logger()})
	r.Follow([]string{"a"})
	defer running(t, r)()
	eventually(t, cluster, "after", map[string]string{a: "4k", theirs: "4k"})
}
