//go:build unix && !linux

package main

import "syscall"

// dieWithUs puts workers into a group of their own. They end with the suite because their standard input does.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
