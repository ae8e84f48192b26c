package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// harness is the server of this test binary and the template in it.
type harness struct {
	mu         sync.Mutex
	configured bool
	options    Options
	started    bool
	startErr   error
	stopped    bool

	server   *server
	admin    *pgxpool.Pool
	run      string // makes names unique on a server that several test binaries share
	cloning  sync.Mutex
	sequence atomic.Int64
}

var current harness

func (h *harness) configure(options Options) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.configured, h.options = true, options
}

func (h *harness) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.configured {
		return errors.New("the package needs: func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{...}) }")
	}
	if h.stopped {
		return errors.New("the server was stopped")
	}
	if !h.started {
		h.started = true
		// Not a test's own context: the server outlives the first test.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		h.startErr = h.bringUp(ctx)
	}
	return h.startErr
}

func (h *harness) bringUp(ctx context.Context) error {
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	h.run = hex.EncodeToString(random)
	var err error
	if h.server, err = chooseServer(ctx, h.options.Settings, os.Getenv); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(h.server.url(""))
	if err != nil {
		return fmt.Errorf("%s: %w", h.server.kind, err)
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "pgtest"
	if h.admin, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return err
	}
	return h.makeTemplate(ctx)
}

func (h *harness) template() string { return "pgqueue_template_" + h.run }

func (h *harness) makeTemplate(ctx context.Context) error {
	name := quoteIdentifier(h.template())
	if _, err := h.admin.Exec(ctx, "create database "+name+" template template0"); err != nil {
		return fmt.Errorf("create the template database: %w", err)
	}
	if h.options.Migrate != nil {
		conn, err := pgx.Connect(ctx, h.server.url(h.template()))
		if err != nil {
			return err
		}
		err = h.options.Migrate(ctx, conn)
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			return fmt.Errorf("migrate the template database: %w", err)
		}
	}
	// A session on the template would block every clone.
	if _, err := h.admin.Exec(ctx, "alter database "+name+" allow_connections false"); err != nil {
		return err
	}
	return nil
}

// clone makes a database. One at a time: two clones of one template gain nothing from each other on few processors.
func (h *harness) clone(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("pgqueue_test_%s_%d", h.run, h.sequence.Add(1))
	h.cloning.Lock()
	defer h.cloning.Unlock()
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := h.admin.Exec(ctx, "create database "+quoteIdentifier(name)+" template "+quoteIdentifier(template))
		if err == nil {
			return name, nil
		}
		// 55006: the last session on the template, or an autovacuum worker, is not gone yet.
		if sqlState(err) != "55006" || time.Now().After(deadline) {
			return "", fmt.Errorf("clone %s: %w", template, err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (h *harness) drop(ctx context.Context, name string) error {
	_, err := h.admin.Exec(ctx, "drop database if exists "+quoteIdentifier(name)+" with (force)")
	return err
}

// stop removes the template and ends what start began. Nothing started is nothing to stop.
func (h *harness) stop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil || h.stopped {
		return nil
	}
	h.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var failed error
	if h.admin != nil {
		if h.server.kind == kindURL { // the others go as a whole
			failed = h.drop(ctx, h.template())
		}
		h.admin.Close()
	}
	return errors.Join(failed, h.server.stop(ctx))
}

// abandon is stop while tests still run: it waits for none of them, and what they do fails from then on.
func (h *harness) abandon() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil || h.stopped {
		return nil
	}
	h.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return h.server.stop(ctx)
}

func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func quoteLiteral(value string) string {
	value = strings.ReplaceAll(value, `'`, `''`)
	if strings.Contains(value, `\`) {
		return ` E'` + strings.ReplaceAll(value, `\`, `\\`) + `'`
	}
	return `'` + value + `'`
}

// sqlState returns the SQLSTATE of a server's error, "" for any other.
func sqlState(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}
