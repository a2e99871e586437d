"""The server: OpenEnv's routes over the environment. `uvicorn server.app:app` serves it."""

import argparse
import os
from functools import partial

import uvicorn
from openenv.core.env_server.http_server import create_app

from finport_openenv.models import FinportAction, FinportObservation, FinportState
from finport_openenv.server.finport_environment import FinportEnvironment
from finport_openenv.server.serving import Serving, Settings

serving = Serving(Settings.read(os.environ))

app = create_app(
    partial(FinportEnvironment, serving),
    FinportAction,
    FinportObservation,
    env_name="finport_openenv",
    max_concurrent_envs=serving.settings.sessions,
    state_cls=FinportState,
)
app.router.on_shutdown.append(serving.close)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    uvicorn.run(app, host=given.host, port=given.port)


if __name__ == "__main__":
    main()
