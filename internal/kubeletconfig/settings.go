package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/hashicorp/go-envparse"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/unitpath"
)

// SettingsPath holds the settings that partition-generator and partition-monitor share, as
// KEY=value.
const SettingsPath = "/etc/default/node-partition"

// maxSettingsBytes bounds SettingsPath. Three short lines are expected.
const maxSettingsBytes = 64 << 10

// settings holds the paths of the kubelet's configuration. Empty fields mean the well-known paths.
type settings struct {
	// ConfigFile is KUBELET_CONFIG, the main configuration file.
	ConfigFile string
	// ConfigDir is KUBELET_CONFIG_DIR, the drop-in directory.
	ConfigDir string
}

// readSettings reads SettingsPath. A missing file means empty settings.
func readSettings(root hostfs.FS) (settings, error) {
	data, err := root.ReadFile(SettingsPath, maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{}, nil
	}
	if err != nil {
		return settings{}, err
	}
	// Errors in lines of other settings are not ours to report.
	var ours bytes.Buffer
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("KUBELET_CONFIG")) {
			ours.Write(line)
		} else {
			ours.WriteByte('\n') // lines keep their numbers
		}
	}
	env, err := envparse.Parse(&ours)
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w; want lines of KEY=value", SettingsPath, err)
	}
	s := settings{ConfigFile: env["KUBELET_CONFIG"], ConfigDir: env["KUBELET_CONFIG_DIR"]}
	if len(s.ConfigDir) > 1 {
		s.ConfigDir = strings.TrimSuffix(s.ConfigDir, "/")
	}
	for _, setting := range []struct{ key, value string }{
		{"KUBELET_CONFIG", s.ConfigFile},
		{"KUBELET_CONFIG_DIR", s.ConfigDir},
	} {
		if setting.value == "" {
			continue
		}
		if !unitpath.IsPlain(setting.value) || path.Clean(setting.value) != setting.value {
			return settings{}, fmt.Errorf("%s: %s: %s is not a path that a unit can contain; want an absolute path without "+
				"\"..\", of letters, digits and /._@:+,=~-", SettingsPath, setting.key, oneline.Quote(setting.value))
		}
	}
	return s, nil
}
