"""Who plays: the recorded tools, and the dependency each of them stands on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

ENVIRONMENT = "prod"
AGENT = "travel-planner"
OUTAGE_AT = "hotels-api"

DEPENDENCY_OF = {
    "get_all_hotels_in_city": "hotels-api",
    "get_hotels_prices": "hotels-api",
    "get_hotels_address": "hotels-api",
    "get_rating_reviews_for_hotels": "hotels-api",
    "reserve_hotel": "hotels-api",
    "get_all_restaurants_in_city": "restaurants-api",
    "get_rating_reviews_for_restaurants": "restaurants-api",
    "get_cuisine_type_for_restaurants": "restaurants-api",
    "check_restaurant_opening_hours": "restaurants-api",
    "get_price_for_restaurants": "restaurants-api",
    "get_restaurants_address": "restaurants-api",
    "get_dietary_restrictions_for_all_restaurants": "restaurants-api",
    "get_all_car_rental_companies_in_city": "cars-api",
    "get_car_types_available": "cars-api",
    "get_car_price_per_day": "cars-api",
    "get_car_fuel_options": "cars-api",
    "get_rating_reviews_for_car_rental": "cars-api",
    "get_flight_information": "flights-api",
    "create_calendar_event": "calendar-api",
    "send_email": "mail-api",
    "get_user_information": "profile-db",
}
SIDE_EFFECT = {"reserve_hotel": "side_effect", "create_calendar_event": "side_effect", "send_email": "side_effect"}


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run as its source recorded it."""

    name: str
    agent: str
    steps: list[dict[str, Any]]


def recorded_runs() -> list[RecordedRun]:
    """The sample, in file order."""
    with (DATA / "runs.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [RecordedRun(name=row["run"], agent=row["agent"], steps=row["steps"]) for row in rows]


def tools_array() -> list[dict[str, Any]]:
    """The array that the agents send with every model request, OpenAI-shaped."""
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in DEPENDENCY_OF
    ]
