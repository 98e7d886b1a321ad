"""Numbers for Prometheus, in its text format. Nothing about a single person or request."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

from murmuration.collector.status import Status
from murmuration.server.app import Collector


def exposition(
    collector: Collector,
    counts: Mapping[str, Mapping[str, int]],
    trainings: Mapping[str, Status] | None = None,
) -> str:
    """Return all metrics; what became of reports comes from the store, so it survives restarts."""
    lines = ["# TYPE murmur_reports_total counter"]
    lines += [
        f'murmur_reports_total{{campaign="{campaign}",outcome="{outcome}"}} {n}'
        for campaign, of_campaign in counts.items()
        for outcome, n in of_campaign.items()
    ]
    lines.append("# TYPE murmur_requests_total counter")
    lines += [
        f'murmur_requests_total{{route="{route}",status="{status}"}} {n}'
        for (route, status), n in sorted(collector.answers.items())
    ]
    lines += _of_trainings(trainings or {})
    ingest = collector.ingest
    singles = {
        "murmur_uploads_waiting gauge": ingest.uploads_waiting,
        "murmur_commits_total counter": ingest.commits,
        "murmur_commit_failures_total counter": ingest.failures,
        "murmur_commit_seconds_total counter": ingest.commit_seconds,
        "murmur_open_requests gauge": collector.open_requests,
        "murmur_open_streams gauge": collector.streams.used,
        "murmur_body_bytes gauge": collector.room.used,
        "murmur_peak_memory_bytes gauge": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "murmur_uptime_seconds gauge": time.time() - collector.started,
    }
    for name, value in singles.items():
        lines += [f"# TYPE {name}", f"{name.split()[0]} {value}"]
    return "\n".join(lines) + "\n"


def _of_trainings(trainings: Mapping[str, Status]) -> list[str]:
    """Return how far trainings are."""
    lines = []
    for name, status in trainings.items():
        training = status.training
        if training is None or not training.rounds:
            continue
        last = training.rounds[-1]
        for what, value in (
            ("murmur_training_round", last.number),
            ("murmur_training_round_people", last.people),
            ("murmur_training_round_size", last.size),
            ("murmur_training_ended", int(training.ended)),
        ):
            lines += [f"# TYPE {what} gauge", f'{what}{{campaign="{name}"}} {value}']
    return lines
