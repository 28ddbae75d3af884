package partition

import "strings"

// This file has the labels of a Node that the monitor of the node and the controller of
// rollout both write and compare.

// LabelPrefix begins the names of all labels and annotations of ours.
const LabelPrefix = "node-partition.io/"

// The labels of a Node. A Node has no label whose value is empty.
const (
	// VersionLabel has a version of the programs, as VersionValue writes it.
	VersionLabel = LabelPrefix + "version"
	// SectionLabel has the beginning of a digest of the section, as SectionValue cuts it.
	SectionLabel = LabelPrefix + "section"
)

// maxLabelValue is the longest value of a label (LabelValueMaxLength, apimachinery 0.37.0).
const maxLabelValue = 63

// VersionValue returns a version as the value of a label, which has fewer characters to choose
// from: another one becomes an underscore.
func VersionValue(version string) string {
	value := strings.Map(func(r rune) rune {
		if isAlphanumeric(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, version)
	value = value[:min(len(value), maxLabelValue)]
	return strings.TrimFunc(value, func(r rune) bool { return !isAlphanumeric(r) })
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// sectionDigits is the number of digits of a digest in a label.
const sectionDigits = 12

// SectionValue returns the part of a digest in hexadecimal digits that is in Section.
func SectionValue(digest string) string { return digest[:min(len(digest), sectionDigits)] }
