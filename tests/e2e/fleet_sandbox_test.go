//go:build node

package e2e

import (
	"slices"
	"strings"
	"testing"

	installer "node-partition.io/node-partition/internal/installer/sandbox"
	"node-partition.io/node-partition/tests/lab"
)

// mayWrite returns the folders that the installer may write, as docs/fleet-node.md does.
func mayWrite(survey bool) []string {
	if survey {
		return []string{installerFolder}
	}
	return []string{installerFolder, "/etc/systemd", "/etc/kubernetes", "/run/node-partition", "/usr/bin", "/usr/lib/systemd", "/usr/libexec"}
}

// writesOnly: find, run as the installer is run, finds no folder of the host that can be written
// but what mayWrite lists, and its private /tmp and /var/tmp. /dev/pts takes no files.
func writesOnly(t *testing.T, n *lab.Node) {
	t.Helper()
	for unit, survey := range map[string]bool{"writes-apply": false, "writes-survey": true} {
		lines := append([]string{"[Service]"}, installer.Lines(survey,
			"/usr/bin/find", "/", "-path", "/proc", "-prune", "-o", "-path", "/sys", "-prune", "-o", "-type", "d", "-writable", "-print")...)
		lines = append(lines, "ExecStart=/usr/bin/find /sys/fs/cgroup /proc/sys -maxdepth 1 -type d -writable -print",
			"StandardOutput=append:/run/"+unit+".txt", "")
		if err := n.WriteFile(t.Context(), "/run/systemd/system/"+unit+".service", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, n, "mkdir -p "+installerFolder+" && systemctl daemon-reload && systemctl start "+unit)
		found := strings.Fields(run(t, n, "cat /run/"+unit+".txt"))
		folders := mayWrite(survey)
		for _, folder := range folders {
			if !slices.Contains(found, folder) {
				t.Errorf("%s cannot write %s: %q", unit, folder, found)
			}
		}
		for _, folder := range found {
			if !slices.ContainsFunc(append([]string{"/tmp", "/var/tmp", "/dev/pts"}, folders...), func(f string) bool {
				return folder == f || strings.HasPrefix(folder, f+"/")
			}) {
				t.Errorf("%s can write %s", unit, folder)
			}
		}
	}
	run(t, n, "rm /run/systemd/system/writes-*.service /run/writes-*.txt && rmdir --ignore-fail-on-non-empty "+installerFolder+" && systemctl daemon-reload")
}

// podWritesOnly: a shell in place of the installer's container writes to the installer's folder,
// and to no other folder that is not the container's own. It cannot mount one either.
func (f *fleetNode) podWritesOnly(t *testing.T) {
	t.Helper()
	const tries = `exec >/dev/termination-log 2>/dev/null
for dir in $(find / -path /proc -prune -o -path /sys -prune -o -type d -print); do
	touch $dir/try && rm $dir/try && echo $dir
done
for dir in /sys/fs/cgroup /sys/kernel /proc/sys/kernel; do mkdir $dir/try && echo $dir; done
echo 1 >/proc/sys/kernel/panic && echo sysctl
mount -o remount,rw / && echo remount
mount -t tmpfs none /section && echo mount
mknod /host/state/try b 8 0 && echo mknod
exit 0`
	pod := f.pod("tries", nil)
	c := &pod.Spec.Containers[0]
	c.Image, c.Command, c.Args = lab.BusyboxImage, []string{"sh", "-c", tries}, nil
	run(t, f.Node, "mkdir -p "+sectionFolder)
	message, status := f.ended(t, pod)
	// The last two are file systems of the container.
	if wanted := "/host/state\n/dev\n/dev/mqueue\n/dev/shm"; status != 0 || !sameLines(message, wanted) {
		t.Errorf("status %d, it wrote to\n%s\nwant\n%s", status, message, wanted)
	}
}

// sameLines reports whether two texts have the same lines in any order.
func sameLines(a, b string) bool {
	lines := func(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }
	return slices.Equal(lines(a), lines(b))
}
