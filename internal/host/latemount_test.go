package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes a root with files. A content that begins with "-> " is the target of a link.
func tree(t *testing.T, files map[string]string) Root {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write := func() error { return os.WriteFile(path, []byte(content), 0o644) }
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			write = func() error { return os.Symlink(target, path) }
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	return Root(root)
}

func TestLate(t *testing.T) {
	belowVar := []string{"/var/lib/kubelet/config.yaml", "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"}
	section := "/etc/kubernetes/node-partition.yaml"
	missing := append([]string{section, "/run/kubelet.conf"}, belowVar...)
	const (
		status   = "/var/lib/dpkg/status"
		mounted  = "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:16 / /var rw - ext4 /dev/vdb rw\n"
		automate = "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:30 / /var rw - autofs systemd-1 rw\n"
	)
	onVar := func(line string) map[string]string { return map[string]string{status: "", "/etc/fstab": line + "\n"} }
	for name, test := range map[string]struct {
		files                  map[string]string
		paths, atBoot, demands []string
	}{
		"nothing says so":           {map[string]string{status: ""}, nil, nil, nil},
		"a line in fstab":           {onVar("LABEL=v /var ext4 defaults 0 2"), belowVar, []string{"var.mount"}, nil},
		"with a slash at its end":   {onVar("LABEL=v /var/lib/ ext4"), belowVar, []string{"var-lib.mount"}, nil},
		"a comment in fstab":        {onVar("# LABEL=v /var ext4\n#/x /var ext4"), nil, nil, nil},
		"noauto":                    {onVar("LABEL=v /var ext4 nofail,noauto 0 2"), nil, nil, []string{"var.mount"}},
		"nofail":                    {onVar("LABEL=v /var ext4 nofail 0 2"), belowVar, nil, []string{"var.mount"}},
		"an automount":              {onVar("LABEL=v /var ext4 x-systemd.automount 0 2"), belowVar, nil, []string{"var.mount"}},
		"an automount as of old":    {onVar("LABEL=v /var ext4 comment=systemd.automount"), belowVar, nil, []string{"var.mount"}},
		"a server":                  {onVar("nfs:/v /var nfs4 defaults 0 0"), belowVar, nil, []string{"var.mount"}},
		"a server, by FUSE":         {onVar("host: /var fuse.sshfs defaults 0 0"), belowVar, nil, []string{"var.mount"}},
		"a disk in the network":     {onVar("LABEL=v /var ext4 _netdev 0 2"), belowVar, nil, []string{"var.mount"}},
		"for another unit":          {onVar("LABEL=v /var ext4 x-systemd.wanted-by=kubelet.service"), belowVar, nil, []string{"var.mount"}},
		"as another unit needs it":  {onVar("LABEL=v /var ext4 x-systemd.required-by=kubelet.service 0 2"), belowVar, nil, []string{"var.mount"}},
		"mounted already":           {map[string]string{status: "", "/etc/fstab": "LABEL=v /var ext4\n", "/proc/self/mountinfo": mounted}, nil, nil, nil},
		"an automount that waits":   {map[string]string{status: "", "/etc/fstab": "LABEL=v /var ext4 x-systemd.automount\n", "/proc/self/mountinfo": automate}, belowVar, nil, []string{"var.mount"}},
		"another mount below":       {map[string]string{status: "", "/etc/fstab": "LABEL=v /var ext4\nLABEL=k /var/lib/kubelet ext4\n", "/proc/self/mountinfo": mounted}, belowVar[:1], []string{"var-lib-kubelet.mount"}, nil},
		"a mount unit":              {map[string]string{status: "", "/etc/systemd/system/var.mount": ""}, belowVar, nil, []string{"var.mount"}},
		"one at the last place":     {map[string]string{status: "", "/usr/lib/systemd/system/var.mount": ""}, belowVar, nil, []string{"var.mount"}},
		"a link to nothing":         {map[string]string{status: "", "/etc/systemd/system/var.mount": "-> /gone"}, nil, nil, nil},
		"with dashes in its name":   {map[string]string{status: "", `/etc/systemd/system/etc-kubernetes-node\x2dpartition.yaml.mount`: ""}, []string{section}, nil, []string{`etc-kubernetes-node\x2dpartition.yaml.mount`}},
		"a bare /var":               {map[string]string{"/var/README": ""}, belowVar, nil, nil},
		"/etc/kubernetes":           {onVar("LABEL=e /etc/kubernetes ext4"), []string{section}, []string{"etc-kubernetes.mount"}, nil},
		"the file itself":           {onVar("/srv/p.yaml /etc/kubernetes/node-partition.yaml none bind"), []string{section}, []string{`etc-kubernetes-node\x2dpartition.yaml.mount`}, nil},
		"a mount of something else": {onVar("LABEL=v /var/lib/kubelet-data ext4\nLABEL=v /home ext4\nswap none swap\nbroken"), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			late := ReadMounts(tree(t, test.files)).Late(missing, nil)
			if !slices.Equal(late.Paths, test.paths) || !slices.Equal(late.MountUnits, test.atBoot) || !slices.Equal(late.OnDemand, test.demands) ||
				late.Bare != (name == "a bare /var") || late.AtBoot() != (late.Bare || len(test.atBoot) > 0) {
				t.Errorf("%+v; want the paths %q, at boot %q, on demand %q", late, test.paths, test.atBoot, test.demands)
			}
		})
	}
}

// TestLateOthers: a folder that is there, below the place of a file system that is not, counts for
// its mount alone.
func TestLateOthers(t *testing.T) {
	late := ReadMounts(tree(t, map[string]string{"/etc/fstab": "LABEL=v /srv ext4 noauto\n"})).Late(nil, []string{"/srv/kubelet.conf.d"})
	if len(late.Paths) > 0 || !slices.Equal(late.OnDemand, []string{"srv.mount"}) {
		t.Errorf("%+v; want srv.mount on demand", late)
	}
}

// TestWatchable: PID 1 looks only at paths that it can look at without mounting something, and
// without a server.
func TestWatchable(t *testing.T) {
	const mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:16 / /local rw - ext4 /dev/vdb rw\n" +
		"31 22 0:40 / /server rw - nfs4 host:/ rw\n32 31 254:17 / /server/disk rw - ext4 /dev/vdc rw\n33 22 0:41 / /auto rw - autofs systemd-1 rw\n"
	m := ReadMounts(tree(t, map[string]string{"/etc/fstab": "LABEL=n /not ext4 noauto\nLABEL=l /local ext4 noauto\n", "/proc/self/mountinfo": mounts}))
	for name, want := range map[string]bool{
		"/etc/a": true, "/local/a": true, "/server/a": false, "/server/disk/a": true, "/auto/a": false, "/auto": false, "/not/a": false, "/nothing": true,
	} {
		if got := m.Watchable(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// TestLinks: what is behind a link is on the file system that the link leads to.
func TestLinks(t *testing.T) {
	const (
		section = "/etc/kubernetes/node-partition.yaml"
		root    = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
		idle    = root + "33 22 0:41 / /data rw - autofs systemd-1 rw\n"
		server  = root + "33 22 0:41 / /data rw - nfs4 host:/ rw\n"
		disk    = root + "33 22 254:16 / /data rw - ext4 /dev/vdb rw\n"
		nofail  = "LABEL=d /data ext4 nofail 0 2\n"
		network = "host:/ /data nfs noauto,x-systemd.automount\n"
	)
	for name, test := range map[string]struct {
		files           map[string]string
		demands         []string
		idle, watchable bool
	}{
		"to a disk that may come":  {map[string]string{"/etc/kubernetes": "-> /data/kubernetes", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, []string{"data.mount"}, false, false},
		"to a disk that has come":  {map[string]string{"/etc/kubernetes": "-> /data/kubernetes", "/etc/fstab": nofail, "/proc/self/mountinfo": disk}, nil, false, true},
		"to an idle automount":     {map[string]string{"/etc/kubernetes": "-> /data/kubernetes", "/etc/fstab": network, "/proc/self/mountinfo": idle}, []string{"data.mount"}, true, false},
		"to a server":              {map[string]string{"/etc/kubernetes": "-> /data/kubernetes", "/etc/fstab": network, "/proc/self/mountinfo": server}, nil, false, false},
		"of a file":                {map[string]string{section: "-> /data/section.yaml", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, []string{"data.mount"}, false, false},
		"that is relative":         {map[string]string{"/etc/kubernetes": "-> ../data/./kubernetes", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, []string{"data.mount"}, false, false},
		"to a link":                {map[string]string{"/etc/kubernetes": "-> /srv/kubernetes", "/srv": "-> data", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, []string{"data.mount"}, false, false},
		"below what is not there":  {map[string]string{"/etc/kubernetes": "-> /data/a/../b", "/etc/fstab": "LABEL=d /data ext4 noauto\nLABEL=b /data/b ext4 noauto\n", "/proc/self/mountinfo": root}, []string{"data.mount", "data-b.mount"}, false, false},
		"behind one below a mount": {map[string]string{"/etc/kubernetes": "-> /data/a", "/data/a": "-> /b", "/etc/fstab": network + "LABEL=b /b ext4 noauto\n", "/proc/self/mountinfo": idle}, []string{"data.mount"}, true, false},
		"to itself":                {map[string]string{"/etc/kubernetes": "-> /etc/kubernetes", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, nil, false, true},
		"to what is always there":  {map[string]string{"/etc/kubernetes": "-> /run/kubernetes", "/etc/fstab": "tmpfs /run/kubernetes tmpfs noauto\n", "/proc/self/mountinfo": root}, nil, false, true},
		"to another place in /etc": {map[string]string{"/etc/kubernetes": "-> k8s", "/etc/fstab": nofail, "/proc/self/mountinfo": root}, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := ReadMounts(tree(t, test.files))
			if late := m.Late([]string{section}, nil); !slices.Equal(late.OnDemand, test.demands) || len(late.MountUnits) > 0 {
				t.Errorf("%+v; want %q", late, test.demands)
			}
			if got := m.Idle(section); got != test.idle {
				t.Errorf("idle: %t", got)
			}
			if got := m.Watchable(section); got != test.watchable {
				t.Errorf("watchable: %t", got)
			}
		})
	}
}
