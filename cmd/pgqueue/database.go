package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sql"
)

const connectTimeout = 10 * time.Second

// withURL runs f with the URL of the database to work on, and keeps the development server up meanwhile if it is that one.
func (a *app) withURL(ctx context.Context, migrateServer bool, f func(url string) error) (err error) {
	url := a.databaseURL
	if url == "" {
		url = os.Getenv("DATABASE_URL")
	}
	if url != "" {
		return f(url)
	}
	server, err := devserver.Open(ctx, devserver.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	a.note("no --database-url and no DATABASE_URL: using the development server in " + server.DataDir)
	if migrateServer {
		if err := migrate(ctx, server.URL); err != nil {
			return err
		}
	}
	return f(server.URL)
}

// note tells something that is no output and no error.
func (a *app) note(text string) {
	if !a.json {
		fmt.Fprintln(a.errOut, "pgqueue: "+text)
		return
	}
	line, err := json.Marshal(map[string]string{"note": text})
	if err != nil {
		panic(err) // strings always marshal
	}
	fmt.Fprintln(a.errOut, string(line))
}

// withClient runs f with a client of the database.
func (a *app) withClient(ctx context.Context, f func(c *pgqueue.Client) error) error {
	return a.withURL(ctx, true, func(url string) error {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return badURL(err)
		}
		tune(config.ConnConfig)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		client, err := pgqueue.NewClient(ctx, pool, pgqueue.Config{Namespace: a.namespace, Logger: a.log})
		if err != nil {
			return err
		}
		return f(client)
	})
}

// withConn runs f on one connection, without asking for a schema.
func withConn(ctx context.Context, url string, f func(conn *pgx.Conn) error) (err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return badURL(err)
	}
	tune(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return f(conn)
}

// tune sets what the URL leaves open. pgx fills in a connect timeout of two minutes.
func tune(config *pgx.ConnConfig) {
	config.ConnectTimeout = min(config.ConnectTimeout, connectTimeout)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pgqueue"
	}
}

func migrate(ctx context.Context, url string) error {
	return withConn(ctx, url, func(conn *pgx.Conn) error { return sql.Migrate(ctx, conn) })
}
