from typing import get_args

from cache import lifetime_s
from manifests import Timeliness


def test_every_timeliness_has_a_lifetime_and_slower_data_lives_longer() -> None:
    assert {t: lifetime_s(t) > 0 for t in get_args(Timeliness)} == dict.fromkeys(
        get_args(Timeliness), True
    )
    order = ("realtime", "daily", "weekly", "monthly", "periodic", "static")
    lives = [lifetime_s(t) for t in order]
    assert lives == sorted(lives)
