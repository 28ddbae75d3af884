package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tool is a program of the host that the lab runs, and the Debian package it comes in.
type tool struct{ program, pkg string }

func hostTools() []tool {
	return []tool{
		{"qemu-img", "qemu-utils"},
		{"mmdebstrap", "mmdebstrap"},
		{"mke2fs", "e2fsprogs"},
		{"debugfs", "e2fsprogs"},
		{"ssh", "openssh-client"},
		{"tar", "tar"},
		{"chroot", "coreutils"},
	}
}

// compilers lists the tools for programs with parts in C.
func compilers() []tool {
	return []tool{
		{"gcc", "gcc"},
		{"pkg-config", "pkgconf"}, // for runc
	}
}

// missingPackages returns the Debian packages that this machine lacks for a lab. Without inC no
// program with parts in C is built.
func missingPackages(inC bool) []string {
	tools := hostTools()
	if inC {
		tools = append(tools, compilers()...)
	}
	var missing []string
	for _, t := range tools {
		if _, err := toolPath(t.program); err != nil {
			missing = append(missing, t.pkg)
		}
	}
	if !exists("/usr/share/keyrings/debian-archive-keyring.gpg") {
		missing = append(missing, "debian-archive-keyring")
	}
	if inC && !exists("/usr/include/stdio.h") {
		missing = append(missing, "libc6-dev")
	}
	if inC && !exists("/usr/include/seccomp.h") { // for runc
		missing = append(missing, "libseccomp-dev")
	}
	return missing
}

// checkHost checks that this machine can hold a lab, and returns the Debian packages that
// installOnHost has to install. Each error is one line with its remedy.
func checkHost(inC bool) (missing []string, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, errors.New("the go command is not in PATH: the lab builds its kubelet with it: install Go")
	}
	missing = missingPackages(inC)
	debian := exists("/etc/debian_version")
	switch {
	case os.Geteuid() == 0 && (debian || len(missing) == 0):
		return missing, nil
	case !debian && len(missing) > 0:
		return nil, fmt.Errorf(
			"not a Debian machine and these Debian packages are missing: %s: install what they are called here",
			strings.Join(missing, " "),
		)
	case len(missing) > 0:
		return nil, fmt.Errorf(
			"not root and these Debian packages are missing: run as root: apt-get install %s",
			strings.Join(missing, " "),
		)
	default:
		return nil, errors.New(
			"not root: mmdebstrap and mke2fs keep the owners of a node's files only for root: run the lab as root",
		)
	}
}

// installOnHost installs Debian packages on this machine.
func installOnHost(ctx context.Context, packages []string, progress func(string)) error {
	if len(packages) == 0 {
		return nil
	}
	names := strings.Join(packages, " ")
	done := BeginStep(progress, "installing the packages "+names+" on this machine")
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if err := hostCommand(ctx, env, "apt-get", "-q", "update"); err != nil {
		return fmt.Errorf("install %s: %w", names, err)
	}
	args := append([]string{"-q", "install", "-y", "--no-install-recommends"}, packages...)
	if err := hostCommand(ctx, env, "apt-get", args...); err != nil {
		return fmt.Errorf("install %s: %w", names, err)
	}
	done()
	return nil
}

// toolPath finds a program. mke2fs and debugfs are in /usr/sbin, which is not in everyone's PATH.
func toolPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p, sbinErr := exec.LookPath(filepath.Join(dir, program)); sbinErr == nil {
			return p, nil
		}
	}
	return "", err
}
