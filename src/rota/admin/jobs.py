"""What one can know of jobs."""

from __future__ import annotations

from rota.admin.face import AsyncFace, Face, SyncFace, command
from rota.model.job import JobInfo
from rota.store import jobs
from rota.store.plans import Plan

Found = list[JobInfo]


class JobCommands(Face):
    @command
    def list(self) -> Plan[Found]:
        """Every job that some application has registered, by name."""
        return jobs.list_jobs()

    @command
    def get(self, name: str) -> Plan[JobInfo]:
        """UnknownJob if no application has registered it."""
        return jobs.find_job(name)


class Jobs(JobCommands, AsyncFace):
    """`app.jobs`"""

    @property
    def sync(self) -> SyncJobs:
        return SyncJobs(self.database, self.actor)


class SyncJobs(JobCommands, SyncFace):
    """`app.jobs.sync`"""
