package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// sourcesDir returns the folder with the nested modules. They cannot be embedded, because go:embed
// stops at a module's border. So sourcesDir searches for them beside this source file.
func sourcesDir() (string, error) {
	dir := os.Getenv("LAB_SOURCES")
	if dir == "" {
		_, file, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(file), "sources")
	}
	if !exists(filepath.Join(dir, "pause", "go.mod")) {
		return "", fmt.Errorf(
			"sources of the lab's programs: not found in %s: set LAB_SOURCES to the folder tests/lab/sources",
			dir,
		)
	}
	return dir, nil
}

// pause returns the program of the sandbox container.
func pause() Program {
	return Program{
		Name:     "pause",
		Source:   "pause",
		Packages: []string{"nodepartition/tests/lab/sources/pause"},
		Version:  "1",
	}
}

// podtool returns the program that pods of tests run.
func podtool() Program {
	return Program{
		Name:     "podtool",
		Source:   "podtool",
		Packages: []string{"nodepartition/tests/lab/sources/podtool"},
		Version:  "1",
	}
}

// buildFlags and buildEnv return the flags and the environment of go build.
func buildFlags(p Program) []string {
	flags := []string{
		"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", ldflags(p),
		// Leave out the debugging information of the programs: writing it takes the compiler 15 % of the
		// time (go 1.26). The code is the same. The standard library keeps it, so that its entries in the
		// build cache are the usual ones.
		"-gcflags=all=-dwarf=false", "-gcflags=std=",
	}
	if p.CGO {
		// Static all the same: a node may have another libc than this machine.
		flags[slices.Index(flags, "-ldflags")+1] += " -linkmode external -extldflags -static"
	}
	if len(p.Tags) > 0 {
		flags = append(flags, "-tags", strings.Join(p.Tags, ","))
	}
	return flags
}

func buildEnv(p Program) []string {
	cgo := "CGO_ENABLED=0"
	if p.CGO {
		cgo = "CGO_ENABLED=1"
	}
	return []string{cgo, "GOOS=linux", "GOARCH=" + platformOf(p.Arch).goarch, "GOWORK=off"}
}

// memoryEnv makes the compiler and the linker collect garbage less often. They take 30 % less CPU
// time, and twice the memory (go 1.26). What they write is the same, so the key does not depend on
// it.
func memoryEnv() []string { return []string{"GOGC=800", "GOMEMLIMIT=2GiB"} }

// programKey returns the key of a program's binaries. It does not depend on files for another
// architecture: otherwise podtool's for arm64 would make all images of amd64 again. That file is a
// link to the one for amd64, which go build leaves out for its name.
func programKey(p Program, sources string) (key, error) {
	sums, err := hashTree(os.DirFS(filepath.Join(sources, p.Source)), ".")
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(sums, func(path, _ string) bool { return leftOut(path, p.Arch) })
	return keyOf(p, sums, buildFlags(p), buildEnv(p), runtime.Version())
}

// build compiles a program into the cache and returns the folder that holds its binaries. They are
// static, so that they run in any guest. One call of go makes all of them: it compiles their common
// packages once, and links one binary while it compiles for another.
func (c cache) build(ctx context.Context, p Program, progress func(string)) (string, error) {
	sources, err := sourcesDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(sources, p.Source)
	key, err := programKey(p, sources)
	if err != nil {
		return "", err
	}
	return c.ensure(ctx, "programs", p.cacheName(), key, func(ctx context.Context, out string) error {
		done := BeginStep(progress, buildStep(p))
		err := withTemp(out, func(temp []string) error {
			args := slices.Concat(buildFlags(p), []string{"-o", out + "/"}, p.Packages)
			if err := command(ctx, dir, slices.Concat(buildEnv(p), memoryEnv(), temp), "go", args...); err != nil {
				return fmt.Errorf("build %s: %w", p.Name, err)
			}
			if p.C != nil {
				return buildC(ctx, dir, *p.C, filepath.Join(out, p.C.Name), temp)
			}
			return nil
		})
		if err != nil {
			return err
		}
		done()
		return nil
	})
}

func ldflags(p Program) string {
	var b strings.Builder
	b.WriteString("-s -w")
	for _, v := range p.Variables {
		b.WriteString(" -X " + v)
	}
	return b.String()
}

// buildC compiles a program in C from the module that dir depends on. The binary is static, as the
// others are.
func buildC(ctx context.Context, dir string, p CProgram, out string, env []string) error {
	list := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", p.Module)
	list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off")
	module, err := list.Output()
	if err != nil {
		return fmt.Errorf("build %s: find the module %s: %w", p.Name, p.Module, err)
	}
	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), p.Folder, "*.c"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("build %s: no C files in %s of %s: %w", p.Name, p.Folder, p.Module, err)
	}
	args := append([]string{"-std=c99", "-Os", "-s", "-static", "-o", out}, sources...)
	if err := command(ctx, dir, env, "gcc", args...); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	return nil
}
