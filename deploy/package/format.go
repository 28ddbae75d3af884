package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	nfpmdeb "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	nfpmrpm "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	name = "node-partition"
	docs = "/usr/share/doc/" + name

	summary     = "cgroup with a limit for the system pods of a Kubernetes node"
	description = summary + `
Gives the system pods of a stock Kubernetes node a separate cgroup, with a
memory limit and a CPU set, from systemd. A generator writes the units of the
partition from a file, and a daemon puts the pods of the listed namespaces
into it, evicts pods before the kernel kills at the limit, and serves metrics.
Without a configuration nothing runs but a unit that waits for one.`
)

// format is a kind of package.
type format struct {
	name     string
	packager nfpm.Packager
	// settings is the configuration file that the package installs.
	settings string
	// place returns the path of an installed file, or "" if the format has it in another way.
	place func(path string) string
	// kind returns the type of a file in nfpm's words.
	kind func(path string) string
	// extra returns the files that only this format has.
	extra func(r request, work string) ([]file, error)
	// scripts maps the steps to the arguments of compose.
	scripts nfpm.Scripts
}

var deb = format{
	name: "deb", packager: nfpmdeb.Default, settings: "/etc/default/" + name,
	place: func(p string) string {
		switch p {
		case docs + "/LICENSE": // copyright says where Debian has it
			return ""
		case docs + "/CHANGELOG.md":
			return docs + "/changelog.gz"
		}
		// zsh looks only there.
		return strings.Replace(p, "/zsh/site-functions/", "/zsh/vendor-completions/", 1)
	},
	kind: func(string) string { return files.TypeFile },
	extra: func(r request, work string) ([]file, error) {
		entry := fmt.Sprintf("%s (%s-%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n",
			name, r.version, r.build, r.maintainer, r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
		changelog, err := compressed([]byte(entry), filepath.Join(work, "changelog.Debian.gz"))
		return []file{
			{0o644, filepath.Join(r.root, "deploy/package/copyright"), docs + "/copyright"},
			{0o644, filepath.Join(r.root, "deploy/package/lintian-overrides"), "/usr/share/lintian/overrides/" + name},
			{0o644, changelog, docs + "/changelog.Debian.gz"},
		}, err
	},
	scripts: nfpm.Scripts{
		PreInstall: "deb-preinst", PostInstall: "deb-postinst", PreRemove: "deb-prerm", PostRemove: "deb-postrm",
	},
}

var rpm = format{
	name: "rpm", packager: nfpmrpm.DefaultRPM, settings: "/etc/sysconfig/" + name,
	place: func(p string) string {
		switch p {
		case docs + "/LICENSE", docs + "/third-party-licenses":
			return "/usr/share/licenses/" + name + "/" + path.Base(p)
		}
		return p
	},
	kind: func(p string) string {
		switch {
		case strings.HasPrefix(p, "/usr/share/licenses/"):
			return files.TypeRPMLicense
		case strings.HasPrefix(p, docs+"/"), strings.HasPrefix(p, "/usr/share/man/"):
			return files.TypeRPMDoc
		}
		return files.TypeFile
	},
	extra: func(request, string) ([]file, error) { return nil, nil },
	scripts: nfpm.Scripts{
		PreInstall: "rpm-pre", PostInstall: "rpm-post", PreRemove: "rpm-preun", PostRemove: "rpm-postun",
	},
}

// write writes the package into the folder out. What is made for it alone is written into work.
func (f format) write(r request, work, out string) error {
	info, err := f.info(r, work)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, f.name); err != nil {
		return err
	}
	target := filepath.Join(out, f.packager.ConventionalFileName(info))
	var data bytes.Buffer
	if err := f.packager.Package(info, &data); err != nil {
		return err
	}
	fmt.Println(filepath.Base(target))
	return os.WriteFile(target, data.Bytes(), 0o644)
}

// info returns the package in nfpm's words.
func (f format) info(r request, work string) (*nfpm.Info, error) {
	contents, err := f.contents(r, work)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: name, Arch: r.arch, Platform: "linux", VersionSchema: "none",
		Version: r.version.number, Prerelease: r.version.before, VersionMetadata: r.version.after, Release: r.build,
		Section: "admin", Priority: "optional", Maintainer: r.maintainer, Description: description,
		Vendor: "Node System Partition", Homepage: "https://kep.k8s.io/5894",
		MTime: r.time, DisableGlobbing: true,
	}
	info.Contents = contents
	// Not required: the package installs on a machine without systemd too, and says why nothing runs.
	if f.name == "deb" {
		info.Recommends = []string{"systemd (>= 252)"}
		info.Deb.Compression = "xz" // lintian of Debian 12 does not know zstd
	} else {
		info.Recommends, info.License = []string{"systemd >= 252"}, "Apache-2.0"
		info.RPM = nfpm.RPM{
			BuildHost: "localhost", Group: "System Environment/Daemons", Compression: "zstd", Packager: r.maintainer,
			Summary: strings.ToUpper(summary[:1]) + summary[1:],
		}
		if info.Changelog, err = changelog(r, work); err != nil {
			return nil, err
		}
	}
	for from, to := range map[string]*string{
		f.scripts.PreInstall: &info.Scripts.PreInstall, f.scripts.PostInstall: &info.Scripts.PostInstall,
		f.scripts.PreRemove: &info.Scripts.PreRemove, f.scripts.PostRemove: &info.Scripts.PostRemove,
	} {
		if *to, err = compose(r.root, from, work); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// changelog writes the changelog of an rpm in nfpm's form, and returns its path.
func changelog(r request, work string) (string, error) {
	to := filepath.Join(work, "changelog.yaml")
	text := fmt.Sprintf("- semver: %s\n  date: %s\n  packager: %s\n  changes:\n    - note: See %s/CHANGELOG.md.\n",
		r.version.number, r.time.Format(time.RFC3339), r.maintainer, docs)
	return to, os.WriteFile(to, []byte(text), 0o644)
}

// contents returns the files of the package, and the folders that it owns.
func (f format) contents(r request, work string) (files.Contents, error) {
	all, err := f.extra(r, work)
	if err != nil {
		return nil, err
	}
	for _, listed := range r.files {
		listed.path = f.place(listed.path)
		if listed.path == "" {
			continue
		}
		// Debian asks for compressed pages and changelogs, and rpm compresses pages itself.
		if page := strings.HasPrefix(listed.path, "/usr/share/man/"); page || path.Ext(listed.path) == ".gz" {
			data, err := os.ReadFile(listed.source)
			if err != nil {
				return nil, err
			}
			if page {
				listed.path += ".gz"
			}
			if listed.source, err = compressed(data, filepath.Join(work, path.Base(listed.path))); err != nil {
				return nil, err
			}
		}
		all = append(all, listed)
	}
	var contents files.Contents
	add := func(source, path, kind string, mode os.FileMode) {
		contents = append(contents, &files.Content{
			Source: source, Destination: path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		})
	}
	folders := map[string]bool{}
	for _, one := range all {
		add(one.source, one.path, f.kind(one.path), one.mode)
		for dir := path.Dir(one.path); strings.Contains(dir+"/", "/"+name+"/") && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			add("", dir, files.TypeDir, 0o755)
		}
	}
	add(filepath.Join(r.root, "units/node-partition.default"), f.settings, files.TypeConfigNoReplace, 0o644)
	if f.settings != deb.settings {
		// Both programs and the unit read the one path, and messages name it.
		add("../sysconfig/"+name, deb.settings, files.TypeSymlink, 0)
	}
	return contents, nil
}

// compressed writes data to the file to in the format of gzip, without name and time.
func compressed(data []byte, to string) (string, error) {
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return to, os.WriteFile(to, buffer.Bytes(), 0o644)
}

// compose writes a script of a package: the functions that all of them share, and its own lines.
func compose(root, script, work string) (string, error) {
	folder := filepath.Join(root, "deploy/package/scripts")
	functions, err := os.ReadFile(filepath.Join(folder, "functions"))
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(folder, script))
	if err != nil {
		return "", err
	}
	to := filepath.Join(work, script)
	return to, os.WriteFile(to, append(functions, own...), 0o755)
}
