package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodepartition/pkg/evict"
)

// identity is what JOURNAL_STREAM says of a file.
func identity(t *testing.T, file *os.File) (device, inode uint64) {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no stat")
	}
	return stat.Dev, stat.Ino
}

// The variable is inherited by programs whose output goes elsewhere: the file decides.
func TestConnectedToJournal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, inode := identity(t, file)
	for stream, want := range map[string]bool{
		fmt.Sprintf("%d:%d", device, inode):   true,
		fmt.Sprintf("%d:%d", device, inode+1): false,
		fmt.Sprintf("%d:%d", device+1, inode): false,
		fmt.Sprintf("%d:%d", inode, device):   inode == device,
		fmt.Sprintf("%d:%d:", device, inode):  false,
		fmt.Sprintf("%d", device):             false,
		fmt.Sprintf("0%d:%d", device, inode):  false,
		"":                                    false,
		":":                                   false,
		"device:inode":                        false,
	} {
		if got := connectedToJournal(file, stream); got != want {
			t.Errorf("%q: %t; want %t", stream, got, want)
		}
	}
	file.Close()
	if connectedToJournal(file, fmt.Sprintf("%d:%d", device, inode)) {
		t.Error("a closed file is the journal")
	}
}

// Not parallel: it sets the environment.
func TestNewLoggerWithoutJournal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, inode := identity(t, file)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", device, inode+1))
	log := newLogger(file, slog.LevelInfo)
	log.Debug("not this")
	log.Info("moved", "pod", "kube-system/dns")
	text, err := os.ReadFile(file.Name())
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "msg=moved pod=kube-system/dns") {
		t.Errorf("%q, %v", text, err)
	}
}

// records keeps what comes to the journal's handler.
type records struct {
	attrs *[]slog.Attr
	all   *[]slog.Record
}

func (r records) Enabled(context.Context, slog.Level) bool { return true }
func (r records) WithGroup(string) slog.Handler            { return r }
func (r records) WithAttrs(attrs []slog.Attr) slog.Handler {
	*r.attrs = append(*r.attrs, attrs...)
	return r
}

func (r records) Handle(_ context.Context, record slog.Record) error {
	*r.all = append(*r.all, record)
	return nil
}

// journalctl and systemctl status show the message alone, so it has the attributes, and the fields have them too.
func TestReadable(t *testing.T) {
	t.Parallel()
	kept := records{new([]slog.Attr), new([]slog.Record)}
	base := slog.New(readable{Handler: kept})
	pod := base.With("namespace", "kube-system", "pod", "dns")
	moved := pod.With("to", "system")
	pod.With("to", "nowhere") // must not write where moved has its own
	begin := time.Now()
	moved.Error("moving failed", "container", "dns", "error", errors.New(`no "reply"`), "took", 1500*time.Millisecond)
	base.Info("plain")
	base.Info("odd", "empty", "", "text", "a b", "lines", "a\nb", "pair", "a=b", "escape", "\x1b[31m")
	want := []string{
		`moving failed namespace=kube-system pod=dns to=system container=dns error="no \"reply\"" took=1.5s`,
		"plain",
		`odd empty= text="a b" lines="a\nb" pair="a=b" escape=` + "\x1b[31m",
	}
	for i, record := range *kept.all {
		if record.Message != want[i] {
			t.Errorf("%q; want %q", record.Message, want[i])
		}
	}
	first := (*kept.all)[0]
	var keys []string
	first.Attrs(func(a slog.Attr) bool { keys = append(keys, a.Key); return true })
	if got := strings.Join(keys, " "); got != "container error took" || first.Level != slog.LevelError || first.Time.Before(begin) {
		t.Errorf("fields %q at %s, %s", got, first.Level, first.Time)
	}
	if len(*kept.attrs) != 4 {
		t.Errorf("fields of the logger: %v", *kept.attrs)
	}
}

// The journal drops fields whose names it does not take.
func TestJournalField(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	for _, key := range []string{"namespace", "pod", "uid", "to", "way", "container", "id", "slice", "grace", "error", "formula", "pods-api"} {
		a := journalField(nil, slog.String(key, "value"))
		if !valid.MatchString(a.Key) || !strings.HasPrefix(a.Key, "PARTITION_") || a.Value.String() != "value" {
			t.Errorf("%s: %v", key, a)
		}
	}
}

// A MESSAGE_ID is the journal's own field, by which an operator searches, and nothing to read.
func TestMessageID(t *testing.T) {
	t.Parallel()
	if a := journalField(nil, slog.String(messageID, idEvicted)); a.Key != "MESSAGE_ID" || a.Value.String() != idEvicted {
		t.Errorf("%v", a)
	}
	kept := records{new([]slog.Attr), new([]slog.Record)}
	log := slog.New(readable{Handler: kept})
	e := anEviction()
	evictionJournal{log}.Evicting(e)
	evictionJournal{log}.Evicted(e, 1500*time.Millisecond+1)
	evictionJournal{log}.Nobody(evict.Decision{
		Available: mebi, At: 2 * mebi, Order: []evict.Candidate{{Pod: evict.Pod{Namespace: "kube-system", Name: "etcd"}, Skip: evict.SkipStatic}},
	})
	const pod = " namespace=kube-system pod=dns uid=" + uid + " way=evict "
	want := []string{
		"evicting a pod, because the memory of the system partition is low" + pod +
			"threshold=hard available=20Mi below=32Mi limit=512Mi working-set=130Mi request=70Mi estimated=false priority=7 grace=0s",
		"an eviction is through" + pod + "took=1.5s",
		"the memory of the system partition is low and all its pods are spared: the kernel will kill at the limit; raise memoryLimit, " +
			`or spare fewer with --eviction-spare available=1Mi below=2Mi pods="kube-system/etcd (static)"`,
	}
	levels := make([]slog.Level, 0, len(*kept.all))
	for i, record := range *kept.all {
		levels = append(levels, record.Level)
		if record.Message != want[i] {
			t.Errorf("%q; want %q", record.Message, want[i])
		}
	}
	if want := []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelError}; !slices.Equal(levels, want) {
		t.Errorf("levels %v; want %v", levels, want)
	}
	// With the fields of the logger, and with those of the record.
	var ids []string
	for _, a := range *kept.attrs {
		if a.Key == messageID {
			ids = append(ids, a.Value.String())
		}
	}
	(*kept.all)[2].Attrs(func(a slog.Attr) bool {
		if a.Key == messageID {
			ids = append(ids, a.Value.String())
		}
		return true
	})
	if want := []string{idEvicting, idEvicted, idNobody}; !slices.Equal(ids, want) {
		t.Errorf("MESSAGE_ID %v; want %v", ids, want)
	}
}

// What an operator reads says what is done, and what did not work.
func TestEvictionJournal(t *testing.T) {
	t.Parallel()
	restart, dry, soft, failed := anEviction(), anEviction(), anEviction(), anEviction()
	restart.Way = evict.Restart
	dry.DryRun = true
	soft.Threshold, soft.Grace, soft.Estimated = evict.Soft, 20*time.Second, true
	failed.Way, failed.Problem = evict.Restart, "not tried again: not allowed"
	away := errors.New("the API server cannot be reached")
	for name, test := range map[string]struct {
		say  func(evictionJournal)
		want []string
	}{
		"restart":           {func(j evictionJournal) { j.Evicting(restart) }, []string{"level=WARN", "stopping the containers of a pod, which the kubelet starts again", idEvicting}},
		"dry run":           {func(j evictionJournal) { j.Evicting(dry) }, []string{"dry run: would evict a pod", idEvicting}},
		"soft":              {func(j evictionJournal) { j.Evicting(soft) }, []string{"threshold=soft", "grace=20s", "estimated=true"}},
		"problem":           {func(j evictionJournal) { j.Evicted(failed, time.Second) }, []string{"level=WARN", `problem="not tried again: not allowed"`, idEvicted}},
		"resumed":           {func(j evictionJournal) { j.Resumed(anEviction()) }, []string{"level=WARN", "decided=2026-07-01T12:00:00Z", "pod=dns", idEvicting}},
		"failed":            {func(j evictionJournal) { j.Failed(failed, evict.StepAPI, away) }, []string{"level=ERROR", "step=api", "pod=dns", "cannot be reached", idFailed}},
		"failed for nobody": {func(j evictionJournal) { j.Failed(evict.Eviction{}, evict.StepState, away) }, []string{"level=ERROR", "step=state", idFailed}},
		"killed":            {func(j evictionJournal) { j.KernelKilled(evict.AtPod, 2) }, []string{"level=ERROR", "limit of a pod, a container or the node", "processes=2", idKernelKilled}},
		"killed at our limit": {
			func(j evictionJournal) { j.KernelKilled(evict.AtPartition, 1) }, []string{"eviction came too late", "journalctl -k", idKernelKilled},
		},
		"warning": {func(j evictionJournal) { j.Warn(away) }, []string{"level=WARN", "cannot be reached"}},
	} {
		log := &logged{}
		test.say(evictionJournal{slog.New(slog.NewTextHandler(log, nil))})
		for _, part := range test.want {
			if !strings.Contains(log.String(), part) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%s: %q; want one line with %q", name, log, part)
			}
		}
	}
}
