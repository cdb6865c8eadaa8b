"""The cast at noon, a policy to taste, and a probe for whom needs one."""

import pytest

from controlplane import clock
from controlplane.evidence import store
from controlplane.models import Circuit, Probe
from controlplane.services import circuits, policies
from tests import factories


@pytest.fixture
def cast(frozen_clock, db):
    store.forget()
    return factories.cast()


@pytest.fixture
def set_policy():
    """Publish circuit fields for a dependency."""

    def publish(dependency, **values):
        return policies.publish(
            environment=dependency.environment,
            level="dependency",
            dependency=dependency,
            values=values,
            reason="for the test",
            actor="petra",
            now=clock.now(),
        )

    return publish


@pytest.fixture
def consider():
    return lambda dependency, **more: circuits.consider(dependency_id=dependency.pk, now=clock.now(), **more)


@pytest.fixture
def row_of():
    return lambda dependency: Circuit.objects.get(dependency=dependency)


@pytest.fixture
def add_probe():
    def add(dependency, operation="web_search"):
        return Probe.objects.create(
            dependency=dependency, operation=operation, spec={}, updated_at=clock.now(), updated_by="petra"
        )

    return add
