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

// readSettings reads SettingsPath. A missing file means empty settings. With an error it returns
// the settings that are valid: a typo in a line for services must not hide the kubelet's
// configuration.
func readSettings(root hostfs.FS) (settings, error) {
	data, err := root.ReadFile(SettingsPath, maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return settings{}, nil
	}
	if err != nil {
		return settings{}, err
	}
	var s settings
	err = errors.Join(s.parsePaths(data), s.Services.parse(data))
	return s, err
}

// parseLines parses the lines whose keys begin with prefix. Errors in lines of other settings are
// not ours to report.
func parseLines(data []byte, prefix string) (map[string]string, error) {
	var ours bytes.Buffer
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte(prefix)) {
			ours.Write(line)
		} else {
			ours.WriteByte('\n') // lines keep their numbers
		}
	}
	env, err := envparse.Parse(&ours)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want lines of KEY=value", SettingsPath, err)
	}
	return env, nil
}

func (s *settings) parsePaths(data []byte) error {
	const file, dir = "KUBELET_CONFIG", "KUBELET_CONFIG_DIR"
	env, err := parseLines(data, file)
	if err != nil {
		return err
	}
	for _, key := range []string{file, dir} {
		value := env[key]
		if key == dir && len(value) > 1 {
			value = strings.TrimSuffix(value, "/")
			env[key] = value
		}
		if value != "" && (!unitpath.IsPlain(value) || path.Clean(value) != value) {
			return fmt.Errorf("%s: %s: %s is not a path that a unit can contain; want an absolute path without "+
				"\"..\", of letters, digits and /._@:+,=~-", SettingsPath, key, oneline.Quote(value))
		}
	}
	s.ConfigFile, s.ConfigDir = env[file], env[dir]
	return nil
}

func (s *ServiceSettings) parse(data []byte) error {
	env, err := parseLines(data, servicesPrefix)
	if err != nil {
		return err
	}
	*s = ServiceSettings{
		Slice: env[SliceKey], CPUs: env[CPUsKey], OOMScoreAdjust: env[OOMScoreAdjustKey], Delegate: env[DelegateKey],
	}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if !slices.Contains(s.Keys(), key) {
			s.Unknown = key
			break
		}
	}
	return nil
}
