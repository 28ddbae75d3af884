package generator

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/testkit"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// section returns the file of the node with a section.
func section(limit, namespaces string) string {
	return head + "systemPartition: {memoryLimit: " + limit + ", namespaces: [" + namespaces + "]}\n"
}

// changing is a node whose file changes.
type changing struct {
	t    *testing.T
	root string
}

// newChanging returns a node whose kubelet is configured, without a section. Its file is watched.
func newChanging(t *testing.T) changing {
	t.Helper()
	n := changing{t, t.TempDir()}
	if err := os.CopyFS(n.root, os.DirFS("../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	n.write("/var/lib/kubelet/config.yaml", head)
	return n
}

func (n changing) write(path, text string) {
	n.t.Helper()
	testkit.WriteFile(n.t, filepath.Join(n.root, path), text)
}

func (n changing) edit(text string) {
	n.t.Helper()
	n.write(kubeletconfig.OverridePath, text)
}

func (n changing) remove(path string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.root, path)); err != nil {
		n.t.Fatal(err)
	}
}

// reload runs the generator as systemd does.
func (n changing) reload() {
	n.t.Helper()
	n.reloaded()
}

// reloaded is reload, and returns what the generator says.
func (n changing) reloaded() (says string) {
	n.t.Helper()
	dir := filepath.Join(n.root, "run/systemd/generator")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		n.t.Fatal(err)
	}
	var text strings.Builder
	Run(n.root, dir, trialend.Moment{}, NewLog(&text))
	return text.String()
}

// changed runs Changed, and returns its status and what it says.
func (n changing) changed() (status int, says string) {
	var text strings.Builder
	status = Changed(n.root, NewLog(&text))
	return status, text.String()
}

// limit returns the line of the unit in force with its limit.
func (n changing) limit() string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, "run/node-partition/units/kubepods-system.slice"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "MemoryMax=") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestChanged: systemd is reloaded once for a valid edit that differs from what is in force. A
// refused one is said and recorded once, and changes nothing in force.
func TestChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newChanging(t)
		n.edit("")
		n.reload()
		for _, step := range []struct {
			what   string
			edit   func()
			status int
			says   string // a part; empty for nothing
			refuse string // a part of what is recorded; empty for nothing
			limit  string // in force after a reload that was asked for
		}{
			{"the empty file of the boot", func() {}, 1, "", "node-partition.yaml", ""},
			{"a section", func() { n.edit(section("1Gi", "kube-system")) }, 0, "reloading systemd", "", "MemoryMax=1073741824"},
			{"the same once more", func() { n.edit(section("1Gi", "kube-system")) }, 1, "", "", "MemoryMax=1073741824"},
			{"a comment", func() { n.edit(section("1Gi", "kube-system") + "# why\n") }, 1, "", "", "MemoryMax=1073741824"},
			{"a typo", func() { n.edit(section("1Gy", "kube-system")) }, 1, `memoryLimit: "1Gy"`, `memoryLimit: "1Gy"`, "MemoryMax=1073741824"},
			{"the same typo", func() { n.edit(section("1Gy", "kube-system") + "# why\n") }, 1, "", `memoryLimit: "1Gy"`, "MemoryMax=1073741824"},
			{"the typo taken back", func() { n.edit(section("1Gi", "kube-system")) }, 1, "", "", "MemoryMax=1073741824"},
			{"another typo", func() { n.edit(head + "systemPartition: [") }, 1, "is read again when it changes", "node-partition.yaml", "MemoryMax=1073741824"},
			{"repaired", func() { n.edit(section("2Gi", "kube-system")) }, 0, "reloading systemd", "", "MemoryMax=2147483648"},
			{"of the namespaces alone", func() { n.edit(section("2Gi", "kube-system, monitoring")) }, 0, "reloading systemd", "", "MemoryMax=2147483648"},
			{"removed", func() { n.remove(kubeletconfig.OverridePath) }, 0, "reloading systemd", "", ""},
			{"back", func() { n.edit(section("1Gi", "kube-system")) }, 0, "reloading systemd", "", "MemoryMax=1073741824"},
			{"during a trial", func() {
				n.write(kubeletconfig.TrialPath, section("2Gi", "kube-system"))
				n.edit(section("3Gi", "kube-system"))
			}, 1, "", "", "MemoryMax=1073741824"},
			{"after the trial", func() { n.remove(kubeletconfig.TrialPath) }, 0, "reloading systemd", "", "MemoryMax=3221225472"},
			{"switched off", func() {
				n.write(kubeletconfig.SettingsPath, "PARTITION_WATCH=no\n")
				n.edit(section("1Gi", "kube-system"))
			}, 1, "", "", "MemoryMax=3221225472"},
			{"switched off, and broken", func() { n.edit(head + "systemPartition: [") }, 1, "", "", "MemoryMax=3221225472"},
		} {
			step.edit()
			status, says := n.changed()
			if status != step.status || (says == "") != (step.says == "") || !strings.Contains(says, step.says) {
				t.Errorf("%s: status %d, %q; want %d, %q", step.what, status, says, step.status, step.says)
			}
			if status == 0 {
				n.reload()
				if status, says := n.changed(); status != 1 || says != "" {
					t.Errorf("%s: after the reload: status %d, %q; want that nothing is left to do", step.what, status, says)
				}
			}
			recorded := decision.ReadWatch(n.root).Refused
			if (recorded == "") != (step.refuse == "") || !strings.Contains(recorded, step.refuse) || n.limit() != step.limit {
				t.Errorf("%s: recorded is %q, in force %q; want %q, %q", step.what, recorded, n.limit(), step.refuse, step.limit)
			}
		}
	})
}

// TestChangedOnce: a reload that does not apply the file is not asked for again and again: each
// starts the next look.
func TestChangedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newChanging(t)
		n.edit("")
		n.reload()
		n.edit(section("1Gi", "kube-system"))
		if status, _ := n.changed(); status != 0 {
			t.Fatalf("status %d; want a reload", status)
		}
		if status, says := n.changed(); status != 1 || !strings.Contains(says, "systemd was reloaded, and the file is not applied") {
			t.Errorf("status %d, %q; want no second reload", status, says)
		}
		n.edit(section("2Gi", "kube-system"))
		if status, _ := n.changed(); status != 0 {
			t.Errorf("status %d; want a reload for another edit", status)
		}
	})
}

// TestChangedUnrecorded: systemd is not reloaded for an edit if that cannot be recorded: nothing
// would end the requests if the reload did not apply it.
func TestChangedUnrecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newChanging(t)
		n.write(decision.WatchFile+"/in-its-place", "")
		n.edit(section("1Gi", "kube-system"))
		if status, says := n.changed(); status != 1 || !strings.HasSuffix(says, "has changed, and is not applied. "+repairCause+"\n") {
			t.Errorf("status %d, %q; want no reload", status, says)
		}
		n.remove(decision.WatchFile + "/in-its-place")
		n.remove(decision.WatchFile)
		if status, says := n.changed(); status != 0 {
			t.Errorf("status %d, %q; want a reload when it can be recorded", status, says)
		}
	})
}

// TestRefusedReload: what a reload refuses is recorded while a configuration is in force, also on a
// node whose file is not watched: the monitor compares it with what it has read.
func TestRefusedReload(t *testing.T) {
	t.Parallel()
	n := newChanging(t)
	n.write(kubeletconfig.SettingsPath, "PARTITION_WATCH=no\n")
	refused := func() string { return decision.ReadWatch(n.root).Refused }
	n.edit(section("1Gy", "kube-system"))
	n.reload()
	if got := refused(); got != "" {
		t.Errorf("recorded is %q; want nothing without a configuration in force", got)
	}
	n.edit(section("1Gi", "kube-system"))
	n.reload()
	n.edit(section("1Gy", "kube-system"))
	n.reload()
	if got := refused(); !strings.Contains(got, `memoryLimit: "1Gy"`) {
		t.Errorf("recorded is %q; want what was refused", got)
	}
	n.edit(section("2Gi", "kube-system"))
	n.reload()
	if got := refused(); got != "" || n.limit() != "MemoryMax=2147483648" {
		t.Errorf("recorded is %q, in force %q; want the repaired configuration", got, n.limit())
	}
}

// TestChangedWhole: a file that is written in steps is read when it has stayed as it is, although
// half of it is a valid file too.
func TestChangedWhole(t *testing.T) {
	t.Parallel()
	whole := section("1Gi", "kube-system") + "# end\n"
	const removed = "removed"
	for name, steps := range map[string][]string{
		"truncated and written": {"", whole},
		"removed and written":   {removed, removed, removed, removed, removed, removed, removed, removed, whole},
		"half of it valid":      {head, head + "systemPartition: {namespaces: [kube-system]}\n", whole},
		"ten changes a second": strings.SplitAfter(
			strings.Repeat(section("2Gi", "kube-system")+"|"+head+"systemPartition: [|", 25)+whole, "|"),
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newChanging(t)
			n.edit(section("3Gi", "kube-system"))
			n.reload()
			begin := time.Now()
			n.edit(steps[0])
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for _, text := range steps[1:] {
					<-time.After(100 * time.Millisecond)
					if text == removed {
						_ = os.Remove(filepath.Join(n.root, kubeletconfig.OverridePath)) // gone already, later
						continue
					}
					n.edit(strings.TrimSuffix(text, "|"))
				}
			}()
			status, says := n.changed()
			<-ended
			n.reload()
			took, wrote := time.Since(begin), time.Duration(len(steps)-1)*100*time.Millisecond
			if status != 0 || strings.Count(says, "\n") != 1 || n.limit() != "MemoryMax=1073741824" || took < wrote+quiet || took > wrote+2*quiet {
				t.Errorf("%s: status %d, %q, %q in force, after %s; want one reload for the whole file", name, status, says, n.limit(), took)
			}
		})
	}
}

// TestChangedMeanwhile: a run ends when a reload of the operator applies what it waits for, or when
// it must not apply it any more.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	lowered := func(n changing) { n.edit(section("512Mi", "kube-system")) }
	removed := func(n changing) { n.remove(kubeletconfig.OverridePath) }
	trial := func(n changing) { n.write(kubeletconfig.TrialPath, section("2Gi", "kube-system")) }
	off := func(n changing) { n.write(kubeletconfig.SettingsPath, "PARTITION_WATCH=no\n") }
	for name, test := range map[string]struct {
		edit, meanwhile func(changing)
		after, within   time.Duration // since the edit
	}{
		"removed, and a reload":           {removed, changing.reload, 2 * time.Second, 4 * time.Second},
		"removed, and a trial":            {removed, trial, 2 * time.Second, 4 * time.Second},
		"removed, and PARTITION_WATCH=no": {removed, off, 2 * time.Second, 4 * time.Second},
		"lowered, and a trial":            {lowered, trial, quiet / 2, 2 * quiet},
		"lowered, and PARTITION_WATCH=no": {lowered, off, quiet / 2, 2 * quiet},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newChanging(t)
			n.edit(section("1Gi", "kube-system"))
			n.reload()
			test.edit(n)
			done := make(chan struct{})
			go func() {
				defer close(done)
				<-time.After(test.after)
				test.meanwhile(n)
			}()
			begin := time.Now()
			status, says := n.changed()
			took := time.Since(begin)
			<-done
			if status != 1 || says != "" || took > test.within {
				t.Errorf("%s: status %d, %q after %s; want that nothing is left to do", name, status, says, took)
			}
		})
	}
}

// TestChangedAllTheTime: a file that never stays as it is for long is not read, and the run ends.
func TestChangedAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newChanging(t)
		n.edit("")
		n.reload()
		end := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				case <-time.After(100 * time.Millisecond):
					n.edit([]string{"", section("1Gi", "kube-system")}[i%2])
				}
			}
		}()
		n.edit(section("1Gi", "kube-system"))
		// The edits of a run start the next one, which does not begin in the middle of one.
		for range 3 {
			<-time.After(30 * time.Millisecond)
			begin := time.Now()
			status, says := n.changed()
			took := time.Since(begin).Round(time.Second)
			if status != 1 || !strings.Contains(says, "was written again and again") || took != time.Minute {
				t.Errorf("status %d, %q, after %s; want no reload, and a warning after a minute", status, says, took)
			}
		}
		close(end)
		synctest.Wait()
	})
}

// TestWatchedWhenBroken: a file that comes broken, on a node that waited for it, is watched from
// then on: the service that waited acts once. What waits for the kubelet's configuration waits on.
func TestWatchedWhenBroken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		configured bool
		want       string // what slices.target starts
	}{
		"for a section":                   {true, "Wants=partition-generator-await-section.path partition-generator-watch.path\n"},
		"for the kubelet's configuration": {false, "Wants=partition-generator-await.path partition-generator-watch.path\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newChanging(t)
			if !test.configured {
				n.remove("/var/lib/kubelet/config.yaml")
			}
			n.reload()
			n.edit(head + "systemPartition: [")
			n.reload()
			text, err := os.ReadFile(filepath.Join(n.root, "run/systemd/generator/slices.target.d/50-node-partition.conf"))
			if err != nil || !strings.HasSuffix(string(text), test.want) {
				t.Errorf("%s: %q, %v; want %q", name, text, err, test.want)
			}
			if status, says := n.changed(); status != 1 || says != "" {
				t.Errorf("%s: status %d, %q; want that the reload has said it", name, status, says)
			}
			n.edit(section("1Gi", "kube-system"))
			if status, _ := n.changed(); status != 0 {
				t.Errorf("%s: status %d; want a reload for the repaired file", name, status)
			}
		})
	}
}
