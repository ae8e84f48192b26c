package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/devserver"
	"github.com/pgqueue/pgqueue/sql"
)

// readMigrated reads the catalog of a fresh database, on the given server or on a temporary one.
func readMigrated(ctx context.Context, url string) (found catalog, err error) {
	if url == "" {
		server, err := devserver.StartTemporary(ctx, devserver.Options{})
		if err != nil {
			return catalog{}, fmt.Errorf("start a temporary server: %w", err)
		}
		defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
		url = server.URL
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return catalog{}, err
	}
	admin, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return catalog{}, err
	}
	defer func() { err = errors.Join(err, admin.Close(context.WithoutCancel(ctx))) }()

	scratch := "pgqueue_generate_" + rand.Text()
	name := pgx.Identifier{scratch}.Sanitize()
	if _, err := admin.Exec(ctx, "create database "+name+" template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"); err != nil {
		return catalog{}, fmt.Errorf("create a scratch database: %w", err)
	}
	defer func() {
		_, dropErr := admin.Exec(context.WithoutCancel(ctx), "drop database if exists "+name+" with (force)")
		err = errors.Join(err, dropErr)
	}()

	config = config.Copy()
	config.Database = scratch
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return catalog{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := sql.Migrate(ctx, conn); err != nil {
		return catalog{}, err
	}
	return readCatalog(ctx, conn)
}
