//go:build unix && !linux

package devserver

import "syscall"

// dieWithUs does nothing here: these systems have no such signal. A server left behind by a killed process ends at
// most a minute after the next StartTemporary has removed its folder, because it looks for its pid file that often.
func dieWithUs(*syscall.SysProcAttr, syscall.Signal) {}
