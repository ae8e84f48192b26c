package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/integration/pgtest"
)

const (
	lookEvery       = 2 * time.Millisecond
	limit           = 10 * time.Second
	defaultPatience = 2 * time.Second
)

// runner is one order under way.
type runner struct {
	t       testing.TB
	ctx     context.Context
	state   *State
	conns   map[string]*pgx.Conn // by step name: the connection of its session
	steps   map[string]Step
	pending []*pending // blocked steps, in the order of their start
}

// pending is a step that was started and has not been checked.
type pending struct {
	at     At
	conn   *pgx.Conn
	result chan Result
}

// RunOrder runs one order of a spec in a database of its own. Run is what most tests want.
func RunOrder(t testing.TB, spec Spec, order Order, level Isolation) {
	t.Helper()
	db := pgtest.New(t, spec.Database...)
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{
		t: t, ctx: ctx, conns: map[string]*pgx.Conn{}, steps: map[string]Step{},
		state: &State{
			DB: db, Conn: db.Conn(t, pgtest.RuntimeParam("application_name", "interleave")),
			Isolation: level, Results: map[string]Result{},
		},
	}
	// Also on failure no step may outlive the test: cancelled, it gives its result.
	defer func() {
		cancel()
		for _, p := range r.pending {
			<-p.result
		}
	}()
	for _, statement := range spec.Setup {
		r.prepare(r.state.Conn, "setup", statement)
	}
	for _, session := range spec.Sessions {
		r.open(session, level)
	}
	for _, at := range order.Steps {
		r.step(at)
	}
	for _, after := range []func(testing.TB, *State){spec.After, order.After} {
		if after != nil {
			after(t, r.state)
		}
	}
}

func (r *runner) prepare(conn *pgx.Conn, who, statement string) {
	r.t.Helper()
	if _, err := conn.Exec(r.ctx, statement); err != nil {
		r.t.Fatalf("interleave: %s: %s: %v", who, statement, err)
	}
}

func (r *runner) open(session Session, level Isolation) {
	r.t.Helper()
	options := []pgtest.ConnOption{pgtest.RuntimeParam("application_name", session.Name)}
	if session.Isolation != Default {
		level = session.Isolation
	}
	if level != Default {
		options = append(options, pgtest.RuntimeParam("default_transaction_isolation", string(level)))
	}
	for name, value := range session.Settings {
		options = append(options, pgtest.RuntimeParam(name, value))
	}
	conn := r.state.DB.Conn(r.t, options...)
	for _, statement := range session.Setup {
		r.prepare(conn, "session "+session.Name, statement)
	}
	for _, step := range session.Steps {
		r.conns[step.Name], r.steps[step.Name] = conn, step
	}
}

func (r *runner) step(at At) {
	r.t.Helper()
	p := r.start(at)
	r.pending = append(r.pending, p)
	if at.Blocks {
		r.awaitBlocked(p)
	} else {
		r.awaitDone(p)
	}
	for _, name := range at.Unblocks {
		i := slices.IndexFunc(r.pending, func(p *pending) bool { return p.at.Step == name })
		r.awaitFreed(r.pending[i], at.Step)
	}
	// The others must still wait: a lock that is gone wakes its waiter at once.
	for _, other := range slices.Clone(r.pending) {
		if other != p {
			r.awaitBlocked(other)
		}
	}
}

func (r *runner) start(at At) *pending {
	p := &pending{at: at, conn: r.conns[at.Step], result: make(chan Result, 1)}
	step := r.steps[at.Step]
	go func() {
		// Whatever happens in Do, Goexit of a t.FailNow included, the step ends with a result.
		result := Result{Err: errors.New("the step ended without returning")}
		defer func() { p.result <- result }()
		result = perform(r.ctx, p.conn, step)
	}()
	return p
}

func perform(ctx context.Context, conn *pgx.Conn, step Step) Result {
	var result Result
	if step.Do != nil {
		result.Err = step.Do(ctx, conn)
	} else {
		result.Rows, result.Tag, result.Err = query(ctx, conn, step)
	}
	var failed *pgconn.PgError
	if errors.As(result.Err, &failed) {
		result.SQLState = failed.Code
	}
	return result
}

// query takes the rows as the text that the server writes, so that no type needs to be known here.
func query(ctx context.Context, conn *pgx.Conn, step Step) ([]string, string, error) {
	rows, err := conn.Query(ctx, step.SQL, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, step.Args...)...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	texts := []string{}
	for rows.Next() {
		var columns []string
		for _, raw := range rows.RawValues() {
			if raw == nil {
				columns = append(columns, "NULL")
			} else {
				columns = append(columns, string(raw))
			}
		}
		texts = append(texts, strings.Join(columns, "|"))
	}
	return texts, rows.CommandTag().String(), rows.Err()
}

// awaitBlocked returns when the step waits for a lock.
func (r *runner) awaitBlocked(p *pending) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); ; {
		select {
		case result := <-p.result:
			r.forget(p)
			r.t.Fatalf("interleave: step %s ended instead of being blocked: %s\n%s", p.at.Step, result, r.activity())
		case <-time.After(lookEvery):
		}
		if r.look(p).Blocked {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("interleave: step %s is neither blocked nor done\n%s", p.at.Step, r.activity())
		}
	}
}

// awaitDone returns when the step has ended. A wait for a lock is given some patience: nobody else moves meanwhile, so
// only the server can end it, as the deadlock detector and lock_timeout do.
func (r *runner) awaitDone(p *pending) {
	r.t.Helper()
	patience := p.at.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	begin := time.Now()
	var blockedSince time.Time
	for {
		select {
		case result := <-p.result:
			r.finish(p, result)
			return
		case <-time.After(lookEvery):
		}
		switch {
		case !r.look(p).Blocked:
			blockedSince = time.Time{}
		case blockedSince.IsZero():
			blockedSince = time.Now()
		case time.Since(blockedSince) > patience:
			r.t.Fatalf("interleave: step %s blocks and should not\n%s", p.at.Step, r.activity())
		}
		if time.Since(begin) > limit+patience {
			r.t.Fatalf("interleave: step %s does not end\n%s", p.at.Step, r.activity())
		}
	}
}

// awaitFreed returns when a blocked step has ended because of another.
func (r *runner) awaitFreed(p *pending, by string) {
	r.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case result := <-p.result:
		r.finish(p, result)
	case <-timer.C:
		r.t.Fatalf("interleave: step %s is still blocked after %s\n%s", p.at.Step, by, r.activity())
	}
}

func (r *runner) look(p *pending) pgtest.Backend {
	r.t.Helper()
	found, err := pgtest.Look(r.ctx, r.state.Conn, p.conn.PgConn().PID())
	if err != nil {
		r.t.Fatalf("interleave: look at step %s: %v", p.at.Step, err)
	}
	return found
}

func (r *runner) activity() string { return pgtest.Activity(r.ctx, r.state.Conn) }

func (r *runner) forget(p *pending) {
	r.pending = slices.DeleteFunc(r.pending, func(other *pending) bool { return other == p })
}

// finish compares a result with what the order says. A difference ends the test: later steps would only add noise.
func (r *runner) finish(p *pending, result Result) {
	r.t.Helper()
	r.forget(p)
	r.state.Results[p.at.Step] = result
	level := r.state.Isolation
	state, rows := p.at.Error, p.at.Rows
	if special, found := p.at.ErrorAt[level]; found {
		state = special
	}
	if special, found := p.at.RowsAt[level]; found {
		rows = special
	}
	switch {
	case state == "" && result.Err != nil, state != result.SQLState:
		r.t.Fatalf("interleave: step %s: %s; want SQLSTATE %q", p.at.Step, result, state)
	case state == "" && rows != nil && !slices.Equal(rows, result.Rows):
		r.t.Fatalf("interleave: step %s: %s; want rows %q", p.at.Step, result, rows)
	case state == "" && p.at.Tag != "" && p.at.Tag != result.Tag:
		r.t.Fatalf("interleave: step %s: %s; want tag %q", p.at.Step, result, p.at.Tag)
	}
}

func (r Result) String() string {
	if r.Err != nil {
		return fmt.Sprintf("error %v", r.Err)
	}
	return fmt.Sprintf("rows %q, tag %q", r.Rows, r.Tag)
}
