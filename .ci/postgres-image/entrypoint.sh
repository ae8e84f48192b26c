#!/bin/sh
# A small stand-in for the official image's entry point: the same variables,
# the same log lines, so that testcontainers waits for it in the same way.
set -eu
: "${PGDATA:=/var/lib/postgresql/data}" "${POSTGRES_USER:=postgres}" "${POSTGRES_PASSWORD:=}"
: "${POSTGRES_INITDB_ARGS:=}" "${POSTGRES_HOST_AUTH_METHOD:=scram-sha-256}" "${POSTGRES_DB:=$POSTGRES_USER}"
export PGDATA

case "${1:-postgres}" in -*) set -- postgres "$@" ;; esac

if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /var/run/postgresql
	chown -R postgres:postgres "$PGDATA" /var/run/postgresql
	chmod 700 "$PGDATA"
	# By its full path: busybox would run its own, smaller setpriv.
	exec /usr/local/bin/setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi

if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
		echo "Error: Database is uninitialized and superuser password is not specified." >&2
		exit 1
	fi
	pw=$(mktemp)
	printf '%s\n' "${POSTGRES_PASSWORD:-unused}" >"$pw"
	# shellcheck disable=SC2086 # the arguments are a list
	initdb -U "$POSTGRES_USER" --pwfile="$pw" --auth-local=trust \
		--auth-host="$POSTGRES_HOST_AUTH_METHOD" $POSTGRES_INITDB_ARGS
	rm -f "$pw"
	# After initdb: from 16 on it overrides postgresql.conf.sample.
	printf "listen_addresses = '*'\nunix_socket_directories = '/var/run/postgresql'\n" >>"$PGDATA/postgresql.conf"
	printf 'host all all all %s\n' "$POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
	# First a server without TCP, as the official image does: the line that
	# says "ready" appears twice, and only the second one means it.
	pg_ctl -w start -o "-c listen_addresses='' -c unix_socket_directories=/var/run/postgresql"
	export PGHOST=/var/run/postgresql PGUSER="$POSTGRES_USER"
	[ "$POSTGRES_DB" = postgres ] ||
		echo "CREATE DATABASE \"$POSTGRES_DB\"" | psql -v ON_ERROR_STOP=1 --no-psqlrc -d postgres
	for f in /docker-entrypoint-initdb.d/*; do
		case "$f" in
		*.sh) if [ -x "$f" ]; then "$f"; else . "$f"; fi ;;
		*.sql) psql -v ON_ERROR_STOP=1 --no-psqlrc -d "$POSTGRES_DB" -f "$f" ;;
		*.sql.gz) gunzip -c "$f" | psql -v ON_ERROR_STOP=1 --no-psqlrc -d "$POSTGRES_DB" ;;
		esac
	done
	pg_ctl -m fast -w stop
	unset PGHOST PGUSER
	echo
	echo 'PostgreSQL init process complete; ready for start up.'
	echo
fi
exec "$@"
