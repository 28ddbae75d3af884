package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Flavour declares one kind of node: what Debian it is, which programs are built for it and which
// files of guest/ its image gets. Everything in it takes part in the key of the cached image.
type Flavour struct {
	// Name is what users and Options.Flavour say.
	Name string
	// Release is Debian's code name, as mmdebstrap takes it.
	Release string
	// Packages are installed on top of the ones every flavour has. Flavours of one release that name the same ones share
	// one installation.
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
	// CPU is added to the processor's model under emulation, behind a comma.
	CPU string `json:",omitempty"`
	// Summary is one line for people.
	Summary string
	// OnRequest keeps it out of what is prepared, and what tests run on, when nobody names it.
	OnRequest bool `json:"-"`
}

// Program is what is built in one go from a nested module of sources/, which pins it.
type Program struct {
	// Name is what it is called in the cache.
	Name string
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

// ofKubernetes tells whether its objects are of use to the other programs of Kubernetes.
func (p Program) ofKubernetes() bool { return strings.HasPrefix(p.Source, "kubernetes-") }

// CProgram is a program in C that lies in a Go module.
type CProgram struct {
	// Name is what its file is called.
	Name string
	// Module has the sources, in Folder.
	Module, Folder string
}

// Flavours returns the flavours that are prepared and tested when none is named, the default one first.
func Flavours() []Flavour {
	return slices.DeleteFunc(AllFlavours(), func(f Flavour) bool { return f.OnRequest })
}

// AllFlavours returns those on request, too.
func AllFlavours() []Flavour {
	// Both kinds of nodes of Debian 13 have what each of them needs: an installation takes longer than these packages.
	// skopeo is what imports images into CRI-O's storage.
	trixiePackages := []string{"conmon", "crun", "runc", "skopeo"}
	return []Flavour{
		{
			Name:    "trixie",
			Release: "trixie",
			// Debian 13 has containerd 1.7, which has NRI switched off: containerd is built instead.
			Packages: trixiePackages,
			Programs: []Program{kubelet(), containerd("2.3", "v2.3.7")},
			Overlays: []string{"containerd", "containerd-2", "trixie"},
			Units:    []string{"/etc/systemd/system/containerd.service"},
			Socket:   containerdSocket,
			NRI:      true,
			Summary:  "Debian 13, systemd 257, containerd v2.3.7 with NRI, kubelet v1.37.0",
		},
		{
			Name:     "bookworm",
			Release:  "bookworm",
			Packages: []string{"containerd", "runc"},
			// The newest kubelet that works with containerd 1.6: it logs that the runtime lacks the call RuntimeConfig, and
			// takes cgroupDriver from its configuration. 1.38 will not (getCgroupDriverFromCRI, cmd/kubelet/app/server.go).
			Programs: []Program{kubelet()},
			Overlays: []string{"containerd", "bookworm"},
			Units:    []string{"/lib/systemd/system/containerd.service"},
			Socket:   containerdSocket,
			Summary:  "Debian 12, systemd 252, containerd 1.6 without NRI, kubelet v1.37.0",
		},
		{
			Name:     "crio",
			Release:  "trixie",
			Packages: trixiePackages,
			Programs: []Program{kubelet(), crio("1.34", "v1.34.0")},
			Overlays: []string{"crio"},
			Units:    []string{"/etc/systemd/system/crio.service"},
			Socket:   "/run/crio/crio.sock",
			NRI:      true,
			Summary:  "Debian 13, systemd 257, CRI-O v1.34.0 with NRI and crun, kubelet v1.37.0",
		},
		{
			Name:    "forky",
			Release: "forky",
			// It is there for its runc: from 1.3.2 on that turns CPU shares into cpu.weight by another formula than the kubelet.
			// The others' runc (1.1) and crun (1.21) have the kubelet's.
			Packages: []string{"containerd", "runc"},
			Programs: []Program{kubelet()},
			Overlays: []string{"containerd", "containerd-2"},
			Units:    []string{"/lib/systemd/system/containerd.service"},
			Socket:   containerdSocket,
			NRI:      true,
			// Linux 7.2 looks for these instructions alone before it uses them, and panics without xsave (polyval_mul_pclmul_avx).
			// The others' kernels are quicker with them: 62 s of CPU time for a boot until pods run instead of 79.
			CPU:     ",avx=off,avx2=off,f16c=off,fma=off,vaes=off",
			Summary: "Debian 14 (testing), systemd 262, containerd 2.1 with NRI and runc 1.3, Debian's, kubelet v1.37.0",
		},
		{
			Name:      "containerd-1.7",
			Release:   "trixie",
			Packages:  []string{"containerd", "runc"},
			Programs:  []Program{kubelet()},
			Overlays:  []string{"containerd", "containerd-1.7"},
			Units:     []string{"/lib/systemd/system/containerd.service"},
			Socket:    containerdSocket,
			NRI:       true,
			Summary:   "Debian 13, systemd 257, containerd 1.7, Debian's, with NRI switched on, kubelet v1.37.0",
			OnRequest: true,
		},
	}
}

const containerdSocket = "/run/containerd/containerd.sock"

// FlavourByName returns the flavour of that name; the empty name is the default flavour. Behind any name "+kubelet-1.35"
// stands for the same node with that kubelet.
func FlavourByName(name string) (Flavour, error) {
	base, older, hasKubelet := strings.Cut(name, kubeletMark)
	f, err := declaredFlavour(base)
	if err != nil || !hasKubelet {
		return f, err
	}
	program, err := olderKubelet(older)
	if err != nil {
		return Flavour{}, fmt.Errorf("flavour %q: %w", name, err)
	}
	current := kubelet()
	for i, p := range f.Programs {
		if p.Name == current.Name {
			f.Programs[i] = program
		}
	}
	f.Name += kubeletMark + older
	f.Summary = strings.ReplaceAll(f.Summary, current.Version, program.Version)
	f.OnRequest = true
	return f, nil
}

// kubeletMark stands between a flavour's name and the version of another kubelet.
const kubeletMark = "+kubelet-"

func declaredFlavour(name string) (Flavour, error) {
	flavours := AllFlavours()
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

// hostName is the flavour's name as a part of a host name.
func (f Flavour) hostName() string { return strings.NewReplacer("+", "-", ".", "-").Replace(f.Name) }

// kubernetesVersion is that of the kubelet and of the control plane.
const kubernetesVersion = "v1.37.0"

func kubelet() Program { return kubernetesPrograms("kubelet", kubernetesVersion, "kubelet") }

// olderKubelet returns a kubelet of another minor version than the flavours'.
func olderKubelet(minor string) (Program, error) {
	const known = "v1.35.8"
	if minor != minorOf(known) {
		return Program{}, fmt.Errorf("kubelet %s: not known: use %s, or leave it out for %s", minor, minorOf(known), minorOf(kubernetesVersion))
	}
	return kubernetesPrograms("kubelet", known, "kubelet"), nil
}

// controlPlanePrograms are in no image. They are linked side by side, and what they have in common is compiled once.
func controlPlanePrograms() Program {
	return kubernetesPrograms("control-plane", kubernetesVersion, "kube-apiserver", "kube-controller-manager")
}

// kubernetesPrograms returns programs of one release of Kubernetes.
func kubernetesPrograms(name, version string, programs ...string) Program {
	minor := minorOf(version)
	p := Program{
		Name:   name + "-" + minor,
		Source: "kubernetes-" + minor,
		Variables: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/component-base/version.gitMajor=1",
			"k8s.io/component-base/version.gitMinor=" + strings.TrimPrefix(minor, "1."),
			"k8s.io/component-base/version.gitTreeState=clean",
		},
		Version: version,
	}
	for _, program := range programs {
		p.Packages = append(p.Packages, "k8s.io/kubernetes/cmd/"+program)
	}
	return p
}

// minorOf returns "1.37" of "v1.37.0".
func minorOf(version string) string {
	minor, _, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	return "1." + minor
}

func containerd(minor, version string) Program {
	const module = "github.com/containerd/containerd/v2"
	return Program{
		Name:   "containerd-" + minor,
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
		Name:     "crio-" + minor,
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

// maskedGenerators returns the generators of systemd that write nothing on a node. systemd-fstab-generator is not among them: it
// runs beside partition-generator. Each generator costs an emulated node 90 ms of CPU time at every boot and reload.
// systemd-ssh-generator also looks for sockets of hypervisors that are not there, and complains on the console (257).
func maskedGenerators() []string {
	return []string{
		"bless-boot", "cryptsetup", "debug", "factory-reset", "getty", "gpt-auto", "hibernate-resume", "integritysetup", "rc-local",
		"run", "ssh", "system-update", "sysv", "tpm2", "veritysetup",
	}
}
