-- A list is planned for the filters that it has: a plan for all of them would read everything.
SELECT set_config('plan_cache_mode', 'force_custom_plan', %(is_local)s::boolean)
