// Package fleet has partition-monitor recommend ask Prometheus' own engine what nodes recommend.
package fleet
