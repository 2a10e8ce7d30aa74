-- SQL functions that are jobs, with their schedules: no Python is involved.
CREATE TABLE IF NOT EXISTS shop.sales (
    product text PRIMARY KEY,
    pieces  bigint NOT NULL
);

CREATE OR REPLACE FUNCTION shop.count_sale(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    sold bigint;
BEGIN
    INSERT INTO shop.sales AS s (product, pieces) VALUES (payload ->> 'product', 1)
    ON CONFLICT (product) DO UPDATE SET pieces = s.pieces + 1 RETURNING s.pieces INTO sold;
    RETURN jsonb_build_object('success', true, 'message', format('%s of %s sold', sold, payload ->> 'product'));
END $$;

CREATE OR REPLACE FUNCTION shop.check_stock(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    low record;
    n   integer := 0;
BEGIN
    FOR low IN SELECT s.product, s.pieces FROM shop.stock s WHERE s.pieces < (payload ->> 'least')::integer ORDER BY s.product LOOP
        RAISE WARNING 'only % left of %', low.pieces, low.product;
        n := n + 1;
    END LOOP;
    RAISE NOTICE 'stock checked';
    RETURN jsonb_build_object('success', true, 'message', format('%s products are low', n), 'details', jsonb_build_object('low', n));
END $$;

CREATE OR REPLACE FUNCTION shop.close_old_orders(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    closed integer;
BEGIN
    DELETE FROM shop.orders WHERE placed_at < now() - make_interval(days => (payload ->> 'days')::integer);
    GET DIAGNOSTICS closed = ROW_COUNT;
    RETURN jsonb_build_object('success', true, 'message', format('%s orders closed', closed), 'details', jsonb_build_object('closed', closed));
END $$;

INSERT INTO rota.jobs (name, kind, function_name, description, default_payload, events, timeout_seconds)
VALUES ('count_sale', 'sql', 'shop.count_sale', 'Counts sales when a parcel is packed.', NULL, '{order.packed}', 10),
       ('check_stock', 'sql', 'shop.check_stock', 'Warns about products that are running out.', '{"least": 5}', '{}', 10),
       ('close_old_orders', 'sql', 'shop.close_old_orders', 'Deletes old orders.', '{"days": 30}', '{}', 60)
ON CONFLICT DO NOTHING;

INSERT INTO rota.schedules (name, job, interval_seconds, cron, timezone, description, tags)
VALUES ('stock-check', 'check_stock', 300, NULL, 'UTC', 'Finds products that are running out.', '{warehouse}'),
       ('old-orders', 'close_old_orders', NULL, '15 3 * * *', 'America/New_York', '', '{}')
ON CONFLICT DO NOTHING;
