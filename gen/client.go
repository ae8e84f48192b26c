package gen

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what *pgx.Conn, pgx.Tx and *pgxpool.Pool have in common.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// args are the named arguments of one call.
type args struct {
	text   strings.Builder
	values []any
}

// add passes an argument. The cast tells the server its type in the modes in which pgx does not ask for it.
func (a *args) add(name, cast string, value any) {
	if len(a.values) > 0 {
		a.text.WriteString(", ")
	}
	a.values = append(a.values, encode(value))
	a.text.WriteString(name + " => $" + strconv.Itoa(len(a.values)) + "::" + cast)
}

func optional[T any](a *args, name, cast string, value *T) {
	if value != nil {
		a.add(name, cast, *value)
	}
}

func optionalSlice[S ~[]E, E any](a *args, name, cast string, value S) {
	if value != nil {
		a.add(name, cast, value)
	}
}

// encode makes a value that pgx sends alike whether or not it knows the type of the parameter. Without the type it would send
// JSON and UUIDs as bytea.
func encode(value any) any {
	switch v := value.(type) {
	case uuid.UUID:
		return v.String()
	case json.RawMessage:
		if v == nil {
			return nil
		}
		return string(v)
	case []string:
		return each(v, func(s string) string { return s }) // nil becomes empty
	case []int:
		return each(v, func(n int) int64 { return int64(n) })
	case []uuid.UUID:
		return each(v, uuid.UUID.String)
	case []*time.Duration: // nil elements are SQL nulls
		return each(v, func(d *time.Duration) *string {
			if d == nil {
				return nil
			}
			s := Interval(*d)
			return &s
		})
	case []json.RawMessage:
		return each(v, func(j json.RawMessage) *string {
			if j == nil {
				return nil
			}
			s := string(j)
			return &s
		})
	}
	return value
}

// Interval is a duration as the text of an SQL interval. Not as a number of microseconds, of which PostgreSQL 14 reads 32 bits only.
func Interval(d time.Duration) string {
	sign, us := "", d.Microseconds()
	if us < 0 {
		sign, us = "-", -us
	}
	s := us / 1_000_000
	return fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, s/3600, s/60%60, s%60, us%1_000_000)
}

func each[T, U any](in []T, convert func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = convert(v)
	}
	return out
}

func query(ctx context.Context, db DB, columns, function string, a *args) pgx.Rows {
	// The rows carry the error.
	rows, _ := db.Query(ctx, "select "+columns+" from "+function+"("+a.text.String()+") as r", a.values...)
	return rows
}

func one[T any](ctx context.Context, db DB, columns, function string, a *args, scan pgx.RowToFunc[T]) (T, error) {
	return pgx.CollectExactlyOneRow(query(ctx, db, columns, function, a), scan)
}

func many[T any](ctx context.Context, db DB, columns, function string, a *args, scan pgx.RowToFunc[T]) ([]T, error) {
	return pgx.CollectRows(query(ctx, db, columns, function, a), scan)
}

func exec(ctx context.Context, db DB, function string, a *args) error {
	_, err := db.Exec(ctx, "select "+function+"("+a.text.String()+")", a.values...)
	return err
}
