package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/sql"
)

// testWorker makes the test binary a worker process.
const testWorker = "-demo-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == testWorker {
		if err := RunWorker(context.Background(), os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m, pgtest.Options{Migrate: sql.Migrate})
}

// small is a demo of the shipped deliveries that ends soon.
func small(t *testing.T, db *pgtest.DB, out *strings.Builder) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		DatabaseURL: db.URL(), Limit: 400, Producers: 4, Workers: 3, Redeliver: -1, Spread: 1500 * time.Millisecond, JSON: true,
		Out: out, Log: t.Output(), logs: []packageLog{}, worker: []string{self, testWorker},
	}
}

// wantNobody checks that all processes of the demo have left the database.
func wantNobody(t *testing.T, db *pgtest.DB) {
	t.Helper()
	conn := db.Conn(t)
	deadline := time.Now().Add(10 * time.Second)
	for {
		var sessions int
		err := conn.QueryRow(t.Context(), `select count(*) from pg_catalog.pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`).Scan(&sessions)
		if err != nil {
			t.Fatal(err)
		}
		if sessions == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are left behind", sessions)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var out strings.Builder
	if err := Run(t.Context(), small(t, db, &out)); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	wantNobody(t, db)
	var s summary
	if err := json.Unmarshal([]byte(out.String()), &s); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !s.OK || s.Offered != 400 || s.Offered != s.Created+s.Reused+s.Conflicts || s.Errors != 0 || s.Created != s.Settled || s.Settled != s.Stored.Successful {
		t.Errorf("the summary does not add up: %+v", s)
	}
	if s.Active == 0 || s.Window+s.Both == 0 || s.OtherBody == 0 || s.Retried == 0 {
		t.Errorf("something is not shown: %+v", s)
	}
	if s.Killed != "worker 2" || s.Held == 0 || s.Reaped == 0 || s.Looks == 0 {
		t.Errorf("killed %q, held %d, reaped %d, %d looks", s.Killed, s.Held, s.Reaped, s.Looks)
	}
	if want := fmt.Sprintf("demo: offered 400, created %d, reused %d (active ", s.Created, s.Reused); !strings.HasPrefix(s.line(), want) || !strings.HasSuffix(s.line(), ": ok") {
		t.Errorf("the last line is %q", s.line())
	}
}

// A check that cannot fail is none: each of these must be found.
func TestCheckFinds(t *testing.T) {
	const first = "(select namespace, id from pgqueue.task where namespace = $1 order by id limit 1)"
	for _, c := range []struct{ name, tamper, want string }{
		{"a lost task", "delete from pgqueue.task where (namespace, id) in " + first, "1 tasks that receipts name are not in the database"},
		{"a pending task", "update pgqueue.task set status = 'READY', claimable = true, finished_at = null where (namespace, id) in " + first,
			"1 tasks are still pending"},
		{"a task from nowhere", "select pgqueue.enqueue('stranger', namespace => $1)", "1 tasks in the database have no receipt"},
		{"two pending tasks of a key", `with keys as (select id, 1 as made from pgqueue.task where namespace = $1 order by id limit 2)
			update pgqueue.task set status = 'READY', claimable = true, finished_at = null, lock_key = '\x01' where namespace = $1 and id in (select id from keys)`,
			"1 active keys have more than one pending task"},
		{"a window to nothing", "update pgqueue.unique_window set task_id = '00000000-0000-7000-8000-000000000000' where (namespace, key) in " +
			"(select namespace, key from pgqueue.unique_window where namespace = $1 limit 1)", "1 window keys point to tasks that do not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			var out strings.Builder
			o := small(t, db, &out)
			o.Limit, o.Spread = 40, 200*time.Millisecond
			o.tamper = func(ctx context.Context, pool *pgxpool.Pool, namespace string) error {
				_, err := pool.Exec(ctx, c.tamper, namespace)
				return err
			}
			if err := Run(t.Context(), o); !errors.Is(err, ErrNotOK) {
				t.Fatalf("the error is %v\n%s", err, out.String())
			}
			if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), `"ok":false`) {
				t.Errorf("want %q in\n%s", c.want, out.String())
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var out strings.Builder
	o := small(t, db, &out)
	o.Spread = 20 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	begin := time.Now()
	if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	wantNobody(t, db)
}

func TestWorkerTrouble(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, c := range []struct {
		name    string
		command []string
		want    string
	}{
		{"no program", []string{filepath.Join(t.TempDir(), "missing")}, "start worker 1"},
		{"ends at once", []string{"sh", "-c", "echo the reason >&2; exit 3"}, "the reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			o := small(t, db, &out)
			o.worker = c.command
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
	if err := RunWorker(t.Context(), strings.NewReader("")); err == nil {
		t.Error("a worker without orders is no error")
	}
	wantNobody(t, db)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Workers: 3}, {Producers: 4, Workers: 1}, {Producers: 4, Workers: 3, Limit: -1},
		{Producers: 4, Workers: 3, Redeliver: 101}, {Producers: 4, Workers: 3, Spread: -1}, {Producers: 4, Workers: 3, Spread: time.Hour},
	} {
		if err := o.check(); err == nil {
			t.Errorf("%+v is fine", o)
		}
	}
}
