package generator

import (
	"fmt"
	"io"
	"os"

	"node-partition.io/node-partition/internal/text"
)

// The syslog levels (RFC 5424) and the facility of daemons. With facility 0 journald would file a
// record of /dev/kmsg under the kernel's own messages.
const (
	levelError   = 3
	levelWarning = 4
	levelNotice  = 5
	levelInfo    = 6
	daemon       = 3 << 3
)

// maxRecord is the number of bytes of a message that one record takes. The kernel refuses a longer
// write to /dev/kmsg with EINVAL (PRINTKRB_RECORD_MAX, 1024 in kernel 6.12, minus the prefix).
const maxRecord = 900

// maxLines is the number of lines of one kind that are logged, before a line that counts the
// others. The kernel takes ten records in five seconds from each opening of /dev/kmsg and drops the
// rest (printk_devkmsg=ratelimit, the default). The last records matter most.
const maxLines = 7

// Log writes the generator's messages, one line each.
type Log struct {
	out    io.Writer
	kernel bool
	// journal means that journald reads the lines, with their levels (sd-daemon(3)).
	journal bool
}

// NewLog returns a log that writes lines to out.
func NewLog(out io.Writer) *Log { return &Log{out: out} }

// OpenLog returns a log to /dev/kmsg if systemd's system instance runs us (it sets SYSTEMD_SCOPE
// since 251), and to standard error otherwise, which the journal may read (systemd.exec(5)). When
// generators run, journald may not run yet; it reads the kernel's log later.
func OpenLog(getenv func(string) string) *Log {
	if getenv("SYSTEMD_SCOPE") == "system" && getenv("PARTITION_ROOT") == "" {
		if kmsg, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
			return &Log{out: kmsg, kernel: true}
		}
	}
	log := NewLog(os.Stderr)
	log.journal = getenv("JOURNAL_STREAM") != ""
	return log
}

// Errorf logs one error.
func (l *Log) Errorf(format string, args ...any) { l.log(levelError, format, args...) }

func (l *Log) noticef(format string, args ...any) { l.log(levelNotice, format, args...) }

func (l *Log) infof(format string, args ...any) { l.log(levelInfo, format, args...) }

// all logs lines, or the first of them and the number of the others.
func (l *Log) all(level int, lines []string) {
	for i, line := range lines {
		if i == maxLines && len(lines) > maxLines+1 {
			l.log(level, "and %d more of these", len(lines)-i)
			return
		}
		l.log(level, "%s", line)
	}
}

// log writes one record with one write(2): each write to /dev/kmsg is a record.
func (l *Log) log(level int, format string, args ...any) {
	text := text.Record(fmt.Sprintf(format, args...), maxRecord)
	if l.kernel {
		_, _ = fmt.Fprintf(l.out, "<%d>partition-generator[%d]: %s\n", daemon|level, os.Getpid(), text)
		return
	}
	if l.journal {
		_, _ = fmt.Fprintf(l.out, "<%d>%s\n", level, text)
		return
	}
	_, _ = fmt.Fprintf(l.out, "partition-generator: %s\n", text)
}
