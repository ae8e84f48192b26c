package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// groupOfItsOwn keeps Ctrl-C in the terminal from the command, and makes the kernel kill it when the worker is killed.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupAlive asks /proc as well: dead processes stay in their group until their new parent has collected them, and the first
// process of a container often collects none.
func groupAlive(p *os.Process) bool {
	if syscall.Kill(-p.Pid, 0) != nil {
		return false
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return true
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state parent group ...", and the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(p.Pid) && string(fields[0]) != "Z" {
			return true
		}
	}
	return false
}
