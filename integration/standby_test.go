package integration_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sql"
)

// A server in recovery can answer from old rows only, so nobody enqueues there, not even what would be a duplicate. The server is
// one of the local programs wherever the other tests have theirs: it must be stopped and started again as a standby.
func TestStandby(t *testing.T) {
	t.Parallel()
	server, err := devserver.StartTemporary(t.Context(), devserver.Options{})
	if err != nil {
		t.Fatalf("the test needs PostgreSQL's programs on this machine, besides what serves the other tests: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	conn := direct(t, server.URL)
	if err := sql.Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	held, fresh := request{TaskName: "send", ActiveKey: ptr("k")}, request{TaskName: "send", ActiveKey: ptr("new")}
	id := wantCreated(t, enqueue(t, conn, held))
	becomeStandby(t, server, conn)

	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgqueue.NewClient(t.Context(), pool, pgqueue.Config{}); !errors.Is(err, pgqueue.ErrStandby) {
		t.Errorf("NewClient: %v, want ErrStandby", err)
	}
	if err := sql.Migrate(t.Context(), direct(t, server.URL)); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("Migrate: %v, want a word on the standby", err)
	}

	for name, r := range map[string]request{"duplicate": held, "new": fresh} {
		_, err := gen.EnqueueUnique(t.Context(), pool, r)
		wantError(t, err, "25006")
		_, err = gen.TryEnqueueUnique(t.Context(), pool, gen.TryEnqueueUniqueParams(r))
		wantError(t, err, "25006")
		_, err = gen.Enqueue(t.Context(), pool, gen.EnqueueParams(r))
		wantError(t, err, "25006")
		_, err = gen.EnqueueMany(t.Context(), pool, gen.EnqueueManyParams{Items: []byte(`[{"task_name": "send", "active_key": "` + *r.ActiveKey + `"}]`)})
		if failed := wantError(t, err, "25006"); !strings.Contains(failed.Message, "recovery") {
			t.Errorf("%s: the message is %q", name, failed.Message)
		}
	}
	// Looking is allowed.
	found, err := gen.GetTask(t.Context(), pool, gen.GetTaskParams{TaskID: id})
	if err != nil || len(found) != 1 || found[0].Status != gen.TaskStatusReady {
		t.Errorf("get_task: %s, %v", show(found), err)
	}
	holder, err := gen.PendingHolder(t.Context(), pool, gen.PendingHolderParams{TaskName: "send", ActiveKey: "k"})
	if err != nil || len(holder) != 1 || *holder[0].TaskID != id {
		t.Errorf("pending_holder: %s, %v", show(holder), err)
	}
}

func becomeStandby(t *testing.T, server *devserver.Server, conn *pgx.Conn) {
	t.Helper()
	data := value[string](t, conn, "select current_setting('data_directory')")
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Halt(t.Context(), devserver.Fast); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
