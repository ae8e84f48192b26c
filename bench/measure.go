package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// sample is one measured cell. Fields that could not be measured are nil.
type sample struct {
	Tasks        int                `json:"tasks"`
	Seconds      float64            `json:"seconds"`
	Rate         float64            `json:"tasks_per_second"`
	WALBytes     float64            `json:"wal_bytes_per_task"`
	ServerMicros *float64           `json:"server_cpu_us_per_task,omitempty"`
	ClientMicros float64            `json:"client_cpu_us_per_task"`
	Extra        map[string]float64 `json:"extra,omitempty"`
	Windows      []float64          `json:"windows_tasks_per_second,omitempty"`
}

// meter reads what the server and this process have used so far.
type meter struct {
	at     time.Time
	wal    int64
	server time.Duration
	client time.Duration
}

func (e *env) read(ctx context.Context) (m meter, err error) {
	err = e.admin.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&m.wal)
	if err != nil {
		return m, fmt.Errorf("read the WAL position: %w", err)
	}
	if m.server, err = e.cpu.used(); err != nil {
		return m, err
	}
	m.client, err = clientCPU()
	m.at = time.Now()
	return m, err
}

// since makes a sample of what was used since an earlier reading.
func (e *env) since(ctx context.Context, before meter, tasks int, took time.Duration) (sample, error) {
	after, err := e.read(ctx)
	if err != nil {
		return sample{}, err
	}
	if tasks == 0 || took <= 0 {
		return sample{}, fmt.Errorf("%d tasks in %v: nothing was measured", tasks, took)
	}
	n := float64(tasks)
	s := sample{
		Tasks: tasks, Seconds: took.Seconds(), Rate: n / took.Seconds(),
		WALBytes: float64(after.wal-before.wal) / n, ClientMicros: micros(after.client-before.client) / n,
	}
	if e.cpu.known() {
		used := micros(after.server-before.server) / n
		s.ServerMicros = &used
	}
	return s, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// clientCPU is the CPU time of this process.
func clientCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func cores() int { return runtime.NumCPU() }
