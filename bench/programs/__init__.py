"""What the bench starts: one program for each system, all with the same command line.

    PROGRAM prepare                     make the schema in the database that PG* names
    PROGRAM one N [sync]                enqueue N runs one by one; print {"seconds": …}
    PROGRAM bulk N                      enqueue N runs in one transaction; print {"seconds": …}
    PROGRAM paced N MILLISECONDS        enqueue one at a time; print {"sent": [nanoseconds, …]}
    PROGRAM steady RATE SECONDS         enqueue so many a second, a part of them every 100 ms;
                                        print {"runs": …, "seconds": …}
    PROGRAM work                        be a worker until SIGTERM

The payload is {"n": i}, counted from 0; the last one of a bulk is {"n": -1}. A body whose n is
not above 0 writes `n nanoseconds` into the pipe BENCH_MARKS, and with BENCH_STAMPS set every body
does. A worker that is ready writes `ready`.
"""
