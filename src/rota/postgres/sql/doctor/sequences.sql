SELECT b.sequence, b.next_value, b.highest FROM rota.sequences_behind() b
