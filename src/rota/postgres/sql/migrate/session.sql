SELECT current_user, current_setting('search_path')
