-- The shop's own tables. They are in the same database as Rota's, so that an order and the runs
-- that it enqueues commit together.
CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.orders (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer  text NOT NULL,
    product   text NOT NULL,
    cents     integer NOT NULL CHECK (cents > 0),
    state     text NOT NULL DEFAULT 'placed' CHECK (state IN ('placed', 'paid', 'packed')),
    placed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS shop.stock (
    product text PRIMARY KEY,
    pieces  integer NOT NULL CHECK (pieces >= 0)
);

INSERT INTO shop.stock (product, pieces)
VALUES ('mug', 20), ('poster', 20), ('lamp', 10), ('chair', 5), ('kettle', 10)
ON CONFLICT DO NOTHING;
