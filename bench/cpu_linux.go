package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU times in /proc, the same on all architectures that Go knows.
const tick = 10 * time.Millisecond

// serverCPU reads the CPU time of a server's processes: the postmaster, its living children, and those that ended.
type serverCPU struct{ postmaster int }

func (s serverCPU) known() bool { return s.postmaster != 0 }

func cpuOf(postmaster int) (serverCPU, error) {
	s := serverCPU{postmaster}
	_, err := s.used()
	return s, err
}

// cpuOfParent finds the postmaster as the parent of a session's process, which must be one of PostgreSQL here too.
func cpuOfParent(backend int) (serverCPU, error) {
	stat, err := readStat(backend)
	if errors.Is(err, fs.ErrNotExist) || err == nil && stat.name != "postgres" {
		return serverCPU{}, nil // the server's processes are not in sight
	}
	if err != nil {
		return serverCPU{}, err
	}
	return cpuOf(stat.parent)
}

// used looks again when a child was reaped meanwhile: it is then among neither the living nor the ended.
func (s serverCPU) used() (time.Duration, error) {
	if !s.known() {
		return 0, nil
	}
	for {
		before, err := readStat(s.postmaster)
		if err != nil {
			return 0, fmt.Errorf("CPU time of the server: %w", err)
		}
		living, err := s.living()
		if err != nil {
			return 0, err
		}
		after, err := readStat(s.postmaster)
		if err != nil {
			return 0, fmt.Errorf("CPU time of the server: %w", err)
		}
		if before.ended == after.ended {
			return living + after.cpu + after.ended, nil
		}
	}
}

func (s serverCPU) living() (total time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readStat(pid)
		if gone(err) || err == nil && stat.parent != s.postmaster {
			continue
		}
		if err != nil {
			return 0, err
		}
		exact, err := readSchedstat(pid)
		switch {
		case err == nil:
			total += exact
		case gone(err): // not on this kernel, or ended since
			total += stat.cpu
		default:
			return 0, err
		}
	}
	return total, nil
}

// gone tells that a process ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

type procStat struct {
	name       string
	parent     int
	cpu, ended time.Duration
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	// The name is in parentheses, and may hold some itself.
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return procStat{}, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	s := procStat{name: string(text[from+1 : to])}
	fields := strings.Fields(string(text[to+1:]))
	if len(fields) < 15 {
		return procStat{}, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	var numbers [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return procStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	s.parent = int(numbers[0])
	s.cpu = time.Duration(numbers[1]+numbers[2]) * tick
	s.ended = time.Duration(numbers[3]+numbers[4]) * tick
	return s, nil
}

// readSchedstat is finer than ticks.
func readSchedstat(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(n), err
}

// memory returns the resident memory of this process and its peak, in bytes.
func memory() (now, peak int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		var to *int64
		switch fields[0] {
		case "VmRSS:":
			to = &now
		case "VmHWM:":
			to = &peak
		default:
			continue
		}
		if *to, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
			return 0, 0, err
		}
		*to *= 1024
	}
	return now, peak, nil
}
