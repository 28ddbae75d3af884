package output

import "time"

// Time returns a time to the minute, in the time zone of the node, with its name.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }
