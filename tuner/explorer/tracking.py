"""Where MLflow shows a trial: the run by its key, and the address of the pages."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from tiertune.tuner.journal_claim import Claim

PAGES = "http://127.0.0.1:5000"
"""Where `tiertune ui --mlflow` has MLflow's pages."""


def tracking_of(folder: Path, results: Path) -> tuple[str, str] | None:
    """Tracking address and experiment of the campaign in `folder`, None where it is not tracked."""
    import yaml

    from tiertune.tuner.tracking import tracking_uri

    try:
        stored = yaml.safe_load((folder / "campaign.yaml").read_text(encoding="utf-8"))["tracking"]
        if not stored["mlflow"]:
            return None
        uri, experiment = tracking_uri(results, stored["uri"]), str(stored["experiment"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    if uri.startswith("sqlite:") and not Path(uri.removeprefix("sqlite:///")).is_file():
        return None
    return uri, experiment


def run_of(uri: str, experiment: str, claim: Claim, key: str) -> tuple[str, str] | None:
    """Experiment and run of what has `key` in MLflow, None where it was not sent. Raises as MLflow does."""
    from tiertune.tuner.mlflow_runs import mlflow_client

    client = mlflow_client(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return None
    wanted = f"tags.`tiertune.campaign` = '{claim.identity}' and tags.`tiertune.key` = '{key}'"
    runs = client.search_runs([found.experiment_id], wanted, max_results=1)
    return (str(found.experiment_id), str(runs[0].info.run_id)) if runs else None


def address_of(uri: str, pages: str | None, experiment: str, run: str) -> str:
    """The page of a run: below `pages` where that is given, else at the tracking server itself."""
    base = pages or (uri if uri.startswith(("http://", "https://")) else PAGES)
    return f"{base.rstrip('/')}/#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"


def answers(address: str, timeout_s: float = 0.5) -> bool:
    """Whether a server listens there; one that does not would leave a reader before an empty page."""
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "127.0.0.1", port), timeout_s):
            return True
    except (OSError, ValueError):  # a campaign's file may name what is no address
        return False
