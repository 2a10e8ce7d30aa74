SELECT rota.fold_counts()
