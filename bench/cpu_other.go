//go:build !linux

package main

import (
	"runtime"
	"time"
)

// serverCPU knows nothing on this system.
type serverCPU struct{}

func (serverCPU) known() bool                  { return false }
func (serverCPU) used() (time.Duration, error) { return 0, nil }
func cpuOf(int) (serverCPU, error)             { return serverCPU{}, nil }
func cpuOfParent(int) (serverCPU, error)       { return serverCPU{}, nil }

// memory is what Go's runtime took from the system: near to resident memory, and to its peak.
func memory() (now, peak int64, err error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased), int64(m.Sys), nil
}
