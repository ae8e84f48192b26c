package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
)

// localSettings of a server that this program starts. What is not here is as PostgreSQL ships it.
var localSettings = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
	"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min",
	"max_connections": "200", "log_min_messages": "error",
}

// env is the server and its databases: one for each system, so that none sees another's tables.
type env struct {
	scale
	local     *devserver.Server // nil for a server given by URL
	base      *url.URL
	admin     *pgx.Conn
	cpu       serverCPU
	prefix    string
	instances map[string]*instance
}

func newEnv(ctx context.Context, o options) (_ *env, err error) {
	e := &env{scale: newScale(o), prefix: fmt.Sprintf("pgqueue_bench_%d_", os.Getpid()), instances: make(map[string]*instance)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close(context.WithoutCancel(ctx)))
		}
	}()
	address := o.databaseURL
	if address == "" {
		if e.local, err = devserver.StartTemporary(ctx, devserver.Options{Settings: localSettings}); err != nil {
			return nil, fmt.Errorf("start a server (or give one with --database-url): %w", err)
		}
		address = e.local.URL
	}
	if e.base, err = url.Parse(address); err != nil || !strings.HasPrefix(e.base.Scheme, "postgres") {
		return nil, errors.New("the database URL is not a postgres:// URL") // without its text, which may hold a password
	}
	if e.admin, err = pgx.Connect(ctx, address); err != nil {
		return nil, err
	}
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on"} {
		var found string
		if err := e.admin.QueryRow(ctx, "select current_setting($1)", setting).Scan(&found); err != nil {
			return nil, err
		}
		if found != want {
			return nil, fmt.Errorf("the server has %s = %s; figures without durable commits mean nothing", setting, found)
		}
	}
	e.cpu, err = e.findServer(ctx)
	return e, err
}

// findServer finds the processes of the server: those of our own, and those behind a socket in the file system.
func (e *env) findServer(ctx context.Context) (serverCPU, error) {
	if e.local != nil {
		return cpuOf(e.local.PID())
	}
	if !strings.HasPrefix(e.admin.Config().Host, "/") {
		return serverCPU{}, nil
	}
	var pid int
	if err := e.admin.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return serverCPU{}, err
	}
	return cpuOfParent(pid)
}

func (e *env) close(ctx context.Context) error {
	var errs []error
	if e.admin != nil {
		if e.local == nil {
			for _, i := range e.instances {
				_, err := e.admin.Exec(ctx, "drop database if exists "+i.database+" with (force)")
				errs = append(errs, err)
			}
		}
		errs = append(errs, e.admin.Close(ctx))
	}
	if e.local != nil {
		errs = append(errs, e.local.Stop(ctx))
	}
	return errors.Join(errs...)
}

// checkpoint leaves no write-back of earlier work to the next cell.
func (e *env) checkpoint(ctx context.Context) error {
	_, err := e.admin.Exec(ctx, "checkpoint")
	return err
}

// instance is a system in a database of its own.
type instance struct {
	system
	database, url string
	filled        bool         // W9: its history is there
	next          atomic.Int64 // W9: the number of the last new task
}

// instance makes the database at the first call. Workloads that keep their tables from round to round have their own label.
func (e *env) instance(ctx context.Context, s system, label string) (*instance, error) {
	name := s.name + label
	if i := e.instances[name]; i != nil {
		return i, nil
	}
	i := &instance{system: s, database: fmt.Sprintf("%s%d", e.prefix, len(e.instances))}
	if _, err := e.admin.Exec(ctx, "create database "+i.database); err != nil {
		return nil, err
	}
	e.instances[name] = i
	address := *e.base
	address.Path = "/" + i.database
	i.url = address.String()
	return i, i.admin(ctx, s.install)
}

func (i *instance) admin(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, i.url)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, conn), conn.Close(ctx))
}

// leave tidies up after a cell, so that autovacuum has nothing to do in the next one on its account.
func (i *instance) leave(ctx context.Context, keep bool) error {
	if keep {
		return i.vacuum(ctx)
	}
	return i.empty(ctx)
}

func (i *instance) empty(ctx context.Context) error {
	return i.admin(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tables, err := i.tables(ctx, conn)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "truncate "+strings.Join(tables, ", "))
		return err
	})
}

func (i *instance) vacuum(ctx context.Context) error {
	return i.admin(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tables, err := i.tables(ctx, conn)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "vacuum (analyze) "+strings.Join(tables, ", "))
		return err
	})
}

// connect opens a queue on a pool whose connections are all open.
func (i *instance) connect(ctx context.Context, connections int) (*pgxpool.Pool, queue, error) {
	pool, err := openPool(ctx, i.url, connections)
	if err != nil {
		return nil, nil, err
	}
	held := make([]*pgxpool.Conn, 0, connections)
	for range connections {
		conn, acquireErr := pool.Acquire(ctx)
		if acquireErr != nil {
			err = acquireErr
			break
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	var q queue
	if err == nil {
		q, err = i.open(ctx, pool)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, q, nil
}

func openPool(ctx context.Context, address string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	return pgxpool.NewWithConfig(ctx, config)
}

// serverInfo says on what the figures were measured.
type serverInfo struct {
	Version  string            `json:"version"`
	Local    bool              `json:"started_by_bench"`
	CPU      bool              `json:"cpu_measured"`
	Cores    int               `json:"client_cores"`
	Settings map[string]string `json:"settings"`
}

func (e *env) describe(ctx context.Context) (serverInfo, error) {
	info := serverInfo{Local: e.local != nil, CPU: e.cpu.known(), Cores: cores(), Settings: make(map[string]string)}
	rows, _ := e.admin.Query(ctx, `select name, current_setting(name) from pg_settings where name = any($1)`, []string{
		"fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_compression", "wal_sync_method", "data_checksums", "shared_buffers",
		"max_wal_size", "checkpoint_timeout", "autovacuum", "autovacuum_naptime", "jit", "server_version", "max_connections",
	}) // its error comes with the rows
	var name, value string
	_, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		info.Settings[name] = value
		return nil
	})
	info.Version = info.Settings["server_version"]
	delete(info.Settings, "server_version")
	return info, err
}

// pause waits, but not longer than ctx lives.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
