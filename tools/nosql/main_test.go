package main

import (
	"strings"
	"testing"
)

func TestIsSQL(t *testing.T) {
	sql := []string{
		"select 1", "SELECT * FROM pgqueue.task", "select pgqueue.enqueue($1)", "select now()",
		"  \n-- note\nselect id, name from task", "/* x */ select t.id", "(select 1)", "select $1::text",
		"select exists (table pgqueue.queue)", "select current_user",
		"insert into t values (1)", "update pgqueue.task set name = 'x'", "update task t set x = 1",
		"delete from pgqueue.task", "call pgqueue.maintain()", "with c as (select 1) select * from c",
		"with recursive c(n) as (values (1)) table c", "with c as materialized (select 1)",
		"values (1)", "create table t (a int)", "CREATE UNIQUE INDEX i on t (a)", "create index concurrently on t (a)",
		"create or replace function f() returns int", "drop schema if exists pgqueue", "alter table t add a int",
		"truncate pgqueue.task", "lock table t in share mode", "grant select on t to u", "copy t (a) from stdin",
		"do $$ begin end $$", "explain (analyze) select 1", "vacuum pgqueue.task", "set local statement_timeout = 0",
		"set search_path to ''", "set role x", "reset all", "show server_version", "discard all", "listen pgqueue_wake",
		"listen ", "unlisten *", "notify wake, 'x'", "begin", "begin isolation level serializable", "commit", "rollback",
		"savepoint a", "merge into t using s", " where namespace = $1", "and id = any($2)", "task_name => $1",
		"declare c cursor for select 1",
	}
	for _, s := range sql {
		if !isSQL(s) {
			t.Errorf("not seen as SQL: %q", s)
		}
	}

	other := []string{
		"", "Select a queue from the list", "select a queue", "Update the task", "update the task's priority",
		"Delete a task", "delete the task", "Create the schema pgqueue", "with one worker", "call the handler",
		"set the priority", "set-progress", "show ID", "show tasks", "commit: %w", "begin transaction: %w",
		"listen on %s", "listener lost", "notify the queue", "reset the window", "copy of the payload",
		"values differ", "do it again", "lock held", "table is missing", "truncate ID", "grant access",
		"Retry tasks from a queue", "costs $1", "select", "update", "enqueue one task, or many from stdin",
	}
	for _, s := range other {
		if isSQL(s) {
			t.Errorf("seen as SQL: %q", s)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		src  string
		want []string
	}{
		"plain":         {`var q = "select 1"`, []string{"x.go:2:9: SQL"}},
		"raw":           {"var q = `\n\tselect 1`", []string{"x.go:2:9: SQL"}},
		"marked":        {`var q = "select 1" //sql:connection`, nil},
		"with a reason": {`var q = "set role x" //sql:connection the pool's role`, nil},
		"marked at end": {"var q = `\nselect 1` //sql:connection", nil},
		"other comment": {`var q = "select 1" // sql:connection`, []string{"x.go:2:9: SQL"}},
		"stale marker":  {`var q = "one" //sql:connection`, []string{"marks no SQL"}},
		"concatenated":  {`var q = "listen " + "x"`, []string{"SQL"}},
		"tag":           {"type t struct{ A int `select 1` }", nil},
		"in a function": {`func f(g func(string)) { g("select 1") }`, []string{"SQL"}},
		"func in field": {`var f = func(a [len("select 1")]int) {}`, []string{"SQL"}},
		"import":        {`import _ "select 1"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := check("x.go", "package x\n"+tc.src)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, w := range tc.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("got %q, want %q", got[i], w)
				}
			}
		})
	}
}
