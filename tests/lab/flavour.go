package lab

import (
	"fmt"
	"strings"
)

// Flavour declares one kind of node: what Debian it is, which programs are built for it and which
// files of guest/ its image gets. Everything in it takes part in the key of the cached image.
type Flavour struct {
	// Name is what users and Options.Flavour say.
	Name string
	// Release is Debian's code name, as mmdebstrap takes it.
	Release string
	// Packages are installed on top of the ones every flavour has.
	Packages []string
	// Programs are built from their Go modules and copied to /usr/bin.
	Programs []Program
	// Overlays name the folders below guest/ that are laid over guest/common, one over the other.
	Overlays []string
	// Units are enabled in multi-user.target.
	Units []string
	// Socket is where its runtime serves the CRI.
	Socket string
	// NRI tells whether the flavour's runtime serves NRI.
	NRI bool
	// Summary is one line for people.
	Summary string
}

// Program is a Go program that is built from a nested module of sources/, which pins it.
type Program struct {
	// Source is the folder below sources/.
	Source string
	// Packages are the main packages, each of which becomes a file of its last path element.
	Packages []string
	// Variables are set with -ldflags -X, Tags with -tags.
	Variables []string
	Tags      []string `json:",omitempty"`
	// C is a program in C that comes with the Go module, if there is one.
	C *CProgram `json:",omitempty"`
	// Version is what the program says of itself.
	Version string
}

// CProgram is a program in C that lies in a Go module.
type CProgram struct {
	// Name is what its file is called.
	Name string
	// Module has the sources, in Folder.
	Module, Folder string
}

// Flavours returns the declared flavours, the default one first.
func Flavours() []Flavour {
	return []Flavour{
		{
			Name:    "trixie",
			Release: "trixie",
			// Debian 13 has containerd 1.7, which has NRI switched off: containerd is built instead.
			Packages: []string{"runc"},
			Programs: []Program{kubelet("1.37", "v1.37.0"), containerd("2.3", "v2.3.7")},
			Overlays: []string{"containerd", "trixie"},
			Units:    []string{"/etc/systemd/system/containerd.service"},
			Socket:   "/run/containerd/containerd.sock",
			NRI:      true,
			Summary:  "Debian 13, systemd 257, containerd v2.3.7 with NRI, kubelet v1.37.0",
		},
		{
			Name:     "bookworm",
			Release:  "bookworm",
			Packages: []string{"containerd", "runc"},
			// The newest kubelet that works with containerd 1.6: it logs that the runtime lacks the call RuntimeConfig, and
			// takes cgroupDriver from its configuration. 1.38 will not (getCgroupDriverFromCRI, cmd/kubelet/app/server.go).
			Programs: []Program{kubelet("1.37", "v1.37.0")},
			Overlays: []string{"containerd", "bookworm"},
			Units:    []string{"/lib/systemd/system/containerd.service"},
			Socket:   "/run/containerd/containerd.sock",
			Summary:  "Debian 12, systemd 252, containerd 1.6 without NRI, kubelet v1.37.0",
		},
		{
			Name:    "crio",
			Release: "trixie",
			// skopeo is what imports images.
			Packages: []string{"conmon", "crun", "skopeo"},
			Programs: []Program{kubelet("1.37", "v1.37.0"), crio("1.34", "v1.34.0")},
			Overlays: []string{"crio"},
			Units:    []string{"/etc/systemd/system/crio.service"},
			Socket:   "/run/crio/crio.sock",
			NRI:      true,
			Summary:  "Debian 13, systemd 257, CRI-O v1.34.0 with NRI and crun, kubelet v1.37.0",
		},
	}
}

// FlavourByName returns the flavour of that name; the empty name is the default flavour.
func FlavourByName(name string) (Flavour, error) {
	flavours := Flavours()
	if name == "" {
		return flavours[0], nil
	}
	names := make([]string, 0, len(flavours))
	for _, f := range flavours {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Flavour{}, fmt.Errorf("flavour %q: not known: use one of %s", name, strings.Join(names, ", "))
}

func kubelet(minor, version string) Program { return kubernetesProgram("kubelet", minor, version) }

// kubeAPIServer is the control plane's, and in no image.
func kubeAPIServer() Program { return kubernetesProgram("kube-apiserver", "1.37", "v1.37.0") }

// kubeControllerManager is the control plane's, too.
func kubeControllerManager() Program {
	return kubernetesProgram("kube-controller-manager", "1.37", "v1.37.0")
}

func kubernetesProgram(name, minor, version string) Program {
	return Program{
		Source:   name + "-" + minor,
		Packages: []string{"k8s.io/kubernetes/cmd/" + name},
		Variables: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/component-base/version.gitMajor=1",
			"k8s.io/component-base/version.gitMinor=" + strings.TrimPrefix(minor, "1."),
			"k8s.io/component-base/version.gitTreeState=clean",
		},
		Version: version,
	}
}

func containerd(minor, version string) Program {
	const module = "github.com/containerd/containerd/v2"
	return Program{
		Source: "containerd-" + minor,
		Packages: []string{
			module + "/cmd/containerd",
			module + "/cmd/containerd-shim-runc-v2",
			module + "/cmd/ctr",
		},
		Variables: []string{module + "/version.Version=" + version},
		Version:   version,
	}
}

func crio(minor, version string) Program {
	const module = "github.com/cri-o/cri-o"
	return Program{
		Source:   "crio-" + minor,
		Packages: []string{module + "/cmd/crio"},
		// Without cgo: no signatures by way of gpgme, no btrfs, no seccomp.
		Tags:    []string{"containers_image_openpgp", "exclude_graphdriver_btrfs"},
		C:       &CProgram{Name: "pinns", Module: module, Folder: "pinns/src"},
		Version: version,
	}
}

// basePackages are in every flavour: a systemd machine that is reached by ssh and runs containers.
func basePackages() []string {
	return []string{
		"busybox-static", "containernetworking-plugins", "cpio", "dbus", "e2fsprogs", "iproute2", "kmod",
		"linux-image-cloud-amd64", "mount", "openssh-server", "procps", "systemd", "systemd-sysv", "udev",
		"xz-utils",
	}
}

// maskedUnits are of no use to a node that lives for minutes, and each costs time at boot.
func maskedUnits() []string {
	return []string{
		"apt-daily-upgrade.timer", "apt-daily.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
		"e2scrub_reap.service", "fstrim.timer", "getty@tty1.service", "getty-static.service",
		"ldconfig.service", "man-db.timer", "serial-getty@ttyS0.service", "ssh.socket",
		"sshd-keygen.service", "systemd-binfmt.service", "systemd-firstboot.service",
		"systemd-hwdb-update.service", "systemd-journal-catalog-update.service",
		"systemd-machine-id-commit.service", "systemd-networkd-persistent-storage.service",
		"systemd-pcrmachine.service", "systemd-pcrphase-sysinit.service",
		"systemd-pcrphase.service", "systemd-pstore.service", "systemd-tpm2-setup-early.service",
		"systemd-tpm2-setup.service", "systemd-update-done.service", "systemd-update-utmp.service",
		"systemd-update-utmp-runlevel.service", "systemd-network-generator.service",
	}
}
