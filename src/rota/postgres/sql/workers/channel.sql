-- Where all workers are called.
SELECT s.channel FROM rota.settings s
