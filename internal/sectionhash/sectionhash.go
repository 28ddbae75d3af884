// Package sectionhash names the content of the file with a node's section, so that people can tell
// which nodes have the same one.
package sectionhash

import (
	"crypto/sha256"
	"encoding/hex"
)

// digits is the number of hexadecimal digits of a hash: enough to tell the files of a fleet apart,
// and short enough for a label and for a column of kubectl.
const digits = 12

// Of returns the first 12 hexadecimal digits of the SHA-256 of a file, as sha256sum prints them.
func Of(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])[:digits]
}
