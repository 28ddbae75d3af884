package config

import (
	"strings"

	"nodepartition/internal/hostfs"
)

// OffSwitch is the word on the kernel command line that switches the partition off for one boot.
const OffSwitch = "node_partition"

const cmdlinePath = "/proc/cmdline"

// switchedOff reports whether the kernel command line says node_partition=0, or another of systemd's words for
// no. As with systemd's own switches the last one counts. One that cannot be read comes with true.
func switchedOff(root hostfs.FS) (bool, error) {
	data, err := root.ReadFile(cmdlinePath, maxFactBytes)
	if err != nil {
		return true, err
	}
	off := false
	for word := range strings.FieldsSeq(string(data)) {
		// As proc_cmdline_key_streq has it: a dash is as good as an underscore. The whole word may be quoted, or its value.
		key, value, _ := strings.Cut(strings.Trim(word, `"`), "=")
		if strings.ReplaceAll(key, "-", "_") != OffSwitch {
			continue
		}
		switch strings.ToLower(strings.Trim(value, `"`)) {
		case "0", "no", "n", "false", "f", "off": // parse_boolean, systemd's src/basic/parse-util.c
			off = true
		default:
			off = false
		}
	}
	return off, nil
}
