"""Which outcomes are failures is said once, in the core; every sum follows."""

import pytest
from django.db import connection
from recloser.core.types import FAILURES, SUCCESSES, Outcome

from controlplane.evidence import outcomes
from controlplane.models import Observation
from controlplane.selectors.figures import Figure
from controlplane.services.ingest.wire import Counts
from tests import factories
from tests.controlplane.evidence.batches import observe

WORDS = [outcome.value for outcome in Outcome]


@pytest.mark.parametrize("word", WORDS)
def test_counts_on_the_wire_and_figures_know_a_failure_by_the_cores_list(word):
    one = dict.fromkeys(WORDS, 0) | {word: 1}

    told = {Counts(**one).failures, Figure(**one).failures, outcomes.failures(one)}

    assert told == {int(word in FAILURES)}


@pytest.mark.django_db
@pytest.mark.parametrize("word", WORDS)
def test_so_do_the_sums_in_the_database(word, frozen_clock):
    cast = factories.cast()
    observe(cast.sessions[0], cast.search_api, count=False)
    Observation.objects.update(**{word: 1})

    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {outcomes.FAILED}, {outcomes.SUCCEEDED}, {outcomes.JUDGED} FROM observation")
        sums = cursor.fetchone()
    expressed = Observation.objects.values_list(outcomes.failed(), outcomes.succeeded()).get()
    failing = Observation.objects.filter(outcomes.any_of(outcomes.FAILURE_COLUMNS)).exists()

    assert sums == (int(word in FAILURES), int(word in SUCCESSES), int(word in FAILURES | SUCCESSES))
    assert expressed == sums[:2]
    assert failing == (word in FAILURES)
