SELECT rota.fold_errors() AS folded
