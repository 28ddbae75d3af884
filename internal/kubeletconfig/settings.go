package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
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

// ServiceSettings holds the settings for the services of the kubelet and of the container runtime.
// Empty fields mean that the services stay as they are.
type ServiceSettings struct {
	// Slice is SERVICES_SLICE, the slice to run them in.
	Slice string
	// CPUs is SERVICES_CPUS, the CPUs to run them on.
	CPUs string
	// OOMScoreAdjust is SERVICES_OOM_SCORE_ADJUST.
	OOMScoreAdjust string
	// Delegate is SERVICES_DELEGATE.
	Delegate string
	// Unknown is the first setting SERVICES_* that is none of these.
	Unknown string
}

// Keys returns the names of the settings for services.
func (ServiceSettings) Keys() []string {
	return []string{SliceKey, CPUsKey, OOMScoreAdjustKey, DelegateKey}
}

// The settings for services.
const (
	SliceKey          = "SERVICES_SLICE"
	CPUsKey           = "SERVICES_CPUS"
	OOMScoreAdjustKey = "SERVICES_OOM_SCORE_ADJUST"
	DelegateKey       = "SERVICES_DELEGATE"

	servicesPrefix = "SERVICES_"
)

// settings holds the content of SettingsPath. Empty paths mean the well-known ones.
type settings struct {
	// ConfigFile is KUBELET_CONFIG, the main configuration file.
	ConfigFile string
	// ConfigDir is KUBELET_CONFIG_DIR, the drop-in directory.
	ConfigDir string
	Services  ServiceSettings
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
		if l := bytes.TrimSpace(line); bytes.HasPrefix(l, []byte("KUBELET_CONFIG")) ||
			bytes.HasPrefix(l, []byte(servicesPrefix)) {
			ours.Write(line)
		} else {
			ours.WriteByte('\n') // lines keep their numbers
		}
	}
	env, err := envparse.Parse(&ours)
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w; want lines of KEY=value", SettingsPath, err)
	}
	s := settings{
		ConfigFile: env["KUBELET_CONFIG"], ConfigDir: env["KUBELET_CONFIG_DIR"],
		Services: ServiceSettings{
			Slice: env[SliceKey], CPUs: env[CPUsKey], OOMScoreAdjust: env[OOMScoreAdjustKey], Delegate: env[DelegateKey],
		},
	}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(key, servicesPrefix) && !slices.Contains(s.Services.Keys(), key) {
			s.Services.Unknown = key
			break
		}
	}
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
