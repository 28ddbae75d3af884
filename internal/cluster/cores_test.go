package cluster

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/tests/testkit"
)

type values map[string]int64

// set changes the resources as another program does.
func (n *aNode) set(cores values) {
	n.change(func(n *aNode) {
		n.changed = map[string]bool{}
		for kind, value := range cores {
			n.changed[kind] = n.has.Cores[kind] != value
		}
		n.has.Cores = maps.Clone(cores)
	})
}

func (n *aNode) want(t *testing.T, what string, want values) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !maps.Equal(n.has.Cores, want) {
		t.Errorf("%s: the Node has %v; want %v", what, n.has.Cores, want)
	}
}

func setOnline(t *testing.T, dir, online string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(dir, "/sys/devices/system/cpu/online"), online+"\n")
}

// fourCPUs returns the root of a node with four CPUs.
func fourCPUs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
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

// TestTypes: without a type there is no request, but one at the start. With one there is a request
// in three to four minutes, which changes nothing.
func TestTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines)
		defer stop()
		requests := func(d time.Duration) int {
			<-time.After(d)
			synctest.Wait()
			return n.change(func(*aNode) {})
		}
		requests(2 * settle)
		if got := requests(time.Hour); got != 0 {
			t.Errorf("without a type: %d requests", got)
		}
		k.Follow([]string{"a"})
		n.want(t, "a type", values{"a": 4000})
		requests(0)
		if got := requests(time.Hour); got < 14 || got > 24 {
			t.Errorf("in an hour: %d requests; want one in three to four minutes", got)
		}
		k.Follow(nil)
		n.want(t, "without a type again", values{})
		requests(0)
		if got := requests(time.Hour); got != 0 {
			t.Errorf("without a type again: %d requests", got)
		}
		if text := lines.String(); strings.Count(text, "\n") != 2 {
			t.Errorf("log %s; want one line for the resource, and one for its removal", text)
		}
	})
}

// TestTypesAtOnce: a type that is configured while the first removal waits is advertised at once.
func TestTypesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines)
		defer stop()
		<-time.After(2 * time.Second)
		k.Follow([]string{"a"})
		n.want(t, "a type", values{"a": 4000})
	})
}

// TestOverwritten: a value that somebody overwrites is restored within five minutes, and the log
// says who has overwritten it. One that is removed is restored, too.
func TestOverwritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{has: kubeapi.Node{Cores: values{"other": 1}}}, &testkit.Buffer{}
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
		n.set(values{"other": 1})
		<-time.After(5*time.Minute + look)
		n.want(t, "removed", want)
		if text := lines.String(); strings.Count(text, "has changed the resource") != 10 || strings.Count(text, "kubelet") != 10 {
			t.Errorf("log %s", text)
		}
	})
}

// TestNotKept: values that an admission policy takes back or refuses are applied less and less
// often, and the log says so once. The condition is written all the same.
func TestNotKept(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"taken back": nil, "refused": errors.New("a policy says no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, lines := &aNode{facts: fine(), refused: map[string]error{kubeapi.CoresManager: refused}}, &testkit.Buffer{}
				n.keeps = func(n *kubeapi.Node) { delete(n.Cores, "a") }
				_, stop := n.advertising(t, fourCPUs(t), lines, "a")
				defer stop()
				ready(t, n).between("an hour", time.Hour, 15, 30, "True", reasonActive)
				if text := lines.String(); strings.Count(text, "policy") != 1 || !strings.Contains(text, coresFailed) {
					t.Errorf("log %s", text)
				}
				n.change(func(n *aNode) { n.facts.Section = "cd" })
				ready(t, n).between("another section", 2*time.Second, 1, 2, "True", reasonActive)
				if labels := n.labels(); len(labels) != 2 {
					t.Errorf("labels %v; want those of now", labels)
				}
			})
		})
	}
}

// TestNodeStatusRefused: resources are applied where a policy refuses labels and conditions.
func TestNodeStatusRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine()}, &testkit.Buffer{}
		n.refused = map[string]error{kubeapi.StatusManager: errors.New("a policy says no")}
		_, stop := n.advertising(t, fourCPUs(t), lines, "a")
		defer stop()
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
		n, lines := &aNode{err: kubeapi.ErrGone}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines, "a")
		defer stop()
		<-time.After(time.Hour)
		again := func() {
			n.change(func(n *aNode) { n.err, n.has, n.applied = nil, kubeapi.Node{}, nil })
		}
		again()
		<-time.After(20 * time.Second)
		n.want(t, "it registers", values{"a": 4000})
		again()
		<-time.After(5*time.Minute + look)
		n.want(t, "made again", values{"a": 4000})
		n.change(func(n *aNode) { n.err = kubeapi.ErrGone })
		k.KubeletStarted()
		<-time.After(3 * time.Second)
		again()
		<-time.After(20 * time.Second)
		n.want(t, "a kubelet has registered it", values{"a": 4000})
		k.KubeletStarted() // it sets the value to zero a moment later
		<-time.After(time.Second)
		n.set(values{"a": 0})
		<-time.After(5 * time.Second)
		n.want(t, "a kubelet that zeroes it", values{"a": 4000})
	})
}

// TestTypesRefused: without the right, and without an API server, requests get rare. The cause is
// logged once, and it works when the cause is gone.
func TestTypesRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err         error
		lines       int
		most, least int
	}{
		"forbidden":   {kubeapi.ErrForbidden, 1, 16, 4},
		"a policy":    {errors.New("a policy says no"), 1, 16, 4},
		"unreachable": {kubeapi.ErrUnreachable, 1, 180, 45},
		"no client":   {kubeapi.ErrNoClient, 0, 800, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, lines := &aNode{err: test.err}, &testkit.Buffer{}
				_, stop := n.advertising(t, fourCPUs(t), lines, "a")
				defer stop()
				<-time.After(settle * 2) // one of labels and the condition, which may be left
				n.change(func(*aNode) {})
				<-time.After(time.Hour - 3*settle)
				if requests := n.change(func(*aNode) {}); requests > 2*test.most || requests < test.least/2 {
					t.Errorf("%d requests in nearly an hour; want %d to %d", requests, test.least/2, 2*test.most)
				}
				if text := lines.String(); strings.Count(text, coresFailed) != test.lines {
					t.Errorf("log %s; want %d lines", text, test.lines)
				}
				n.change(func(n *aNode) { n.err = nil })
				<-time.After(3 * time.Hour)
				n.want(t, "the cause is gone", values{"a": 4000})
			})
		})
	}
}

// TestTypesRestart: a restart changes nothing on the Node. A type that was removed meanwhile loses
// its resource, and a resource of somebody else stays.
func TestTypesRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{has: kubeapi.Node{Cores: values{"theirs": 7}}}, &testkit.Buffer{}, fourCPUs(t)
		_, stop := n.advertising(t, dir, lines, "a", "b")
		all := values{"a": 4000, "b": 4000, "theirs": 7}
		n.want(t, "the first", all)
		stop()
		n.want(t, "stopped", all)
		_, stop = n.advertising(t, dir, lines, "a", "b")
		n.want(t, "a restart", all)
		stop()
		_, stop = n.advertising(t, dir, lines, "a")
		n.want(t, "fewer types", values{"a": 4000, "theirs": 7})
		stop()
		_, stop = n.advertising(t, dir, lines)
		<-time.After(2 * settle)
		n.want(t, "no type at all", values{"theirs": 7})
		stop()
	})
}

// TestCPUs: CPUs that come online count within seconds. A value is not lowered while the
// program runs.
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
		n.want(t, "the CPUs are not known any more", values{"a": 6000, "b": 6000})
		if text := lines.String(); strings.Contains(text, "another program") || strings.Count(text, "are not known") != 1 {
			t.Errorf("log %s", text)
		}
	})
}

// TestTypeRemovedByAll: a type that goes takes its resource along although another program owns it,
// too: a kubelet that has set it to zero, or whose zero an admission policy has undone.
func TestTypeRemovedByAll(t *testing.T) {
	t.Parallel()
	for _, value := range []int64{0, 4000} {
		synctest.Test(t, func(t *testing.T) {
			n, lines := &aNode{}, &testkit.Buffer{}
			k, stop := n.advertising(t, fourCPUs(t), lines, "a")
			defer stop()
			n.want(t, "at first", values{"a": 4000})
			n.change(func(n *aNode) { n.has.Cores, n.changed = values{"a": value}, map[string]bool{"a": true} })
			k.Follow(nil)
			n.want(t, "without a type", values{})
		})
	}
}

// TestCPUsRestart: a restart in the same boot does not lower a value, and a boot does.
func TestCPUsRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines, dir := &aNode{}, &testkit.Buffer{}, fourCPUs(t)
		_, stop := n.advertising(t, dir, lines, "a")
		n.want(t, "at first", values{"a": 4000})
		stop()
		setOnline(t, dir, "0")
		k := n.keeper(dir, "0.1.0", lines)
		k.options.JustBooted = false
		k.Follow([]string{"a"})
		n.change(func(n *aNode) { n.err = unreachable() })
		stop = run(t, k.Run)
		<-time.After(time.Minute)
		n.change(func(n *aNode) { n.err = nil })
		<-time.After(2 * heartbeat)
		n.want(t, "a restart", values{"a": 4000})
		stop()
		_, stop = n.advertising(t, dir, lines, "a")
		defer stop()
		n.want(t, "a boot", values{"a": 1000})
	})
}

// TestCPUsUnknown: without the CPUs of the node nothing is applied, and nothing is removed.
func TestCPUsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{has: kubeapi.Node{Cores: values{"a": 4000}}}, &testkit.Buffer{}
		n.applied = map[string]kubeapi.Node{kubeapi.CoresManager: n.has}
		_, stop := n.advertising(t, t.TempDir(), lines, "a")
		defer stop()
		<-time.After(time.Hour)
		n.want(t, "the CPUs are not known", values{"a": 4000})
	})
}

// TestRemoveAll: at the end of the partitions nothing of ours stays. An API server that does not
// answer is not waited for, and the log says what to remove.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &aNode{facts: fine(), has: kubeapi.Node{Cores: values{"theirs": 7}}}
		lines := &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines, "a")
		<-time.After(time.Minute)
		n.want(t, "at first", values{"a": 4000, "theirs": 7})
		stop()
		n.change(func(n *aNode) { n.err = kubeapi.ErrUnreachable })
		k.Remove(t.Context())
		if text := lines.String(); strings.Count(text, "could not be removed") != 2 || !strings.Contains(text, kubeapi.CoresManager) {
			t.Errorf("log %s", text)
		}
		n.change(func(n *aNode) { n.err = nil })
		k.Remove(t.Context())
		n.want(t, "removed", values{"theirs": 7})
		if labels := n.labels(); len(labels) > 0 || n.ready().Status != "" {
			t.Errorf("%v and %+v are left", labels, n.ready())
		}
		n.change(func(*aNode) {})
		k.Remove(t.Context())
		if requests := n.change(func(*aNode) {}); requests != 0 {
			t.Error("removed again")
		}
	})
}

// TestRemoveRefused: a policy that refuses the removal of labels keeps no resource on the Node.
func TestRemoveRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, lines := &aNode{facts: fine(), has: kubeapi.Node{Cores: values{"theirs": 7}}}, &testkit.Buffer{}
		k, stop := n.advertising(t, fourCPUs(t), lines, "a")
		<-time.After(time.Minute)
		n.want(t, "at first", values{"a": 4000, "theirs": 7})
		stop()
		n.change(func(n *aNode) { n.refused = map[string]error{kubeapi.StatusManager: errors.New("a policy says no")} })
		k.Remove(t.Context())
		n.want(t, "removed", values{"theirs": 7})
		if text := lines.String(); strings.Count(text, "could not be removed") != 1 {
			t.Errorf("log %s", text)
		}
	})
}
