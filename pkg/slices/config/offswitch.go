package config

import (
	"strings"

	"node-partition.io/node-partition/internal/host"
)

// OffSwitch is the word on the kernel command line that switches the partition off for one boot.
const OffSwitch = "node_partition"

const cmdlinePath = "/proc/cmdline"

// SwitchedOff reports whether the kernel command line has node_partition=0, or another of systemd's
// words for no. As with systemd's own switches, the last occurrence counts. If the command line
// cannot be read, it returns true with the error.
func SwitchedOff(root host.Root) (bool, error) {
	data, err := root.ReadFile(cmdlinePath, maxFactBytes)
	if err != nil {
		return true, err
	}
	off := false
	for word := range strings.FieldsSeq(string(data)) {
		// As in proc_cmdline_key_streq, a dash equals an underscore. Quotes may be around the whole word
		// or around its value.
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
