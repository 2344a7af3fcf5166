"""Journeys between real cities over plausible roads, for the simulated fleet. Pure.

Before it: a random source. After it: `tracking.simulation`, which drives along them.
"""

import heapq
from collections import defaultdict
from functools import cache
from itertools import pairwise
from math import cos, pi, radians, sin
from random import Random
from zlib import crc32

from tracking.filters import distance_m

Place = tuple[float, float]  # latitude, longitude in degrees

CITIES: dict[str, Place] = {
    "Amsterdam": (52.373, 4.892), "Athens": (37.984, 23.728),
    "Barcelona": (41.387, 2.170), "Bari": (41.117, 16.872),
    "Basel": (47.560, 7.588), "Belgrade": (44.804, 20.465),
    "Berlin": (52.520, 13.405), "Bern": (46.948, 7.447),
    "Bilbao": (43.263, -2.935), "Birmingham": (52.480, -1.903),
    "Bologna": (44.494, 11.343), "Bordeaux": (44.838, -0.579),
    "Bratislava": (48.149, 17.107), "Bremen": (53.079, 8.802),
    "Brno": (49.195, 16.607), "Brussels": (50.850, 4.349),
    "Bucharest": (44.433, 26.103), "Budapest": (47.498, 19.040),
    "Cologne": (50.938, 6.960), "Copenhagen": (55.676, 12.568),
    "Dijon": (47.322, 5.041), "Dresden": (51.051, 13.738),
    "Edinburgh": (55.953, -3.189), "Florence": (43.770, 11.256),
    "Frankfurt": (50.111, 8.682), "Gdańsk": (54.352, 18.647),
    "Geneva": (46.204, 6.143), "Gothenburg": (57.709, 11.975),
    "Graz": (47.071, 15.438), "Hamburg": (53.551, 9.994),
    "Hannover": (52.376, 9.732), "Innsbruck": (47.263, 11.395),
    "Kraków": (50.062, 19.938), "Leipzig": (51.340, 12.375),
    "Lille": (50.629, 3.057), "Linz": (48.306, 14.286),
    "Lisbon": (38.722, -9.139), "Ljubljana": (46.056, 14.506),
    "London": (51.507, -0.128), "Lyon": (45.764, 4.836),
    "Madrid": (40.417, -3.704), "Malmö": (55.605, 13.000),
    "Manchester": (53.480, -2.243), "Marseille": (43.296, 5.370),
    "Milan": (45.464, 9.190), "Munich": (48.137, 11.576),
    "Nantes": (47.218, -1.554), "Naples": (40.852, 14.268),
    "Niš": (43.321, 21.896), "Nuremberg": (49.452, 11.077),
    "Oslo": (59.913, 10.752), "Paris": (48.857, 2.352),
    "Plovdiv": (42.136, 24.745), "Porto": (41.158, -8.629),
    "Poznań": (52.407, 16.930), "Prague": (50.075, 14.438),
    "Rome": (41.903, 12.496), "Salzburg": (47.810, 13.055),
    "Sevilla": (37.389, -5.984), "Skopje": (41.998, 21.425),
    "Sofia": (42.698, 23.322), "Stockholm": (59.329, 18.069),
    "Strasbourg": (48.573, 7.752), "Stuttgart": (48.776, 9.183),
    "Thessaloniki": (40.640, 22.944), "Timișoara": (45.749, 21.227),
    "Toulouse": (43.605, 1.444), "Turin": (45.070, 7.687),
    "Valencia": (39.470, -0.376), "Venice": (45.440, 12.316),
    "Verona": (45.438, 10.992), "Vienna": (48.208, 16.373),
    "Vilnius": (54.687, 25.280), "Warsaw": (52.230, 21.012),
    "Wrocław": (51.108, 17.039), "Zagreb": (45.815, 15.982),
    "Zaragoza": (41.649, -0.889), "Zürich": (47.377, 8.541),
}  # fmt: skip

# Neighbours by road, bridge or tunnel; each line is one stretch of a journey.
_ROADS = """
Lisbon Porto, Lisbon Sevilla, Porto Madrid, Sevilla Madrid, Madrid Zaragoza
Madrid Valencia, Valencia Barcelona, Zaragoza Barcelona, Zaragoza Bilbao
Bilbao Bordeaux, Bordeaux Toulouse, Bordeaux Nantes, Toulouse Barcelona
Toulouse Marseille, Nantes Paris, Bordeaux Paris, Paris Lille, Paris Dijon
Dijon Lyon, Lyon Marseille, Lyon Geneva, Lyon Turin, Marseille Turin, Dijon Basel
Paris Strasbourg, Lille Brussels, Lille London, London Birmingham
Birmingham Manchester, Manchester Edinburgh, Brussels Amsterdam, Brussels Cologne
Amsterdam Bremen, Amsterdam Cologne, Cologne Frankfurt, Cologne Hannover
Frankfurt Strasbourg, Frankfurt Nuremberg, Frankfurt Leipzig, Strasbourg Basel
Strasbourg Stuttgart, Stuttgart Munich, Stuttgart Nuremberg, Nuremberg Munich
Nuremberg Leipzig, Nuremberg Prague, Bremen Hamburg, Bremen Hannover
Hamburg Hannover, Hamburg Berlin, Hamburg Copenhagen, Copenhagen Malmö
Malmö Gothenburg, Gothenburg Oslo, Gothenburg Stockholm, Malmö Stockholm
Hannover Berlin, Berlin Leipzig, Berlin Dresden, Berlin Poznań, Leipzig Dresden
Dresden Prague, Dresden Wrocław, Prague Brno, Prague Linz, Wrocław Poznań
Wrocław Kraków, Poznań Warsaw, Poznań Gdańsk, Gdańsk Warsaw, Warsaw Kraków
Warsaw Vilnius, Kraków Brno, Brno Vienna, Brno Bratislava, Vienna Bratislava
Vienna Linz, Vienna Graz, Bratislava Budapest, Linz Salzburg, Salzburg Munich
Salzburg Innsbruck, Munich Innsbruck, Innsbruck Verona, Innsbruck Zürich
Zürich Basel, Zürich Bern, Zürich Milan, Bern Basel, Bern Geneva, Geneva Turin
Turin Milan, Milan Verona, Milan Bologna, Verona Venice, Verona Bologna
Venice Bologna, Venice Ljubljana, Bologna Florence, Florence Rome, Rome Naples
Naples Bari, Graz Ljubljana, Ljubljana Zagreb, Zagreb Budapest, Zagreb Belgrade
Budapest Timișoara, Timișoara Belgrade, Timișoara Bucharest, Belgrade Niš
Niš Sofia, Niš Skopje, Sofia Plovdiv, Sofia Bucharest, Skopje Thessaloniki
Sofia Thessaloniki, Thessaloniki Athens
"""
_PIECE_M = 4_000.0


def journey(random: Random, origin: str) -> tuple[str, list[Place]]:
    """A destination some roads away, and the points of the way to it."""
    while True:
        target = random.choice(list(CITIES))
        cities = shortest(origin, target)
        if 2 <= len(cities) <= 7:
            break
    points = [CITIES[origin]]
    for here, there in pairwise(cities):
        points += road(here, there)[1:]
    return target, points


@cache
def road(here: str, there: str) -> list[Place]:
    """The bends between two neighbours; the same in both directions."""
    if here > there:
        return road(there, here)[::-1]
    start, end = CITIES[here], CITIES[there]
    bends = Random(crc32(f"{here}-{there}".encode()))  # noqa: S311 (a drawing)
    waves = [(bends.uniform(-0.03, 0.03) / n, n) for n in (1, 2, 3, 5, 9)]
    pieces = max(2, round(distance_m(*start, *end) / _PIECE_M))
    return [_bent(start, end, step / pieces, waves) for step in range(pieces + 1)]


def _bent(
    start: Place, end: Place, share: float, waves: list[tuple[float, int]]
) -> Place:
    """Aside from the straight line by some sines that are zero at both ends."""
    d_lat, d_lon = end[0] - start[0], end[1] - start[1]
    aside = sum(height * sin(pi * count * share) for height, count in waves)
    scale = cos(radians(start[0]))
    return (
        start[0] + d_lat * share + d_lon * scale * aside,
        start[1] + d_lon * share - d_lat / scale * aside,
    )


@cache
def shortest(origin: str, target: str) -> list[str]:
    """The cities on the shortest way by road, both ends included."""
    queue: list[tuple[float, list[str]]] = [(0.0, [origin])]
    seen: set[str] = set()
    while queue:
        length, way = heapq.heappop(queue)
        if way[-1] == target:
            return way
        if way[-1] in seen:
            continue
        seen.add(way[-1])
        for city in _neighbours()[way[-1]]:
            leg = distance_m(*CITIES[way[-1]], *CITIES[city])
            heapq.heappush(queue, (length + leg, [*way, city]))
    raise ValueError(f"no road from {origin} to {target}")


@cache
def _neighbours() -> dict[str, list[str]]:
    found = defaultdict(list)
    for pair in _ROADS.replace("\n", ",").split(","):
        if pair.strip():
            here, there = pair.split()
            found[here].append(there)
            found[there].append(here)
    return dict(found)
