"""The scenarios in the order in which they run. Each has topics of its own and can run alone."""

import json
from collections.abc import Callable, Mapping

from transcripts.scenarios import (
    acls,
    advertised_apis,
    api_versions,
    broker_configs,
    client_quotas,
    config_resources,
    configs,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_producers,
    fetch,
    fetch_sessions,
    find_coordinator,
    groups_admin,
    groups_classic_errors,
    groups_consumer,
    groups_consumer_edge_cases,
    groups_cooperative,
    groups_eager,
    groups_limits,
    groups_migration,
    groups_offsets,
    groups_static,
    idempotent_producers,
    leaders_and_reassignments,
    list_offsets,
    log_dirs,
    metadata,
    produce,
    produce_conversion,
    produce_errors,
    produce_validation,
    read_committed,
    scram_credentials,
    transactional_offsets,
    transactional_produce,
    transactions,
    transactions_concurrent,
    transactions_older,
)
from transcripts.steps import Step
from transcripts.transcript import Transcript

MODULES = (
    api_versions,
    advertised_apis,
    metadata,
    describe_cluster,
    create_topics,
    delete_topics,
    configs,
    broker_configs,
    config_resources,
    acls,
    client_quotas,
    scram_credentials,
    log_dirs,
    produce,
    produce_errors,
    produce_validation,
    produce_conversion,
    idempotent_producers,
    describe_producers,
    leaders_and_reassignments,
    fetch,
    fetch_sessions,
    list_offsets,
    find_coordinator,
    groups_eager,
    groups_cooperative,
    groups_static,
    groups_consumer,
    groups_consumer_edge_cases,
    groups_migration,
    groups_offsets,
    groups_admin,
    groups_classic_errors,
    groups_limits,
    transactional_offsets,
    transactions,
    transactions_older,
    transactions_concurrent,
    transactional_produce,
    read_committed,
)
SCENARIOS: dict[str, Callable[[Transcript], None]] = {
    module.__name__.rpartition(".")[2]: module.run for module in MODULES
}
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "10",
    "group.consumer.assignment.interval.ms": "0",
}
"""The settings of the broker: groups rebalance without a delay."""

SETTINGS_OF = {
    "groups_limits": groups_limits.SETTINGS,
    "transactional_produce": transactional_produce.SETTINGS,
    "transactions": transactions.SETTINGS,
}
"""The settings of scenarios that need others."""

ALONE = frozenset(
    {
        "find_coordinator",
        "broker_configs",
        "transactional_offsets",
        "transactions",
        "transactions_older",
        "transactions_concurrent",
        "transactional_produce",
        "read_committed",
    }
)
"""Scenarios that change later responses: FindCoordinator for a transaction makes the broker create
`__transaction_state`; configs of brokers concern all topics."""


def settings_of(scenario: str) -> Mapping[str, str]:
    return SETTINGS_OF.get(scenario, SETTINGS)


def broker_of(scenario: str) -> str:
    """The name of the broker that the scenario runs on; scenarios with the same name share it."""
    return scenario if scenario in ALONE else json.dumps(settings_of(scenario))


def run_scenario(scenario: str, host: str, port: int) -> list[Step]:
    """Run one scenario against a broker and return its steps with the responses."""
    transcript = Transcript(host, port)
    try:
        SCENARIOS[scenario](transcript)
    finally:
        transcript.close()
    return transcript.steps
