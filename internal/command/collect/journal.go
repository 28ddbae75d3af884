package collect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxLines bounds the lines of one part of the journal: a busy kubelet writes as many in a few
// hours.
const maxLines = 2000

// journalFields are the fields that are asked for.
const journalFields = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,MESSAGE_ID"

// record is a record of the journal, as journalctl -o json writes it. MESSAGE is an array of
// numbers if it is not UTF-8, and is then left out.
type record struct {
	Time       string `json:"__REALTIME_TIMESTAMP"`
	Message    any    `json:"MESSAGE"`
	Priority   string `json:"PRIORITY"`
	Identifier string `json:"SYSLOG_IDENTIFIER"`
	ID         string `json:"MESSAGE_ID"`
}

// journal returns the lines of records, each with say applied to its message.
func journal(out string, say func(identifier, message string) string) string {
	var lines strings.Builder
	scanner := bufio.NewScanner(strings.NewReader(out))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var r record
		if json.Unmarshal(scanner.Bytes(), &r) != nil {
			continue // "-- No entries --"
		}
		message, _ := r.Message.(string)
		identifier, ok := known(r.Identifier)
		if !ok {
			identifier = leftOut
		}
		usec, _ := strconv.ParseInt(r.Time, 10, 64)
		at := time.UnixMicro(usec).UTC().Format("2006-01-02T15:04:05.000Z")
		fmt.Fprintf(&lines, "%s %s <%s> %s\n", at, identifier, text(r.Priority), say(identifier, message))
	}
	if err := scanner.Err(); err != nil {
		fmt.Fprintf(&lines, "%s: %v\n", leftOut, err)
	}
	return lines.String()
}

// ours returns the message of a program of ours, or of systemd about it.
func ours(_, message string) string { return text(message) }

// klog is the form of the kubelet's structured log (k8s.io/klog/v2): the header, the constant
// message, and the attributes.
var klog = pattern(`^([IWEF][0-9]{4} [0-9:.]{15})\s+[0-9]+ ([a-z0-9_]{1,60}\.go:[0-9]+)\] (?:"((?:[^"\\]|\\.)*)"(.*))?`)

// klogPair is an attribute of such a line.
var klogPair = pattern(`\b([A-Za-z]+)="?([A-Za-z0-9._/:-]*)`)

// klogAttributes lists the attributes of the kubelet's log that name an object. Errors, specs and
// requests may hold anything.
var klogAttributes = set(`pod pods podUID containerName namespace node plugin path cgroupName cgroupPath resourceName`)

// kubelets returns a line of the kubelet: of its structured log the constant message and the names
// of objects, and of systemd's lines about it the text. Other lines, such as those with the flags
// at the start, are left out.
func kubelets(identifier, message string) string {
	if identifier == "systemd" {
		return text(message)
	}
	match := klog().FindStringSubmatch(message)
	if match == nil {
		return leftOut
	}
	line := match[1] + " " + match[2] + "] "
	if match[3] == "" {
		return line + leftOut
	}
	line += strconv.Quote(text(match[3]))
	for _, attribute := range klogPair().FindAllStringSubmatch(match[4], -1) {
		if !klogAttributes[attribute[1]] {
			continue
		}
		if v, ok := known(attribute[2]); ok {
			line += " " + attribute[1] + "=" + v
		}
	}
	return line
}
