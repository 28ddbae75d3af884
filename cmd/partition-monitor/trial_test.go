package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/fakenode"
)

// The files of a trial, apart from the section that is tried.
const (
	trialNext  = "/run/node-partition/trial.next"
	trialAbout = "/run/node-partition/trial.json"
)

// tryingNode returns a node without a partition, whose fake systemd has timers and a generator: it
// reports the file that the generator would read as the source of the partition's unit. The fakes
// write their calls to /run/calls, and fail if the call begins with the text in /run/fails.
func tryingNode(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, fakenode.Configuration(""))
	const fails = `echo "${0##*/} $*" >>/run/calls
if test -e /run/fails && echo "${0##*/} $*" | grep -q "^$(cat /run/fails)"; then echo "that has failed" >&2; exit 1; fi
`
	n.Script("/bin/systemctl", fails+`case "$*" in
show*UserspaceTimestampMonotonic*) echo UserspaceTimestampMonotonic=1000000 ;;
show*SourcePath*)
	if test -e /run/generator-is-missing; then echo SourcePath=
	elif test -e /run/node-partition/trial.yaml; then echo SourcePath=/run/node-partition/trial.yaml
	elif test -e /etc/kubernetes/node-partition.yaml; then echo SourcePath=/etc/kubernetes/node-partition.yaml
	else echo SourcePath=; fi ;;
show*LoadState*node-partition-trial*) if test -e /run/timer; then echo LoadState=loaded; else echo LoadState=not-found; fi ;;
show*ActiveState*node-partition-trial*)
	if test -e /run/timer; then echo ActiveState=active; else echo ActiveState=inactive; fi
	echo; echo ActiveState=inactive ;;
'stop node-partition-trial.timer') rm /run/timer ;;
esac`)
	n.Script("/bin/systemd-run", fails+`if test -e /run/timer; then
	echo "Failed to start transient timer unit: Unit node-partition-trial.timer was already loaded or has a fragment file." >&2; exit 1
fi
for last; do :; done
echo "$last" >/run/timer
if test -e /run/timer-is-early; then sh -c "$last"; fi`)
	for _, name := range []string{"rm", "sh", "grep", "cat"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(n.Root, "bin", name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// file returns the content of a file of the node, empty if it does not exist.
func (n *fakeNode) file(path string) string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Root, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
	return string(data)
}

func (n *fakeNode) remove(path string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.Root, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
}

// calls returns the calls of programs since the last time, without systemctl show.
func (n *fakeNode) calls() []string {
	n.t.Helper()
	calls := strings.Split(strings.TrimSpace(n.file("/run/calls")), "\n")
	n.remove("/run/calls")
	return slices.DeleteFunc(calls, func(call string) bool { return strings.HasPrefix(call, "systemctl show") })
}

const triedFile = "/var/tried.yaml"

// try writes a valid section to triedFile, and expects that its trial begins.
func (n *fakeNode) try(args ...string) {
	n.t.Helper()
	n.Write(triedFile, fakenode.Valid("kube-system"))
	status, stdout, stderr := n.run(append([]string{"try", triedFile}, args...)...)
	if status != exitOK || !strings.Contains(stdout, triedFile+" is tried until ") {
		n.t.Fatalf("status %d, %q, %q; want a trial", status, stdout, stderr)
	}
}

// nothingTried expects that no trial is running, and that none has left files.
func (n *fakeNode) nothingTried() {
	n.t.Helper()
	for _, path := range []string{kubeletconfig.TrialPath, trialNext, trialAbout} {
		if _, err := os.Lstat(filepath.Join(n.Root, path)); !errors.Is(err, fs.ErrNotExist) {
			n.t.Errorf("%s is left over (%v)", path, err)
		}
	}
}

// says runs the program, and expects an exit status and a part of its output.
func (n *fakeNode) says(status int, want string, args ...string) {
	n.t.Helper()
	got, stdout, stderr := n.run(args...)
	if got != status || !strings.Contains(stdout+stderr, want) {
		n.t.Errorf("%q: status %d, %q, %q; want %d and %q", args, got, stdout, stderr, status, want)
	}
}

// TestTry: the timer starts before the section is in force. Its service restores the previous
// configuration without this program.
func TestTry(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	before, from := time.Now(), monotonic(t)
	n.try("--for", "20m") // after the file, as people write it
	until := monotonic(t)
	if got := n.file(kubeletconfig.TrialPath); got != n.file(triedFile) {
		t.Errorf("tried %q", got)
	}
	calls := n.calls()
	if len(calls) != 3 || !strings.HasPrefix(calls[0], "systemd-run ") || calls[1] != "systemctl daemon-reload" || calls[2] != "systemctl start kubepods-system.slice" {
		t.Errorf("%q", calls)
	}
	for _, part := range []string{"--unit=node-partition-trial", "--property=Restart=on-failure",
		"--timer-property=IgnoreOnIsolate=yes", "--timer-property=DefaultDependencies=no",
		"--property=IgnoreOnIsolate=yes", "--property=DefaultDependencies=no",
	} {
		if !strings.Contains(calls[0], part) {
			t.Errorf("%q; want %s", calls[0], part)
		}
	}
	// The fake manager has started a second after the clock. The timer counts from there.
	_, after, _ := strings.Cut(calls[0], "--on-startup=")
	after, _, _ = strings.Cut(after, " ")
	number, unit, _ := strings.Cut(after, "us")
	end, err := strconv.ParseInt(number, 10, 64)
	end += time.Second.Microseconds()
	if err != nil || unit != "" || end < (from+20*time.Minute).Microseconds() || end > (until+20*time.Minute).Microseconds() {
		t.Errorf("--on-startup=%s: want microseconds, 20 minutes after %s to %s without a second", after, from, until)
	}
	if strings.ContainsAny(n.file("/run/timer"), "$%;\"'\\") {
		t.Errorf("systemd would change %q", n.file("/run/timer"))
	}
	// status shows the trial in both formats. check warns of it, and lists the file in force.
	s := n.status()
	if s.Trial == nil || s.Trial.From != triedFile || s.Trial.Until.Sub(before) < 19*time.Minute || s.Trial.Until.Sub(before) > 21*time.Minute {
		t.Errorf("status has %+v", s.Trial)
	}
	n.says(exitOK, "Trial         of "+triedFile+" until ", "status", "--listen=")
	_, checked, _ := n.run("check", "-v", "--listen=")
	for _, part := range []string{
		"warning  trial: " + triedFile + " is tried until ", "change: partition-monitor keep makes it permanent",
		"file: " + kubeletconfig.TrialPath + ": read", "file: " + kubeletconfig.OverridePath + ": not read, " + kubeletconfig.TrialPath + " exists",
	} {
		if !strings.Contains(checked, part) {
			t.Errorf("want %q in\n%s", part, checked)
		}
	}
	// The time is over.
	n.calls()
	n.timeIsOver()
	n.nothingTried()
	if calls := n.calls(); !slices.Equal(calls, []string{"systemctl daemon-reload", "systemctl start slices.target", "systemctl start --no-block partition-monitor.service"}) {
		t.Errorf("the timer's service ran %q", calls)
	}
	if s := n.status(); s.Trial != nil {
		t.Errorf("status has %+v", s.Trial)
	}
}

// monotonic reads the clock by which systemd's timers count.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// timeIsOver removes the timer, and runs the command of its service.
func (n *fakeNode) timeIsOver() {
	n.t.Helper()
	script := n.file("/run/timer")
	n.remove("/run/timer")
	if out, err := n.shell(script).CombinedOutput(); err != nil {
		n.t.Errorf("the timer's service: %v, %s", err, out)
	}
}

// shell returns a command that runs a script in a shell on the node.
func (n *fakeNode) shell(script string) *exec.Cmd {
	cmd := n.program("shell", script)
	cmd.Env = append(cmd.Env, nodeShell+"=1")
	return cmd
}

// TestTryRefused: the section must be valid by itself and on this node, and the node must be able
// to go back.
func TestTryRefused(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	for _, tc := range []struct {
		file, want string
	}{
		{fakenode.Broken, triedFile + ": systemPartition.memoryLimit"},
		{fakenode.Broken, triedFile + ": systemPartition.namespaces[0]"},
		{fakenode.Configuration(""), triedFile + ": has no systemPartition section and no workloadPartitions; want"},
		{fakenode.Configuration("systemPartition: {}"), triedFile + ": defines no partition"},
		{"memoryLimit: 64Mi", triedFile + ": apiVersion"},
		{"", triedFile + ": is empty"},
	} {
		n.Write(triedFile, tc.file)
		n.says(exitProblem, tc.want, "try", triedFile)
	}
	n.says(exitProblem, "/etc/kubernetes/none.yaml: no such file or directory", "try", "/etc/kubernetes/none.yaml")
	n.Write(triedFile, fakenode.Valid("kube-system"))
	n.Write("/proc/cmdline", "node_partition=0")
	n.says(exitProblem, "node_partition=0 on the kernel command line also disables it", "try", triedFile)
	n.Write("/proc/cmdline", "")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("featureGates: {NodeSystemPartition: true}"))
	n.says(exitProblem, "the kubelet makes the system partition itself", "try", triedFile)
	// If the node could not go back, there is no trial.
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	n.says(exitProblem, "a trial could not go back to it: /var/lib/kubelet/config.yaml: ", "try", triedFile)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	if calls := n.file("/run/calls"); strings.Contains(calls, "systemd-run") || strings.Contains(calls, "daemon-reload") {
		t.Errorf("something was applied: %s", calls)
	}
	n.nothingTried()
}

// TestTryUnapplied: a trial is refused while an edit is not applied, because its end would apply
// the edit.
func TestTryUnapplied(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Partition("67108864")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.Generate(0)
	n.follow()
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
	n.Write(triedFile, fakenode.Valid("kube-system"))
	n.says(exitProblem, "is not applied yet: systemctl daemon-reload, and then try", "try", triedFile)
	n.Generate(0)
	n.try()
}

func TestTryStandardInput(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	for _, test := range []struct {
		text   string
		status int
	}{{fakenode.Broken, exitProblem}, {fakenode.Valid("kube-system"), exitOK}} {
		cmd := n.program("try", "-")
		cmd.Stdin = strings.NewReader(test.text)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != test.status || !strings.Contains(string(out), "standard input") {
			t.Errorf("status %d, %s; want %d", cmd.ProcessState.ExitCode(), out, test.status)
		}
	}
	if got := n.file(kubeletconfig.TrialPath); got != fakenode.Valid("kube-system") {
		t.Errorf("tried %q", got)
	}
}

// TestKeep: only one trial runs at a time. keep makes it permanent while the timer runs, and then
// stops the timer.
func TestKeep(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.says(exitProblem, "no trial is running", "keep")
	n.try()
	n.says(exitProblem, "a trial is already running", "try", triedFile)
	n.Write(triedFile, "changed meanwhile")
	tried := n.file(kubeletconfig.TrialPath)
	n.calls()
	n.says(exitOK, "Kept in "+kubeletconfig.OverridePath, "keep")
	if got := n.file(kubeletconfig.OverridePath); got != tried || tried != fakenode.Valid("kube-system")+"\n" {
		t.Errorf("kept %q, tried %q", got, tried)
	}
	if calls := n.calls(); !slices.Equal(calls, []string{"systemctl daemon-reload", "systemctl start kubepods-system.slice", "systemctl stop node-partition-trial.timer"}) {
		t.Errorf("%q", calls)
	}
	n.nothingTried()
	n.says(exitProblem, "no trial is running", "keep")
	n.says(exitProblem, "no trial is running", "try", "--end")
	// The next trial goes back to the section that was kept.
	n.Generate(0)
	n.try()
	n.timeIsOver()
	n.nothingTried()
	if got := n.file(kubeletconfig.OverridePath); got != tried {
		t.Errorf("after another trial: %q", got)
	}
	n.says(exitProblem, "no trial is running", "keep")
}

// TestKeepRefused: keep does not overwrite an override that was changed in the meantime. If it
// cannot write, the trial continues.
func TestKeepRefused(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.try()
	n.Write(kubeletconfig.OverridePath, fakenode.Valid("monitoring"))
	n.says(exitProblem, kubeletconfig.OverridePath+" has changed since the trial began", "keep")
	n.remove(kubeletconfig.OverridePath)
	folder, aside := filepath.Join(n.Root, "/etc/kubernetes"), filepath.Join(n.Root, "/etc/aside")
	if err := errors.Join(os.Rename(folder, aside), os.Symlink("/not/there", folder)); err != nil {
		t.Fatal(err)
	}
	n.says(exitProblem, "not kept, the trial continues: mkdir /etc/kubernetes: ", "keep")
	if err := errors.Join(os.Remove(folder), os.Rename(aside, folder)); err != nil {
		t.Fatal(err)
	}
	n.Write(kubeletconfig.TrialPath, fakenode.Broken)
	n.says(exitProblem, kubeletconfig.TrialPath+": systemPartition.memoryLimit", "keep")
	if n.file("/run/timer") == "" || n.file(kubeletconfig.OverridePath) != "" {
		t.Error("the trial does not go on as it was")
	}
}

// TestKeepSymlink: if the override is a symbolic link, keep writes to its target.
func TestKeepSymlink(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Write("/etc/kubernetes/managed.yaml", fakenode.Valid("monitoring"))
	if err := os.Symlink("managed.yaml", filepath.Join(n.Root, kubeletconfig.OverridePath)); err != nil {
		t.Fatal(err)
	}
	n.Generate(0)
	n.try()
	n.says(exitOK, "Kept", "keep")
	if got := n.file("/etc/kubernetes/managed.yaml"); got != fakenode.Valid("kube-system")+"\n" {
		t.Errorf("%q", got)
	}
}

func TestTryEnd(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.try()
	n.calls()
	n.says(exitOK, "The trial has ended", "try", "--end")
	if calls := n.calls(); !slices.Equal(calls, []string{
		"systemctl daemon-reload", "systemctl start slices.target", "systemctl start --no-block partition-monitor.service", "systemctl stop node-partition-trial.timer",
	}) {
		t.Errorf("%q", calls)
	}
	n.nothingTried()
	n.says(exitProblem, "no trial is running", "try", "--end")
}

// TestTryInterrupted: if try is killed or a step fails, nothing is applied, or the timer goes back.
func TestTryInterrupted(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Write(triedFile, fakenode.Valid("kube-system"))
	for _, tc := range []struct {
		fails, want string
		timer       bool // whether the timer is left running, to go back
	}{
		{"systemd-run", "the timer that ends the trial cannot be started, nothing was applied: systemd-run --quiet: that has failed", false},
		{"systemctl show", "that has failed", false},
		{"systemctl daemon-reload", "not applied, going back: systemctl daemon-reload: that has failed", true},
		{"systemctl start kubepods-system", "not applied, going back: systemctl start: that has failed", false},
	} {
		n.Write("/run/fails", tc.fails)
		n.says(exitProblem, tc.want, "try", triedFile)
		n.nothingTried()
		if calls := n.file("/run/calls"); !strings.Contains(calls, "systemd-run") && strings.Contains(calls, "daemon-reload") {
			t.Errorf("applied without a timer: %s", calls)
		}
		n.remove("/run/calls")
		if got := n.file("/run/timer") != ""; got != tc.timer {
			t.Errorf("%s fails: timer %t, want %t", tc.fails, got, tc.timer)
		}
		n.remove("/run/fails")
		n.remove("/run/timer")
	}
	n.Write("/run/generator-is-missing", "")
	n.says(exitProblem, "is partition-generator installed?", "try", triedFile)
	n.nothingTried()
	n.remove("/run/generator-is-missing")
	// If the time is over before the section is in place, it is never applied.
	n.Write("/run/timer-is-early", "")
	n.says(exitProblem, "not applied, going back: the time was over before", "try", triedFile)
	n.nothingTried()
	n.remove("/run/timer-is-early")
	n.remove("/run/timer")
	// try is killed before it has started the timer, and after.
	n.Write(trialNext, fakenode.Valid("monitoring"))
	n.try()
	goBackScript := n.file("/run/timer")
	n.timeIsOver()
	n.nothingTried()
	n.Write("/run/timer", goBackScript)
	n.says(exitProblem, "if one is left over: partition-monitor try --end", "try", triedFile)
	n.says(exitOK, "The trial has ended", "try", "--end")
	n.try()
	// keep is killed after it has written the override. The timer then has nothing to undo.
	n.Write(kubeletconfig.OverridePath, strings.TrimSpace(n.file(kubeletconfig.TrialPath)))
	n.timeIsOver()
	n.nothingTried()
	if !strings.Contains(n.file(kubeletconfig.OverridePath), "kube-system") {
		t.Error("what was kept is gone")
	}
}

// TestTryTimerLost: a trial whose timer was stopped ends when the generator runs after its time,
// and not before.
func TestTryTimerLost(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.try()
	n.remove("/run/timer")
	about, err := trialend.Now()
	if err != nil {
		t.Fatal(err)
	}
	n.Generate(0)
	if n.file(kubeletconfig.TrialPath) == "" {
		t.Error("it ended before its time")
	}
	about.Since += 24 * time.Hour
	// A run for another directory, as of systemd-analyze, changes nothing on the node.
	generator.Run(n.Root, t.TempDir(), about, generator.NewLog(io.Discard))
	if n.file(kubeletconfig.TrialPath) == "" {
		t.Error("a run by hand has ended it")
	}
	if said := n.GenerateAt(about, 0); !strings.Contains(said, "the trial of "+triedFile+" is over, and its timer has not ended it") {
		t.Errorf("%q", said)
	}
	n.nothingTried()
}

// TestRunEndsTrial: after each pass the service looks for a trial that is over, and reloads
// systemd.
func TestRunEndsTrial(t *testing.T) {
	t.Parallel()
	n := running(t)
	about, err := json.Marshal(state.Trial{From: triedFile, Until: time.Now().Add(time.Hour), End: trialend.Moment{Boot: "an earlier one"}})
	if err != nil {
		t.Fatal(err)
	}
	n.Write(trialAbout, string(about))
	n.Write(kubeletconfig.TrialPath, fakenode.Valid("kube-system"))
	cmd := n.program("run", "--listen=")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	ended := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), "a trial is over, and its timer has not ended it: reloading systemd") {
			ended = true
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !ended {
		t.Errorf("%v; ended the trial: %t", err, ended)
	}
}

// TestCheckTrial: check reports an error if the timer of a trial was stopped, or if its end fails.
func TestCheckTrial(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.says(exitProblem, "ok       trial: no trial is running", "check", "-v", "--listen=")
	n.try()
	var about state.Trial
	if err := json.Unmarshal([]byte(n.file(trialAbout)), &about); err != nil {
		t.Fatal(err)
	}
	about.End.Since -= 2 * time.Hour
	about.Until = time.Now().Add(24 * time.Hour) // by a clock that was set
	data, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	n.Write(trialAbout, string(data))
	n.says(exitProblem, "error    trial: the trial of "+triedFile+" was to end at ", "check", "--listen=")
	n.remove("/run/timer")
	n.says(exitProblem, "error    trial: the trial of "+triedFile+" has no timer; partition-monitor.service, or else the next daemon-reload, ends it", "check", "--listen=")
	n.remove(trialAbout)
	n.says(exitProblem, "warning  trial: a trial is running, and its description cannot be read: ", "check", "--listen=")
	n.says(exitOK, "The trial has ended", "try", "--end")
}

// TestTryEndRefused: the generator refuses the configuration to go back to, and keeps the units of
// the trial, which has a workload partition alone. The trial has not ended then.
func TestTryEndRefused(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Write(triedFile, fakenode.Configuration("workloadPartitions:\n  batch: {memoryLimit: 64Mi, namespaces: [batch]}\n"))
	n.says(exitOK, "is tried until", "try", triedFile)
	n.Generate(0)
	n.says(exitProblem, "the units of the trial stay", "try", "--end") // nothing is generated here
}

// TestTryBelowUsage: a limit below what the partition uses now evicts pods as soon as it is in
// force. It is refused without --force, and nothing is applied.
func TestTryBelowUsage(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.Partition("1073741824")
	n.Write(fakenode.SystemCgroup+"/memory.stat", "anon 524288000\ninactive_file 104857600\nactive_file 0\nslab_reclaimable 0")
	section := func(limit string) {
		n.Write(triedFile, fakenode.Configuration("systemPartition:\n  memoryLimit: "+limit+"\n  namespaces: [kube-system]\n"))
	}
	for _, use := range []struct{ current, limit, want string }{
		{"629145600", "512Mi", "is below what the partition uses now, 500Mi: pods would be evicted at once; want 532Mi or more"},
		{"629145600", "528Mi", "with a threshold of 32Mi, is below"},
		{"1677721600", "1Gi", "want 1579Mi or more"},
	} {
		n.Write(fakenode.SystemCgroup+"/memory.current", use.current)
		section(use.limit)
		n.says(exitProblem, use.want, "try", triedFile)
		n.nothingTried()
	}
	if calls := n.calls(); slices.ContainsFunc(calls, func(call string) bool { return call != "" }) {
		t.Errorf("%q", calls)
	}
	n.Write(fakenode.SystemCgroup+"/memory.current", "629145600")
	section("532Mi") // inactive page cache is not in use
	n.says(exitOK, "is tried until", "try", triedFile)
	n.says(exitOK, "has ended", "try", "--end")
	section("512Mi")
	n.says(exitOK, "is tried until", "try", "--force", triedFile)
	n.says(exitOK, "has ended", "try", "--end")
	// A section without a limit.
	n.Write(triedFile, fakenode.Configuration("systemPartition:\n  namespaces: [kube-system]\n"))
	n.says(exitOK, "is tried until", "try", triedFile)
}

// TestTryBelowMembers: before the first trial the pods are outside of the partition, and a limit
// below what they use is a warning.
func TestTryBelowMembers(t *testing.T) {
	t.Parallel()
	n := tryingNode(t)
	n.TellPods()
	slice := partition.PodSlice(partition.Default, partition.Burstable, fakenode.UID)
	n.Write(filepath.Join(cgroups.Mount, partition.CgroupPath(slice), "memory.current"), "629145600")
	n.Write(triedFile, fakenode.Configuration("systemPartition:\n  memoryLimit: 512Mi\n  namespaces: [kube-system]\n"))
	n.says(exitOK, "pods use now, 600Mi: pods are evicted as they come into the partition", "try", triedFile)
}
