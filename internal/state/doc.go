// Package state has the types of what partition-monitor writes with -o json: the commands status,
// check and validate write them, and the rollout reads them.
package state
