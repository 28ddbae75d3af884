package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Flavour declares one kind of node: its Debian release, the programs that are built for it, and
// the files of guest/ in its image. All fields but OnRequest take part in the key of the cached
// image.
type Flavour struct {
	// Name is the name in Options.Flavour and on the command line.
	Name string
	// Release is Debian's code name, as mmdebstrap takes it.
	Release string
	// Arch is the architecture of its nodes, as Go and Debian name it, unless it is this machine's.
	Arch string `json:",omitempty"`
	// Packages are installed on top of those of every flavour. Flavours of one release with the same
	// packages share one installation.
	Packages []string
	// Programs are built from their Go modules and copied to /usr/bin.
	Programs []Program
	// Overlays name the folders below guest/ that are laid over guest/common, one over the other.
	Overlays []string
	// Units are enabled in multi-user.target.
	Units []string
	// Socket is the path of the runtime's CRI socket.
	Socket string
	// NRI means that the flavour's runtime serves NRI.
	NRI bool
	// SELinux means that its nodes enforce the policy of the package selinux-policy-default.
	SELinux bool `json:",omitempty"`
	// CPU is added to the processor's model under emulation, behind a comma.
	CPU string `json:",omitempty"`
	// Summary describes the flavour in one line.
	Summary string
	// OnRequest means that the flavour is only prepared and tested by name.
	OnRequest bool `json:"-"`
}

// Program is a set of binaries built in one go from a nested module of sources/, which pins their
// version.
type Program struct {
	// Name is the program's name in the cache.
	Name string
	// Source is the folder below sources/.
	Source string
	// Packages are the main packages. Each becomes a file named after its last path element.
	Packages []string
	// Variables are set with -ldflags -X, Tags with -tags.
	Variables []string
	Tags      []string `json:",omitempty"`
	// CGO means that the program has parts in C, and is linked with libraries in C.
	CGO bool `json:",omitempty"`
	// C is a program in C that comes with the Go module, if there is one.
	C *CProgram `json:",omitempty"`
	// Arch is the architecture that it is built for, unless it is this machine's. It is for programs
	// without parts in C. Flavour.allPrograms sets it.
	Arch string `json:",omitempty"`
	// Version is the version that the program reports.
	Version string
}

// cacheName is the program's name in the cache, with its architecture.
func (p Program) cacheName() string { return withArch(p.Name, p.Arch) }

// ofKubernetes reports whether other programs of Kubernetes can use the program's objects.
func (p Program) ofKubernetes() bool { return strings.HasPrefix(p.Source, "kubernetes-") }

// hasC reports whether a program of the flavour has parts in C.
func (f Flavour) hasC() bool {
	return slices.ContainsFunc(f.Programs, func(p Program) bool { return p.CGO || p.C != nil })
}

// CProgram is a program in C that lies in a Go module.
type CProgram struct {
	// Name is the name of its file.
	Name string
	// Module has the sources, in Folder.
	Module, Folder string
}

// Flavours returns the flavours that are prepared and tested by default, the default one first.
func Flavours() []Flavour {
	return slices.DeleteFunc(AllFlavours(), func(f Flavour) bool { return f.OnRequest })
}

// AllFlavours returns all flavours, those on request too.
func AllFlavours() []Flavour {
	// Both flavours of Debian 13 have the packages of both: an installation takes longer than these
	// packages. skopeo imports images into CRI-O's storage.
	trixiePackages := []string{"conmon", "crun", "skopeo"}
	debianRuntime := Flavour{
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
	}
	// The same on another processor. Runtime and runc are Debian's: runc has parts in C, and this
	// machine has no compiler of C for arm64.
	foreign := debianRuntime
	foreign.Name, foreign.Arch, foreign.Summary = "arm64", arm64, "arm64, "+debianRuntime.Summary
	foreign.Programs = slices.Clone(debianRuntime.Programs) // FlavourByName writes into it
	all := []Flavour{
		{
			Name:    "trixie",
			Release: "trixie",
			// Debian 13 has containerd 1.7, which has NRI switched off: containerd is built instead. And it
			// has runc 1.1, which copies itself into memory for each container. Under emulation the copy's
			// code is translated again for each container.
			Packages: trixiePackages,
			Programs: []Program{kubelet(), containerd("2.3", "v2.3.7"), runc("1.2", "v1.2.9")},
			Overlays: []string{"containerd", "containerd-2", "trixie"},
			Units:    []string{"/etc/systemd/system/containerd.service"},
			Socket:   containerdSocket,
			NRI:      true,
			Summary:  "Debian 13, systemd 257, containerd v2.3.7 with NRI, runc v1.2.9, kubelet v1.37.0",
		},
		{
			Name:     "bookworm",
			Release:  "bookworm",
			Packages: []string{"containerd", "runc"},
			// The newest kubelet that works with containerd 1.6: it logs that the runtime lacks the call
			// RuntimeConfig, and takes cgroupDriver from its configuration. 1.38 will not
			// (getCgroupDriverFromCRI, cmd/kubelet/app/server.go).
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
			// This flavour exists for its runc: from 1.3.2 on runc turns CPU shares into cpu.weight by
			// another formula than the kubelet. The others' runc (1.1, 1.2) and crun (1.21) use the
			// kubelet's.
			Packages: []string{"containerd", "runc"},
			Programs: []Program{kubelet()},
			Overlays: []string{"containerd", "containerd-2"},
			Units:    []string{"/lib/systemd/system/containerd.service"},
			Socket:   containerdSocket,
			NRI:      true,
			// Linux 7.2 checks only for these instructions before it uses them, and panics without xsave
			// (polyval_mul_pclmul_avx). The others' kernels are quicker with them: 62 s of CPU time for a
			// boot until pods run instead of 79.
			CPU:     ",avx=off,avx2=off,f16c=off,fma=off,vaes=off",
			Summary: "Debian 14 (testing), systemd 262, containerd 2.1 with NRI and runc 1.3, Debian's, kubelet v1.37.0",
		},
		debianRuntime,
		foreign,
	}
	// Debian packages the reference policy.
	enforcing := all[0]
	enforcing.Name, enforcing.SELinux, enforcing.OnRequest = "selinux", true, true
	enforcing.Packages = append(slices.Clone(trixiePackages), "selinux-policy-default")
	enforcing.Overlays = append(slices.Clone(enforcing.Overlays), "selinux")
	enforcing.Programs = slices.Clone(enforcing.Programs)
	enforcing.Summary = "SELinux enforcing Debian's policy, " + enforcing.Summary
	return slices.Concat(all, []Flavour{enforcing})
}

const containerdSocket = "/run/containerd/containerd.sock"

// FlavourByName returns the flavour of that name, or the default flavour for the empty name.
// "+kubelet-1.35" behind any name selects the same node with that kubelet.
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

// kubeletMark separates a flavour's name from the version of another kubelet.
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

// kubernetesVersion is the version of the kubelet and of the control plane.
const kubernetesVersion = "v1.37.0"

func kubelet() Program { return kubernetesPrograms("kubelet", kubernetesVersion, "kubelet") }

// olderKubelet returns a kubelet of another minor version than the flavours'.
func olderKubelet(minor string) (Program, error) {
	const known = "v1.35.8"
	if minor != minorOf(known) {
		return Program{}, fmt.Errorf(
			"kubelet %s: not known: use %s, or leave it out for %s",
			minor, minorOf(known), minorOf(kubernetesVersion),
		)
	}
	return kubernetesPrograms("kubelet", known, "kubelet"), nil
}

// controlPlanePrograms returns programs that are in no image. They are linked side by side, and
// their common packages are compiled once.
func controlPlanePrograms() Program {
	return kubernetesPrograms("control-plane", kubernetesVersion, "kube-apiserver", "kube-controller-manager")
}

// schedulerProgram returns the program of StartScheduler. It is apart from the others of a control
// plane, most of which run without it.
func schedulerProgram() Program {
	return kubernetesPrograms("scheduler", kubernetesVersion, "kube-scheduler")
}

// APIServers lists the minor versions of API servers, beside the control plane's, that the lab can
// build.
func APIServers() []string {
	versions := olderAPIServers()
	minors := make([]string, 0, len(versions))
	for _, version := range versions {
		minors = append(minors, minorOf(version))
	}
	return minors
}

func olderAPIServers() []string { return []string{"v1.34.4", "v1.35.8", "v1.36.3"} }

// apiServer returns the API server of a minor version.
func apiServer(minor string) (Program, error) {
	for _, version := range olderAPIServers() {
		if minorOf(version) == minor {
			return kubernetesPrograms("apiserver", version, "kube-apiserver"), nil
		}
	}
	return Program{}, fmt.Errorf("API server %s: not known: use one of %s", minor, strings.Join(APIServers(), ", "))
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

// minorOf returns "1.37" for "v1.37.0".
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

func runc(minor, version string) Program {
	const module = "github.com/opencontainers/runc"
	return Program{
		Name:      "runc-" + minor,
		Source:    "runc-" + minor,
		Packages:  []string{module},
		Variables: []string{"main.version=" + strings.TrimPrefix(version, "v")},
		Tags:      []string{"seccomp", "netgo", "osusergo"},
		CGO:       true,
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

// basePackages lists the packages of every flavour of an architecture: a systemd machine that is
// reached by ssh and runs containers.
func basePackages(arch string) []string {
	return []string{
		"busybox-static", "containernetworking-plugins", "cpio", "dbus", "e2fsprogs", "iproute2", "kmod",
		"linux-image-cloud-" + platformOf(arch).goarch, "mount", "openssh-server", "procps", "systemd",
		"systemd-sysv", "udev", "xz-utils",
	}
}

// maskedUnits lists units that are of no use to a node that lives for minutes. Each costs time at
// boot.
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

// maskedGenerators lists the generators of systemd that write nothing on a node.
// systemd-fstab-generator is not among them: it runs beside partition-generator. Each generator
// costs an emulated node 90 ms of CPU time at every boot and reload. systemd-ssh-generator also
// searches for sockets of hypervisors that are not there, and complains on the console (257).
func maskedGenerators() []string {
	return []string{
		"bless-boot",
		"cryptsetup",
		"debug",
		"factory-reset",
		"getty",
		"gpt-auto",
		"hibernate-resume",
		"integritysetup",
		"rc-local",
		"run",
		"ssh",
		"system-update",
		"sysv",
		"tpm2",
		"veritysetup",
	}
}
