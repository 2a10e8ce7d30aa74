-- The audit is kept for ever, and people look for what is rare in it: each of its filters finds the last entries by itself.
CREATE INDEX audit_action ON rota.audit (action, id);
CREATE INDEX audit_noun ON rota.audit (object_type, id);
CREATE INDEX audit_name ON rota.audit (object_id, id);
DROP INDEX rota.audit_object;
