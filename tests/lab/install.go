package lab

import (
	"path/filepath"
	"slices"

	"node-partition.io/node-partition/tests/lab/filelist"
)

// Installed returns the files of an installation below /usr, which the list below dir names in the
// form of filelist.Read. The folder bin has the built programs. With names, Installed returns those
// files alone whose sources have one of these base names.
func Installed(dir, list, bin string, names ...string) ([]File, error) {
	entries, err := filelist.Read(dir, list, map[string]string{
		"BIN": bin, "PREFIX": "/usr", "SYSTEMD_DIR": "/usr/lib/systemd",
	})
	if err != nil {
		return nil, err
	}
	var files []File
	for _, e := range entries {
		if len(names) == 0 || slices.Contains(names, filepath.Base(e.Source)) {
			files = append(files, File{Path: e.Path, Source: e.Source, Mode: e.Mode})
		}
	}
	return files, nil
}
