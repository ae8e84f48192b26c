// Package gen is the typed client of the SQL functions in schema pgqueue: one Go function for each, with the arguments, rows,
// enums and comments that a migrated database has. Package pgqueue is made of it; use that one unless you need the bare calls.
//
// functions.gen.go is written by a program and checked in. After a change of the SQL:
//
//	go run ./gen/generate           write it
//	go run ./gen/generate -check    fail if it is not what the SQL calls for
//
// The program starts a PostgreSQL server of its own from the programs on this machine. To use a running one instead, as a role
// that may create databases (it makes one and drops it):
//
//	go run ./gen/generate -database-url postgres://...
//	PGQUEUE_GENERATE_DATABASE_URL=postgres://... go run ./gen/generate
//
// How SQL becomes Go:
//
//   - Arguments are the fields of a Params struct and are passed by name. A nil optional one (the function gives it a default) is
//     left out of the call. Both of integer and smallint are int, because they count small things; bigint is int64.
//   - Columns of views and composite types are nullable, so they are pointers, unless the last line of the type's comment is
//     "Never null: a, b, c." A null enum is the empty string, a null array or jsonb is nil; JSON null is json.RawMessage("null").
//   - A set is a slice, a composite value a struct. A single value is a pointer if the function's comment says "or null when".
//   - Names that start with an underscore are internal to the database and have no Go function.
//
// All calls work in every query execution mode of pgx, and need no types registered on the connection. In the modes exec and
// simple_protocol pgx itself reads times and intervals only in the server's default styles, DateStyle ISO and IntervalStyle postgres.
package gen

//go:generate go run ./generate
