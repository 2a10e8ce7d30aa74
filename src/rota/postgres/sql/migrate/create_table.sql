-- `objects`: the hashes of functions, views and triggers after this migration (postgres/repeatable.py).
CREATE TABLE IF NOT EXISTS rota.migrations (number integer PRIMARY KEY, name text NOT NULL,
    oldest_code integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(), objects jsonb NOT NULL DEFAULT '{}')
