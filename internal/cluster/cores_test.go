package cluster

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/testkit"
)

// patchCores merges the resources. It is called with mu held.
func (n *aNode) patchCores(cores map[string]*int64) {
	if n.cores == nil {
		n.cores = values{}
	}
	if n.ours == nil {
		n.ours = map[string]bool{}
	}
	if len(cores) == 0 {
		return
	}
	n.writes = append(n.writes, coresText(cores))
	for one, value := range cores {
		if delete(n.cores, one); value != nil {
			n.cores[one], n.ours[one] = *value, true
		}
	}
	if n.keeps != nil {
		n.keeps(n.cores)
	}
}

// set changes the resources as another program does.
func (n *aNode) set(cores values) {
	n.change(func(n *aNode) { n.cores, n.ours = maps.Clone(cores), nil })
}

// wrote returns the requests and the writes of resources since the last call.
func (n *aNode) wrote() (requests int, writes string) {
	requests = n.change(func(n *aNode) {
		writes = strings.Join(n.writes, ", ")
		n.writes = nil
	})
	return requests, writes
}

func (n *aNode) want(t *testing.T, what string, want values) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !maps.Equal(n.cores, want) {
		t.Errorf("%s: the Node has %v; want %v", what, n.cores, want)
	}
}

func setOnline(t *testing.T, dir, online string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(dir, "/sys/devices/system/cpu/online"), online+"\n")
}

// fourCPUs returns the root of a node with four CPUs.
func fourCPUs(t *testing.T) string {
	t.Helper()
	dir := stateDir(t)
	setOnline(t, dir, "0-3")
	return dir
}

// advertising runs a Keeper of n that advertises types.
func (n *aNode) advertising(t *testing.T, dir string, lines *testkit.Buffer, types ...string) (k *Keeper, stop func()) {
	t.Helper()
	k = n.keeper(dir, "0.1.0", lines)
	k.Follow(types) // first, as the daemon does
	return k, run(t, k.Run)
}

// TestTypes: without a type, and without a Node of an earlier boot, there is no request. With one
// there is a request in three to four minutes, which changes nothing.
func TestTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines)
		defer stop()
		<-time.After(2 * settle)
		n.wrote()
		<-time.After(time.Hour)
		if requests, writes := n.wrote(); requests != 0 || writes != "" {
			t.Errorf("without a type: %d requests, writes %q", requests, writes)
		}
		k.Follow([]string{"a"})
		n.want(t, "a type", values{"a": 4000})
		n.wrote()
		<-time.After(time.Hour)
		if requests, writes := n.wrote(); requests < 14 || requests > 24 || writes != "" {
			t.Errorf("in an hour: %d requests, writes %q; want one in three to four minutes, and none", requests, writes)
		}
		k.Follow(nil)
		n.want(t, "without a type again", values{})
		n.wrote()
		<-time.After(time.Hour)
		if requests, _ := n.wrote(); requests != 0 {
			t.Errorf("without a type again: %d requests", requests)
		}
		if text := lines.String(); strings.Count(text, "\n") != 2 {
			t.Errorf("log %s; want one line for the resource, and one for its removal", text)
		}
	})
}

// TestOverwritten: a value that somebody overwrites is restored within five minutes, and that is
// logged.
func TestOverwritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{cores: values{"other": 1}}, &testkit.Buffer{}
		_, stop := n.advertising(t, fourCPUs(t), lines, "a", "b")
		defer stop()
		want := values{"a": 4000, "b": 4000, "other": 1}
		n.want(t, "at first", want)
		for range 10 {
			<-time.After(time.Hour)
			n.set(values{"a": 0, "b": 4000, "other": 1})
			<-time.After(5*time.Minute + look)
			n.want(t, "overwritten", want)
		}
		if text := lines.String(); strings.Count(text, "was overwritten") != 10 || !strings.Contains(text, "found=0 capacity=4000") {
			t.Errorf("log %s", text)
		}
	})
}

// TestNotKept: values that an admission policy takes back are written less and less often, and the
// log says so once. The condition is written all the same.
func TestNotKept(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"taken back": nil, "refused": errors.New("a policy says no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, lines := &aNode{facts: fine(), refused: refused}, &testkit.Buffer{}
				n.keeps = func(v values) { delete(v, "a") }
				requests := 0
				n.at = func() { requests++ }
				_, stop := n.advertising(t, fourCPUs(t), lines, "a")
				defer stop()
				ready(t, n).between("an hour", time.Hour, 16, 40, "True", reasonActive)
				if _, writes := n.wrote(); refused == nil && (strings.Count(writes, "a=4000") < 4 || strings.Count(writes, "a=4000") > 9) {
					t.Errorf("writes in an hour: %s", writes)
				}
				if text := lines.String(); strings.Count(text, "policy") != 1 || !strings.Contains(text, coresFailed) {
					t.Errorf("log %s", text)
				}
				n.change(func(n *aNode) { n.facts.Section = "cd" })
				ready(t, n).between("another section", 2*time.Second, 1, 2, "True", reasonActive)
				if labels, _ := n.on(); len(labels) != 2 {
					t.Errorf("labels %v; want those of now", labels)
				}
			})
		})
	}
}

// TestNodeStatusRefused: resources are written where a policy refuses labels and conditions.
func TestNodeStatusRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine()}, &testkit.Buffer{}
		k := n.keeper(fourCPUs(t), "0.1.0", lines)
		k.patch = func(ctx context.Context, p kubeapi.NodePatch) (kubeapi.Node, error) {
			if len(p.Labels) > 0 {
				return kubeapi.Node{}, errors.New("a policy says no")
			}
			return n.patch(ctx, p)
		}
		k.Follow([]string{"a"})
		defer run(t, k.Run)()
		<-time.After(2 * time.Second)
		n.want(t, "refused", values{"a": 4000})
		for range 5 {
			<-time.After(time.Hour)
			n.set(values{"a": 0})
			<-time.After(5*time.Minute + look)
			n.want(t, "refused, and overwritten", values{"a": 4000})
		}
	})
}

// TestNodeComesAndGoes: a Node that is missing at the start gets the resources when it is there,
// and one that is deleted and made again gets them again: within five minutes, and when a kubelet
// has started within seconds of its registration.
func TestNodeComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{err: kubeapi.ErrGone}, &testkit.Buffer{}, fourCPUs(t)
		k, stop := n.advertising(t, dir, lines, "a")
		defer stop()
		<-time.After(time.Hour)
		if _, writes := n.wrote(); writes != "" {
			t.Errorf("without a Node: writes %q", writes)
		}
		again := func(uid string) {
			n.change(func(n *aNode) { n.err, n.made, n.cores, n.ours = nil, uid, nil, nil })
		}
		again("1")
		<-time.After(20 * time.Second)
		n.want(t, "it registers", values{"a": 4000})
		again("2")
		<-time.After(5*time.Minute + look)
		n.want(t, "made again", values{"a": 4000})
		n.change(func(n *aNode) { n.err = kubeapi.ErrGone })
		k.KubeletStarted()
		<-time.After(3 * time.Second)
		if w, err := node.ReadWritten(host.Below(dir)); err != nil || w.Node != "" || len(w.Seen)+len(w.Cores) > 0 {
			t.Errorf("without the Node: %+v, %v", w, err)
		}
		again("3")
		<-time.After(20 * time.Second)
		n.want(t, "a kubelet has registered it", values{"a": 4000})
		if w, err := node.ReadWritten(host.Below(dir)); err != nil || w.Node != "3" || w.Seen["a"] != 4000 {
			t.Errorf("on another Node: %+v, %v", w, err)
		}
		k.KubeletStarted() // it sets the value to zero a moment later
		<-time.After(time.Second)
		n.set(values{"a": 0})
		<-time.After(5 * time.Second)
		n.want(t, "a kubelet that zeroes it", values{"a": 4000})
	})
}

// TestTypesRefused: without the right, and without an API server, requests get rare. The cause is
// logged once, and it works when the cause is gone. A resource that could not be written is not
// ours. One for which no answer came may be.
func TestTypesRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err         error
		lines       int
		most, least int
	}{
		"forbidden":   {kubeapi.ErrForbidden, 1, 16, 4},
		"unreachable": {kubeapi.ErrUnreachable, 1, 180, 45},
		"no client":   {kubeapi.ErrNoClient, 0, 800, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, lines := &aNode{err: test.err}, &testkit.Buffer{}
				_, stop := n.advertising(t, fourCPUs(t), lines, "a")
				defer stop()
				<-time.After(time.Hour - time.Second)
				if requests, _ := n.wrote(); requests > test.most || requests < test.least {
					t.Errorf("%d requests in an hour; want %d to %d", requests, test.least, test.most)
				}
				if text := lines.String(); strings.Count(text, "\n") != test.lines {
					t.Errorf("log %s; want %d lines", text, test.lines)
				}
				n.change(func(n *aNode) { n.err = nil })
				<-time.After(3 * time.Hour)
				n.want(t, "the cause is gone", values{"a": 4000})
			})
		})
	}
	policy := errors.New("a policy says no")
	for err, ours := range map[error]int{kubeapi.ErrForbidden: 0, kubeapi.ErrCredentials: 0, policy: 0, kubeapi.ErrUnreachable: 1} {
		synctest.Test(t, func(t *testing.T) {
			n, lines, dir := &aNode{refused: err}, &testkit.Buffer{}, fourCPUs(t)
			_, stop := n.advertising(t, dir, lines, "a")
			defer stop()
			<-time.After(30 * time.Minute)
			if w, readErr := node.ReadWritten(host.Below(dir)); readErr != nil || len(w.Cores) != ours {
				t.Errorf("%v: %+v, %v; want %d written", err, w, readErr, ours)
			}
			if text := lines.String(); strings.Count(text, coresFailed) != 1 || strings.Count(text, "\n") != 1 {
				t.Errorf("%v: log %s; want one line", err, text)
			}
		})
	}
}

// TestStateFileLater: what was written to the Node while the state file could not be is in the file
// later.
func TestStateFileLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{}, &testkit.Buffer{}, fourCPUs(t)
		file := filepath.Join(dir, node.WrittenFile)
		if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, stop := n.advertising(t, dir, lines, "a")
		defer stop()
		n.want(t, "without a file", values{"a": 4000})
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * heartbeat)
		if w, err := node.ReadWritten(host.Below(dir)); err != nil || len(w.Cores) != 1 {
			t.Errorf("%+v, %v; want what is on the Node", w, err)
		}
	})
}

// TestTypesRestart: a restart changes nothing on the Node. A type that was removed meanwhile loses
// its resource, and a resource of somebody else stays.
func TestTypesRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{cores: values{"theirs": 7}}, &testkit.Buffer{}, fourCPUs(t)
		_, stop := n.advertising(t, dir, lines, "a", "b")
		all := values{"a": 4000, "b": 4000, "theirs": 7}
		n.want(t, "the first", all)
		stop()
		n.want(t, "stopped", all)
		n.wrote()
		_, stop = n.advertising(t, dir, lines, "a", "b")
		<-time.After(settle - time.Second)
		if requests, _ := n.wrote(); requests != 0 {
			t.Errorf("%d requests at a restart", requests)
		}
		stop()
		setOnline(t, dir, "0-1")
		_, stop = n.advertising(t, dir, lines, "a")
		n.want(t, "fewer types", values{"a": 4000, "theirs": 7})
		stop()
		_, stop = n.advertising(t, dir, lines)
		n.want(t, "no type at all", values{"theirs": 7})
		stop()
	})
}

// TestCPUs: CPUs that come online count within seconds. A value is not lowered while the node runs.
func TestCPUs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{}, &testkit.Buffer{}, fourCPUs(t)
		k, stop := n.advertising(t, dir, lines, "a")
		defer stop()
		n.want(t, "at first", values{"a": 4000})
		setOnline(t, dir, "0-5")
		<-time.After(2 * look)
		n.want(t, "more CPUs", values{"a": 6000})
		setOnline(t, dir, "0")
		<-time.After(time.Hour)
		n.want(t, "fewer CPUs", values{"a": 6000})
		if err := os.Remove(filepath.Join(dir, "/sys/devices/system/cpu/online")); err != nil {
			t.Fatal(err)
		}
		k.Follow([]string{"a", "b"})
		<-time.After(10 * time.Minute)
		n.want(t, "the CPUs are not known", values{"a": 6000})
		if text := lines.String(); strings.Contains(text, "overwritten") || strings.Count(text, "are not known") != 1 {
			t.Errorf("log %s", text)
		}
	})
}

// TestRemoveAll: at the end of the partitions nothing of ours stays. An API server that does not
// answer is not waited for, and the log says what to remove.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &aNode{facts: fine(), cores: values{"theirs": 7}}
		lines := &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines, "a")
		<-time.After(time.Minute)
		n.want(t, "at first", values{"a": 4000, "theirs": 7})
		stop()
		n.change(func(n *aNode) { n.err = kubeapi.ErrUnreachable })
		k.Remove(t.Context())
		if text := lines.String(); !strings.Contains(text, "could not be removed") || !strings.Contains(text, "a.workload.openshift.io/cores") {
			t.Errorf("log %s", text)
		}
		n.change(func(n *aNode) { n.err = nil })
		k.Remove(t.Context())
		n.want(t, "removed", values{"theirs": 7})
		if labels, conditions := n.left(); labels+conditions > 0 {
			t.Errorf("%d labels and %d conditions are left", labels, conditions)
		}
		n.wrote()
		k.Remove(t.Context())
		if requests, _ := n.wrote(); requests != 0 {
			t.Error("removed again")
		}
	})
}

// TestRemoveRefused: a policy that refuses the removal of labels keeps no resource on the Node.
func TestRemoveRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine(), cores: values{"theirs": 7}}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines, "a")
		<-time.After(time.Minute)
		n.want(t, "at first", values{"a": 4000, "theirs": 7})
		stop()
		k.patch = func(ctx context.Context, p kubeapi.NodePatch) (kubeapi.Node, error) {
			if len(p.Labels) > 0 {
				return kubeapi.Node{}, errors.New("a policy says no")
			}
			return n.patch(ctx, p)
		}
		k.Remove(t.Context())
		n.want(t, "removed", values{"theirs": 7})
		if text := lines.String(); !strings.Contains(text, "could not be removed") {
			t.Errorf("log %s", text)
		}
	})
}

// TestTypesInCluster: resources on an API server. What an earlier boot has written, which no file
// knows, is removed if its type is gone, and lowered to the CPUs of now.
func TestTypesInCluster(t *testing.T) {
	t.Parallel()
	const a, b, theirs = "a.workload.openshift.io/cores", "b.workload.openshift.io/cores", "theirs.workload.openshift.io/cores"
	cluster := fakeapi.New(t, httptest.NewServer)
	client, err := kubeapi.New(cluster.NewKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := &testkit.Buffer{}
	started := func(dir string, types ...string) func() {
		k := new(aNode).keeper(dir, "0.1.0", lines)
		k.patch = func(ctx context.Context, p kubeapi.NodePatch) (kubeapi.Node, error) {
			return client.PatchNode(ctx, fakeapi.Node, p)
		}
		k.Follow(types)
		return run(t, k.Run)
	}
	eventually := func(what string, want map[string]string) {
		t.Helper()
		for deadline := time.After(30 * time.Second); !maps.Equal(cluster.Capacity(), want); {
			select {
			case <-deadline:
				t.Fatalf("%s: the Node has %v; want %v; log %s", what, cluster.Capacity(), want, lines)
			case <-time.After(time.Millisecond):
			}
		}
	}
	cluster.SetNode("1", map[string]string{theirs: "4k"})
	cluster.Answer(fakeapi.PatchNode, http.StatusForbidden)
	dir := stateDir(t)
	setOnline(t, dir, "0-7")
	stop := started(dir, "a", "b")
	for !strings.Contains(lines.String(), "patch of nodes/status") {
		<-time.After(time.Millisecond)
	}
	stop()
	cluster.Answer(fakeapi.PatchNode, 0)
	stop = started(dir, "a", "b")
	eventually("before", map[string]string{a: "8k", b: "8k", theirs: "4k"})
	stop()
	for _, line := range cluster.Came() {
		if line != fakeapi.PatchNode {
			t.Errorf("request %s", line)
		}
	}
	defer started(fourCPUs(t), "a")()
	eventually("after a boot", map[string]string{a: "4k", theirs: "4k"})
}
