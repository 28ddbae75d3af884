// Package collect makes a bundle of the state of a node for a bug report. Whatever goes into it is
// on a list of what is harmless, by name or by shape: fields, flags, properties, files of cgroups,
// words of messages. Everything else is left out.
package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"nodepartition/internal/command/check"
	"nodepartition/internal/command/status"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/node"
	"nodepartition/internal/node/control"
	"nodepartition/internal/node/options"
	"nodepartition/internal/systemctl"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// Options holds what a bundle is made with. All fields are needed.
type Options struct {
	options.Options
	// Version of the program.
	Version string
	// Args is the command line of the running service, nil if it does not run.
	Args []string
}

// about is the first file of a bundle.
const about = `Bundle of partition-monitor collect, for a bug report.

status.json, check.json      partition-monitor status and check, -o json
versions.json                versions of the programs, the kernel, systemd, the runtime
settings.json                flags of the service, /etc/default/node-partition
kubelet.json                 flags and configuration files of the kubelet
units.json, units.txt        properties of units, and the units that the generator has made
cgroups.txt                  values of the cgroups below kubepods.slice, and of the slices of services
journal-*.txt                this boot, the last %d lines of each
metrics.txt                  the metrics of the service
errors.txt                   what could not be read

A value that is not known to be harmless is %s: values of other fields and flags than those that
bear on the partition, words of messages that may be keys, errors of the kubelet. The contents of
kubeconfigs and certificates, environments, command lines of other processes and pod manifests are
not read. Names of namespaces, pods and nodes, paths, and addresses of servers are in the bundle:
read it before you send it.
`

// part is a file of the bundle.
type part struct {
	name string
	read func(context.Context) ([]byte, error)
}

// partTimeout bounds the time for one file: the runtime, the API server or systemd may hang, which
// is when a bundle is needed.
const partTimeout = 30 * time.Second

// Name returns the name of a bundle that is made at a time, without an extension.
func Name(t time.Time) string { return "node-partition-" + t.UTC().Format("20060102T150405Z") }

// Write writes a bundle, a tar file compressed with gzip. A part that cannot be read is an error in
// the bundle. Write returns the errors of w alone.
func Write(ctx context.Context, w io.Writer, o Options) error {
	root := o.Node.Root
	c := collector{options: o, root: root, secrets: secrets(root, kubeconfigs(o.Eviction.Kubeconfig))}
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	now := time.Now()
	dir := Name(now) + "/"
	add := func(name string, data []byte) error {
		data = c.scrub(data)
		header := &tar.Header{
			Name:     dir + name,
			Mode:     0o600,
			Size:     int64(len(data)),
			ModTime:  now,
			Typeflag: tar.TypeReg,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(data)
		return err
	}
	if err := add("README.txt", fmt.Appendf(nil, about, maxLines, leftOut)); err != nil {
		return err
	}
	var failed strings.Builder
	for _, p := range c.parts() {
		limited, cancel := context.WithTimeout(ctx, partTimeout)
		data, err := p.read(limited)
		cancel()
		if err != nil {
			fmt.Fprintf(&failed, "%s: %s\n", p.name, text(err.Error()))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(data) == 0 {
			continue
		}
		if err := add(p.name, data); err != nil {
			return err
		}
	}
	if failed.Len() > 0 {
		if err := add("errors.txt", []byte(failed.String())); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

// kubeconfigs returns the paths of kubeconfigs whose secrets are removed from everything.
func kubeconfigs(flag string) []string { return append(kubeapi.Places(), flag) }

type collector struct {
	options Options
	root    hostfs.FS
	secrets []string
}

// scrub removes the secrets that the node's files hold.
func (c *collector) scrub(data []byte) []byte {
	for _, secret := range c.secrets {
		data = bytes.ReplaceAll(data, []byte(secret), []byte(leftOut))
	}
	return data
}

func (c *collector) parts() []part {
	o := c.options
	fs := o.Node.Cgroups
	return []part{
		{"status.json", func(ctx context.Context) ([]byte, error) {
			found, err := status.Read(ctx, o.Options)
			return c.json(func(w io.Writer) error { return status.WriteJSON(w, found) }, err)
		}},
		{"check.json", func(ctx context.Context) ([]byte, error) {
			return c.json(func(w io.Writer) error { return check.WriteJSON(w, check.Node(ctx, o.Options, nil)) }, nil)
		}},
		{"versions.json", c.versions},
		{"settings.json", func(context.Context) ([]byte, error) {
			run := []string{}
			if len(o.Args) > 1 {
				run = commandLine(o.Args[1:], ourFlags)
			}
			return encode(map[string]any{"service": run, kubeletconfig.SettingsPath: settings(c.root)})
		}},
		{"kubelet.json", func(context.Context) ([]byte, error) {
			return encode(map[string]any{"flags": kubeletFlags(c.root), "files": kubeletFiles(c.root)})
		}},
		{"units.json", func(ctx context.Context) ([]byte, error) {
			units, err := o.Node.Systemd.Show(ctx, strings.Join(unitProperties, ","), unitNames...)
			if err != nil {
				return nil, err
			}
			return encode(properties(units))
		}},
		{
			"units.txt",
			func(context.Context) ([]byte, error) { return []byte(ourUnits(c.root, config.StateDir+"/units")), nil },
		},
		{"cgroups.txt", func(context.Context) ([]byte, error) {
			return []byte(
				cgroups(fs, "kubepods.slice", "system.slice/kubelet.service", "system.slice/containerd.service",
					"system.slice/crio.service", unitname.MonitorCgroup),
			), nil
		}},
		{"journal-monitor.txt", journalOf(o.Node.Systemd, ours, "--unit=partition-monitor.service")},
		{"journal-generator.txt", journalOf(o.Node.Systemd, ours, "--identifier=partition-generator")},
		{"journal-kubelet.txt", journalOf(
			o.Node.Systemd,
			kubelets,
			"--unit=kubelet.service",
			"--unit=k3s.service",
			"--unit=k3s-agent.service",
			"--unit=rke2-server.service",
			"--unit=rke2-agent.service",
		)},
		{"metrics.txt", func(ctx context.Context) ([]byte, error) {
			page, err := (control.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}).Metrics(ctx)
			return []byte(metrics(page)), err
		}},
	}
}

// json returns a document that write has written, with the words that are known to be harmless.
func (*collector) json(write func(io.Writer) error, err error) ([]byte, error) {
	var out bytes.Buffer
	if err := errors.Join(err, write(&out)); err != nil && out.Len() == 0 {
		return nil, err
	}
	data, cleanErr := sanitize(out.Bytes())
	return data, errors.Join(err, cleanErr)
}

func (c *collector) versions(ctx context.Context) ([]byte, error) {
	v := map[string]string{
		"partition-monitor": text(c.options.Version), "go": runtime.Version(), "kernel": kernel(),
		"distribution": release(c.root),
	}
	units, err := c.options.Node.Systemd.Show(ctx, "Version")
	if err == nil && len(units) > 0 {
		v["systemd"] = text(units[0]["Version"])
	}
	o := c.options
	endpoint, name, version, runtimeErr := node.NewRuntime(o.Node, o.Runtime, node.AskSystemctl(o.Node), func(bool) {}).
		Version(ctx)
	if runtimeErr == nil {
		v["runtime"] = text(name + " " + version + " at " + endpoint)
	}
	data, encodeErr := encode(v)
	return data, errors.Join(err, runtimeErr, encodeErr)
}

// journalOf returns a function that reads records of this boot.
func journalOf(
	systemd systemctl.Programs,
	say func(identifier, message string) string,
	match ...string,
) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		args := append([]string{
			"--boot", "--no-pager", "--quiet", "--output=json", "--output-fields=" + journalFields,
			fmt.Sprintf("--lines=%d", maxLines),
		}, match...)
		out, err := systemd.Run(ctx, "journalctl", args...)
		return []byte(journal(out, say)), err
	}
}
