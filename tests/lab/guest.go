package lab

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// guest holds the files of a node at their paths in the node. common and the flavour's overlays go
// into the image. seed goes into each node, where Options.Files may replace its files. initrd makes
// the initial RAM disk.
//
//go:embed all:guest
var guest embed.FS

// KubeletConfigPath is the path of the kubelet's configuration in a node, as on a kubeadm node.
const KubeletConfigPath = "/var/lib/kubelet/config.yaml"

// ManifestDir is the directory of static pods in a node.
const ManifestDir = "/etc/kubernetes/manifests"

// KubeletConfig returns the default configuration of a node's kubelet with more lines at its end,
// as a file for Options.Files or Node.WriteFile.
func KubeletConfig(extra string) (File, error) {
	data, err := guest.ReadFile("guest/seed" + KubeletConfigPath)
	if err != nil {
		return File{}, fmt.Errorf("default kubelet configuration: %w", err)
	}
	return File{Path: KubeletConfigPath, Data: append(data, extra...)}, nil
}

// guestFiles returns the files of one folder of guest.
func guestFiles(folder string) ([]File, error) {
	root := "guest/" + folder
	var files []File
	err := fs.WalkDir(guest, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := guest.ReadFile(path)
		if err != nil {
			return err
		}
		f := File{Path: strings.TrimPrefix(path, root), Data: data}
		if bytes.HasPrefix(data, []byte("#!")) {
			f.Mode = 0o755
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("files of %s: %w", folder, err)
	}
	return files, nil
}
