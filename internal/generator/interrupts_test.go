package generator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/systemctl"
	"nodepartition/tests/script"
)

// interrupted is a node of four CPUs with irqbalance, whose systemctl notes what it is called with.
// A start of irqbalance runs Ban, as the drop-in does.
type interrupted struct {
	*testing.T
	root string
	// state and dropin hold what systemd reports of irqbalance.
	state, dropin string
	// fails is the exit status of a restart.
	fails string
}

const reads = "/run/systemd/generator/irqbalance.service.d/50-node-partition.conf"

func newInterrupted(t *testing.T) *interrupted {
	t.Helper()
	n := &interrupted{t, t.TempDir(), "active", reads, "0"}
	n.write("sys/devices/system/cpu/online", "0-3\n")
	n.write("proc/irq/default_smp_affinity", "f\n")
	return n
}

func (n *interrupted) write(path, text string) {
	n.Helper()
	path = filepath.Join(n.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		n.Fatal(err)
	}
}

func (n *interrupted) read(path string) string {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.root, path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// start is a start of irqbalance, whose own file has a list. It returns the list that it sees.
func (n *interrupted) start(own string, keep cpuset.CPUSet) (list, says string) {
	n.Helper()
	if err := os.RemoveAll(filepath.Join(n.root, bansFile)); err != nil {
		n.Fatal(err)
	}
	env := func(key string) string {
		if key == "IRQBALANCE_BANNED_CPULIST" {
			return own
		}
		return ""
	}
	var log strings.Builder
	Ban(n.root, env, keep, NewLog(&log))
	list = own
	for line := range strings.Lines(n.read(bansFile)) {
		if text, ok := strings.CutPrefix(line, "IRQBALANCE_BANNED_CPULIST="); ok {
			list = text
		}
	}
	return list, log.String()
}

const bansFile = "run/node-partition/irqbalance.env"

// run runs Interrupts. It returns the calls of systemctl that change something.
func (n *interrupted) run(keep cpuset.CPUSet) (status int, says, calls string) {
	n.Helper()
	tools := n.TempDir()
	called := filepath.Join(tools, "called")
	script.Write(n.T, filepath.Join(tools, "systemctl"), `case $1 in
show) echo "ActiveState=`+n.state+`"; echo "DropInPaths=/etc/systemd/system/irqbalance.service.d/a.conf `+n.dropin+`" ;;
*) echo "$*" >>`+called+`; exit `+n.fails+` ;;
esac
`)
	var log strings.Builder
	systemd := systemctl.Programs(tools)
	status = Interrupts(n.Context(), n.root, &systemd, keep, NewLog(&log))
	text, err := os.ReadFile(called)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	return status, log.String(), strings.TrimSpace(string(text))
}

// TestInterrupts: irqbalance is restarted when its list changes, and never otherwise. What an
// operator has it leave out stays.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	const restart = "try-restart irqbalance.service"
	two, one, none := cpuset.New(2, 3), cpuset.New(3), cpuset.New()
	n := newInterrupted(t)
	own := ""
	for _, step := range []struct {
		what     string
		change   func()
		keep     cpuset.CPUSet
		affinity string
		calls    string
		list     string // what irqbalance leaves out; it is started if it was called to
	}{
		{"never on", func() {}, none, "f", "", ""},
		{"on", func() {}, two, "3", restart, "2-3"},
		{"a reload", func() {}, two, "3", "", "2-3"},
		{"other CPUs", func() {}, one, "7", restart, "3"},
		{"an operator's list, and a start of irqbalance", func() { own = "0"; n.start(own, one) }, one, "7", "", "0,3"},
		{"off", func() {}, none, "f", restart, "0"},
		{"a reload afterwards", func() {}, none, "f", "", "0"},
		{"CPUs that it leaves out already", func() { own = "2-3" }, one, "7", restart, "2-3"},
		{"and off again", func() {}, none, "f", "", "2-3"},
		{"on, and it does not run", func() { own = ""; n.state = "inactive" }, two, "3", "", ""},
		{"it is started by hand", func() { n.state = "active"; n.start(own, two) }, two, "3", "", "2-3"},
		{"it has ended when this is off", func() { n.state = "failed" }, none, "f", "", ""},
		{"it does not read the file", func() { n.state, n.dropin = "active", "" }, two, "3", "", ""},
		{"and off", func() {}, none, "f", "", ""},
	} {
		step.change()
		status, says, calls := n.run(step.keep)
		if calls != "" {
			if step.keep.IsEmpty() {
				// The reload has removed the drop-in, and what was read is removed afterwards.
				if n.read(bansFile) != "" {
					t.Errorf("%s: %s is left", step.what, bansFile)
				}
			} else {
				n.start(own, step.keep)
			}
		}
		list := own
		for line := range strings.Lines(n.read(bansFile)) {
			if text, ok := strings.CutPrefix(line, "IRQBALANCE_BANNED_CPULIST="); ok {
				list = text
			}
		}
		if status != 0 || says != "" || calls != step.calls || n.read("proc/irq/default_smp_affinity") != step.affinity || list != step.list {
			t.Errorf("%s: status %d, %q, %q, new interrupts go to %s, irqbalance leaves out %s; want %q, %s, %s", step.what, status, says, calls,
				n.read("proc/irq/default_smp_affinity"), list, step.calls, step.affinity, step.list)
		}
	}
	if left, err := os.ReadDir(filepath.Join(n.root, "run/node-partition")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v; want nothing left", left, err)
	}
}

// TestInterruptsFails: a restart that fails is tried again at the next run, and what can be done
// without it is done.
func TestInterruptsFails(t *testing.T) {
	t.Parallel()
	n := newInterrupted(t)
	n.fails = "1"
	keep := cpuset.New(3)
	for range 2 {
		status, says, calls := n.run(keep)
		if status != 1 || calls == "" || !strings.Contains(says, "irqbalance.service goes on with the CPUs that it had left out: systemctl try-restart: ") {
			t.Errorf("on: status %d, %q, %q; want the restart, and why it failed", status, says, calls)
		}
		if got := n.read("proc/irq/default_smp_affinity"); got != "7" {
			t.Errorf("new interrupts go to %s", got)
		}
	}
	n.start("", keep)
	for range 2 {
		if status, says, calls := n.run(cpuset.New()); status != 1 || calls == "" || n.read(bansFile) == "" {
			t.Errorf("off: status %d, %q, %q; want that the next run restarts it again", status, says, calls)
		}
	}
	n.fails = "0"
	if status, says, calls := n.run(cpuset.New()); status != 0 || calls == "" || n.read(bansFile) != "" {
		t.Errorf("off: status %d, %q, %q; want an end", status, says, calls)
	}
	n.write("proc/irq/default_smp_affinity", "6\n")
	n.write("run/node-partition/interrupts.json", `{"found":"f","wrote":["7"]}`)
	if status, says, _ := n.run(cpuset.New()); status != 0 || !strings.Contains(says, "something else has written since") {
		t.Errorf("status %d, %q; want that it is said", status, says)
	}
	n.write("sys/devices/system/cpu/online", "x\n")
	if status, says, _ := n.run(keep); status != 1 || !strings.Contains(says, "cpu/online") {
		t.Errorf("status %d, %q; want the file named", status, says)
	}
	n.write("run/node-partition/interrupts.json", `{"found":"f","wrote":["6"]}`)
	if status, says, _ := n.run(cpuset.New()); status != 0 || says != "" || n.read("proc/irq/default_smp_affinity") != "f" {
		t.Errorf("status %d, %q; want that the end needs no list of CPUs", status, says)
	}
}

// TestBan: irqbalance starts with what it leaves out by itself if our CPUs would leave none, or if
// they are not known.
func TestBan(t *testing.T) {
	t.Parallel()
	n := newInterrupted(t)
	if list, says := n.start("0-1", cpuset.New(2, 3)); list != "0-1" ||
		!strings.Contains(says, "irqbalance is not kept off the CPUs 2-3: it leaves out 0-1 by itself, and no online CPU would be left") {
		t.Errorf("%s, %q", list, says)
	}
	// That is not tried again at each reload.
	if status, says, calls := n.run(cpuset.New(2, 3)); status != 0 || calls != "" {
		t.Errorf("status %d, %q, %q; want no restart", status, says, calls)
	}
	n.write("sys/devices/system/cpu/isolated", "x\n")
	if list, says := n.start("", cpuset.New(3)); list != "" || !strings.Contains(says, "irqbalance is not kept off the CPUs 3: /sys/devices/system/cpu/isolated") {
		t.Errorf("%s, %q", list, says)
	}
}
