package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/sql"
)

// durable makes what was committed survive, and puts the SQLSTATE into the log.
var durable = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
	"wal_level": "replica", "wal_keep_size": "256MB", "wal_retrieve_retry_interval": "200ms",
	"log_line_prefix": "%m [%p] %a %e ", "max_connections": "150", "shared_buffers": "256MB",
}

// cluster is the server, and for a while its standby.
type cluster struct {
	programs devserver.Programs
	settings map[string]string
	logs     []string // of servers that are gone

	mu      sync.Mutex
	primary *devserver.Server
	standby *devserver.Server
	pool    *pgxpool.Pool // to the primary, past all proxies
}

// startCluster starts a migrated server, with settings beside the usual ones and more SQL, if any.
func startCluster(ctx context.Context, settings map[string]string, more string) (*cluster, error) {
	programs, err := devserver.FindPrograms()
	if err != nil {
		return nil, err
	}
	c := &cluster{programs: programs, settings: maps.Clone(durable)}
	maps.Copy(c.settings, settings)
	if c.primary, err = c.server(ctx); err != nil {
		return nil, err
	}
	if c.pool, err = connect(c.primary.URL, "conductor", 8); err != nil {
		return c, err
	}
	conn, err := pgx.Connect(ctx, c.primary.URL)
	if err != nil {
		return c, err
	}
	err = sql.Migrate(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, auditSQL+more)
	}
	return c, errors.Join(err, conn.Close(ctx))
}

func (c *cluster) server(ctx context.Context) (*devserver.Server, error) {
	return devserver.StartTemporary(ctx, devserver.Options{Programs: c.programs, TCP: true, Settings: c.settings})
}

// admin is a pool to whichever server is the primary. Its users live with errors while there is none.
func (c *cluster) admin() *pgxpool.Pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pool
}

func (c *cluster) address() string { return addressOf(c.primary) }

func addressOf(s *devserver.Server) string {
	u, err := url.Parse(s.TCPURL)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// makeStandby copies the primary under load, starts the copy, and makes commits wait for it.
func (c *cluster) makeStandby(ctx context.Context) error {
	standby, err := c.server(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.standby = standby
	c.mu.Unlock()
	data, err := dataDirectory(ctx, standby.URL)
	if err != nil {
		return err
	}
	if err := standby.Halt(ctx, devserver.Fast); err != nil {
		return err
	}
	if err := c.baseBackup(ctx, data); err != nil {
		return err
	}
	if err := standby.Start(ctx); err != nil {
		return err
	}
	if err := c.await(ctx, "the standby to stream", streamingSQL); err != nil {
		return err
	}
	for _, statement := range []string{synchronousSQL, reloadSQL} {
		if _, err := c.admin().Exec(ctx, statement); err != nil {
			return err
		}
	}
	return c.await(ctx, "the standby to be synchronous", synchronizedSQL)
}

func dataDirectory(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	var data string
	err = conn.QueryRow(ctx, dataDirectorySQL).Scan(&data)
	return data, errors.Join(err, conn.Close(ctx))
}

// baseBackup fills the data folder of a server that is down, as the account that owns the folder.
func (c *cluster) baseBackup(ctx context.Context, data string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, c.programs.Path("pg_basebackup"),
		"-D", data, "-d", c.primary.TCPURL, "-X", "stream", "-c", "fast", "-R")
	cmd.Dir = data
	info, err := os.Stat(data)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return nil
}

func (c *cluster) await(ctx context.Context, what, count string) error {
	for waiting := time.Now(); time.Since(waiting) < patience; {
		n, err := one[int](ctx, c.admin(), count)
		if err == nil && n > 0 {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("waited %s for %s", patience, what)
}

// failOver stops the primary without a checkpoint and promotes the standby. The proxies are the caller's to turn.
func (c *cluster) failOver(ctx context.Context) error {
	if err := c.primary.Halt(ctx, devserver.Immediate); err != nil {
		return err
	}
	pool, err := connect(c.standby.URL, "conductor", 8)
	if err != nil {
		return err
	}
	promoted, err := one[bool](ctx, pool, promoteSQL)
	if err != nil || !promoted {
		return fmt.Errorf("pg_promote: %t, %w", promoted, err)
	}
	text, err := os.ReadFile(c.primary.LogFile())
	if err != nil {
		return err
	}
	c.mu.Lock()
	old, oldPool := c.primary, c.pool
	c.logs = append(c.logs, string(text))
	c.primary, c.standby, c.pool = c.standby, nil, pool
	c.mu.Unlock()
	oldPool.Close()
	return old.Stop(ctx)
}

// log returns what all servers have logged.
func (c *cluster) log() ([]string, error) {
	text, err := os.ReadFile(c.primary.LogFile())
	return append(c.logs[:len(c.logs):len(c.logs)], string(text)), err
}

func (c *cluster) close(ctx context.Context) error {
	var errs []error
	if c.pool != nil {
		c.pool.Close()
	}
	for _, s := range []*devserver.Server{c.standby, c.primary} {
		if s != nil {
			errs = append(errs, s.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}
