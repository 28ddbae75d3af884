// Package docs has the pages about messages, for partition-monitor explain.
package docs

import "embed"

// Troubleshooting has a page NAME.md for each check and each group of messages.
//
//go:embed troubleshooting/*.md
var Troubleshooting embed.FS
