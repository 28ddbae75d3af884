package journallog

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
)

// identity returns the parts of JOURNAL_STREAM for a file.
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

// TestConnectedToJournal: programs with another output inherit the variable, so the file decides.
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

// Not parallel, because it sets the environment.
func TestNewWithoutJournal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, inode := identity(t, file)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", device, inode+1))
	log := New(file, slog.LevelInfo)
	log.Debug("not this")
	log.Info("moved", "pod", "kube-system/dns")
	text, err := os.ReadFile(file.Name())
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "msg=moved pod=kube-system/dns") {
		t.Errorf("%q, %v", text, err)
	}
}

// records keeps the records for the journal.
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

// TestReadable: journalctl and systemctl status show only the message, so it contains the
// attributes. The fields have them too.
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

// TestJournalField: the journal drops fields with names that it does not accept.
func TestJournalField(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	for _, key := range []string{"namespace", "pod", "uid", "to", "method", "container", "id", "slice", "grace", "error", "formula", "pods-api"} {
		a := journalField(nil, slog.String(key, "value"))
		if !valid.MatchString(a.Key) || !strings.HasPrefix(a.Key, "PARTITION_") || a.Value.String() != "value" {
			t.Errorf("%s: %v", key, a)
		}
	}
}

// TestMessageID: the MESSAGE_ID is a field of the journal, by which an operator searches, and not
// part of the text.
func TestMessageID(t *testing.T) {
	t.Parallel()
	const id = "c7c85240183a487bb66a6be20209f91e"
	if a := journalField(nil, slog.String(MessageID, id)); a.Key != "MESSAGE_ID" || a.Value.String() != id {
		t.Errorf("%v", a)
	}
	kept := records{new([]slog.Attr), new([]slog.Record)}
	log := slog.New(readable{Handler: kept})
	log.With(MessageID, id, "pod", "dns").Info("of the logger", "took", "1s")
	log.Info("of the record", MessageID, id, "pod", "dns")
	want := []string{"of the logger pod=dns took=1s", "of the record pod=dns"}
	for i, record := range *kept.all {
		if record.Message != want[i] {
			t.Errorf("%q; want %q", record.Message, want[i])
		}
	}
	// With the fields of the logger, and with those of the record.
	var ids []string
	add := func(a slog.Attr) bool {
		if a.Key == MessageID {
			ids = append(ids, a.Value.String())
		}
		return true
	}
	for _, a := range *kept.attrs {
		add(a)
	}
	(*kept.all)[1].Attrs(add)
	if want := []string{id, id}; !slices.Equal(ids, want) {
		t.Errorf("MESSAGE_ID %v; want %v", ids, want)
	}
}
