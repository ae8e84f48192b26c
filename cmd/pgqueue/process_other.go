//go:build !unix

package main

import (
	"os"
	"syscall"
)

func groupOfItsOwn() *syscall.SysProcAttr { return nil }

// signalGroup can only kill here.
func signalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }

func groupAlive(*os.Process) bool { return false }
