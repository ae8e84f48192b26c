package main

import "syscall"

// dieWithUs puts workers into a group of their own and makes the kernel kill them with the suite, stopped ones too.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
