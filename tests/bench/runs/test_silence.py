"""A run that asked an endpoint in vain: it fails, and says where that was and what it heard."""

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli.main import main
from tests.support.answers import envelope
from tests.support.servers import json_server

FINE = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


def answering(*statuses: int) -> AbstractContextManager[str]:
    """A model whose endpoint answers with these in turn, then with the last; 0 breaks off."""
    left = [*statuses]

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object] | None:
        if request.command == "GET":
            return 200, {"status": "ok", "upstream": "simulated", "mode": "live"}
        if request.path.startswith("/v1/calls"):
            return 404, {}  # a gateway before streams of calls
        status = left.pop(0) if len(left) > 1 else left[0]
        said = {**FINE, **envelope(1)} if status == 200 else {"error": {"message": "not so"}}
        return (status, said) if status else None

    return json_server(answer)


def run(*options: str) -> Result:
    command = ["run", "starter", "--episodes", "3", "--out", "out", *options]
    return CliRunner(env={"FINPORT_CACHE_DIR": "cache"}).invoke(main, command)


def model(url: str) -> tuple[str, ...]:
    asked = ("--agent", "llm", "--model", "m", "--base-url", f"{url}/v1")
    return (*asked, "--upstream", "simulated")


def judge(url: str) -> tuple[str, ...]:
    return ("--judge", "llm", "--judge-model", "j", "--judge-base-url", f"{url}/v1")


@pytest.mark.parametrize("status", [401, 404])
def test_a_model_that_never_answered_fails_the_run_and_is_named(status: int) -> None:
    with answering(status) as url:
        done = run(*model(url), "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["usage"]["model_calls"]["failed"] == 3
    assert f"the agent's model at {url}/v1 answered none of 3 requests" in done.stderr
    assert f"answered {status}" in done.stderr
    assert "not so" in done.stderr


def test_a_model_that_answered_once_fails_no_run_and_the_rest_is_counted() -> None:
    with answering(200, 404) as url:
        done = run(*model(url), "--concurrency", "1", "--judge", "none")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "the agent's model: 3 requests in 3 attempts, 2 failed" in done.stdout


def test_a_judge_that_never_answered_fails_the_run_and_is_named() -> None:
    with answering(401) as url:
        done = run(*judge(url), "--upstream", "simulated")
    assert done.exit_code == 1
    assert f"the judge's model at {url}/v1 answered none of" in done.stderr
    assert "answered 401" in done.stderr
    assert "the first judge: the model's endpoint answered 401" in done.stdout
    assert "TESR" in done.stdout
    with answering(401) as other:
        asked = (*judge(other), "--upstream", "simulated", "--resume")
        refused = run(*asked)
        assert refused.exit_code == 1
        moved = f"judge_base_url was '{url}/v1' and is '{other}/v1'"
        assert moved in refused.stderr
        assert f"the judge's model at {other}/v1" in run(*asked, "--accept-changes").stderr
    assert json.loads(Path("out/run.json").read_text())["accepted"] == [moved]


def test_a_judge_that_answers_no_request_of_score_fails_it() -> None:
    assert run("--upstream", "simulated").exit_code == 0
    with answering(401) as url:
        done = CliRunner().invoke(main, ["score", "out", *judge(url)])
    assert done.exit_code == 1
    assert f"the judge's model at {url}/v1 answered none of" in done.stderr


def test_a_gateway_that_never_answered_a_call_fails_the_run_and_is_named() -> None:
    with answering(0) as url:
        done = run("--gateway", url, "--no-call-rate", "0")
    assert done.exit_code == 1
    assert f"the gateway at {url} answered none of" in done.stderr
    assert "the gateway did not answer: ServerDisconnectedError" in done.stderr


def test_a_run_says_if_its_gateway_has_no_streams_of_calls() -> None:
    with answering(200) as url:
        done = run("--gateway", url)
    assert done.exit_code == 0
    assert "each call was a request of its own, which is slower" in done.stderr
    assert "has no streams of calls (status 404)" in done.stderr
    about = json.loads(Path("out/run.json").read_text())
    assert "(status 404)" in about["gateway_calls"]["no_streams"]


def test_a_run_that_asked_nobody_is_no_failure() -> None:
    assert run("--upstream", "simulated", "--no-call-rate", "1").exit_code == 0
